"""Patterns of axes: ``(a b) ... c``, as those of einops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

Item: TypeAlias = tuple[str, ...]
"""What one axis of a tensor is made of, the slowest factor first; an axis of size 1 of nothing."""

RUN: Item = ("...",)
"""Any number of axes that stay together."""

_TOKEN = re.compile(r"\s*(\.\.\.|[()]|1(?!\w)|[A-Za-z_]\w*)")


def parsed(pattern: str) -> tuple[Item, ...]:
    """Return the items of ``pattern``.

    Raises
    ------
    ValueError
        If it is no pattern, or an axis or the ``...`` is in it twice.

    Examples
    --------
    >>> parsed("... (a b) c 1")
    (('...',), ('a', 'b'), ('c',), ())
    """
    if not isinstance(pattern, str):
        raise TypeError(f"Rearrange: a pattern must be a string, got {pattern!r}")
    items: list[Item] = []
    group: list[str] | None = None
    position, text = 0, pattern.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        token = found[1] if found else text[position:]
        is_part = token not in ("(", ")", "...")
        if found is None or (token == ")" if group is None else token in ("(", "...")):
            raise _error(pattern, f"{token!r} at {position}")
        position = found.end()
        if token == "(":
            group = []
        elif token == ")":
            assert group is not None
            items.append(tuple(group))
            group = None
        elif group is not None:
            group += [token] * (is_part and token != "1")
        else:
            items.append(() if token == "1" else (token,))
    if group is not None:
        raise _error(pattern, "a group that is not closed")
    names = names_of(items)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise _error(pattern, f"{', '.join(twice)} more than once")
    return tuple(items)


def names_of(items: Iterable[Item]) -> list[str]:
    """Return the elementary axes in their order, with ``...`` for the run."""
    return [name for item in items for name in item]


class Place(NamedTuple):
    """One axis of a tensor, or several in a row, in a pattern that may have a run before it."""

    first: int
    """With one axis for the run."""
    behind: bool
    """Whether the run comes before it."""
    item: Item

    def axis(self, extra: int) -> int:
        """Return the axis where the run has ``extra`` more axes than one."""
        return self.first + extra if self.behind else self.first


class Route(NamedTuple):
    """The steps from one pattern to another: split, permute, merge."""

    n_items: int
    split: tuple[Place, ...]
    """Items that are not one axis, in the first pattern."""
    single: tuple[Place, ...]
    """Items that are."""
    order: tuple[int, ...] | None
    """The permutation, or None where there is nothing to permute."""
    run: int | None
    """Which of the axes is the run."""
    merged: tuple[Place, ...]
    """Items that are not one axis, in the second pattern; ``first`` is the first of its axes."""

    def permutation(self, extra: int) -> list[int]:
        """Return the order of all axes where the run has ``extra`` more axes than one."""
        order: list[int] = []
        for axis in self.order or ():
            if axis == self.run:
                order += range(axis, axis + 1 + extra)
            else:
                order.append(axis + extra * (self.run is not None and axis > self.run))
        return order


def route(before: Sequence[Item], after: Sequence[Item]) -> Route:
    """Return the steps from the pattern ``before`` to the pattern ``after``.

    Examples
    --------
    >>> route(parsed("a ... b"), parsed("b a ...")).permutation(extra=1)
    [3, 0, 1, 2]
    """
    here, there = names_of(before), names_of(after)
    run = here.index(RUN[0]) if RUN[0] in here else None
    items = [Place(i, RUN in before[:i], item) for i, item in enumerate(before) if item != RUN]
    starts = [sum(map(len, after[:i])) for i in range(len(after))]
    targets = [
        Place(start, RUN in after[:i], item)
        for i, (start, item) in enumerate(zip(starts, after, strict=True))
    ]
    return Route(
        n_items=len(before),
        split=tuple(place for place in items if len(place.item) != 1),
        single=tuple(place for place in items if len(place.item) == 1),
        order=None if here == there else tuple(here.index(name) for name in there),
        run=run,
        merged=tuple(place for place in targets if len(place.item) != 1),
    )


def _error(pattern: str, what: str) -> ValueError:
    return ValueError(
        "Rearrange: a pattern must be made of axis names, groups (a b) of them, 1 and one '...', "
        f"each name once, got {pattern!r} with {what}"
    )
