"""Patterns of axes, ``(a b) ... c`` as those of einops, and tensors from one to another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TypeAlias

import torch
from torch import Tensor

Item: TypeAlias = tuple[str, ...]
"""What one axis of a tensor is made of, the slowest factor first; an axis of size 1 of nothing."""

RUN: Item = ("...",)
"""Any number of axes that stay together."""

_TOKEN = re.compile(r"\s*(\.\.\.|[()]|1(?!\w)|[A-Za-z_]\w*)")


def parsed(pattern: str) -> tuple[Item, ...]:
    """Return the items of ``pattern``, in which each axis and the ``...`` may be once.

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


def rearranged(
    x: Tensor, before: Sequence[Item], after: Sequence[Item], lengths: Mapping[str, int]
) -> Tensor:
    """Return ``x`` of the pattern ``before`` in ``after``: a view where torch can make one.

    All lengths but one of each group of ``before`` must be given.

    Examples
    --------
    >>> import torch
    >>> x = torch.zeros(2, 3, 5, 7)
    >>> rearranged(x, parsed("a ... b"), parsed("(b a) ..."), {}).shape
    torch.Size([14, 3, 5])
    """
    run = [(f"{RUN[0]}{axis}",) for axis in range(x.ndim - len(before) + 1)]
    before, after = (_with_run(items, run) for items in (before, after))
    sizes: dict[str, int] = {}
    for axis, item in enumerate(before):
        sizes.update(zip(item, _factors(item, axis, x.shape, lengths), strict=True))
    here, there = names_of(before), names_of(after)
    if any(len(item) != 1 for item in before):
        x = x.reshape([sizes[name] for name in here])
    if here != there:
        x = x.permute([here.index(name) for name in there])
    if any(len(item) != 1 for item in after):
        x = x.reshape([prod([sizes[name] for name in item]) for item in after])
    return x


def _with_run(items: Sequence[Item], run: Sequence[Item]) -> list[Item]:
    return [each for item in items for each in (run if item == RUN else [item])]


def _factors(item: Item, axis: int, shape: torch.Size, of_axes: Mapping[str, int]) -> list[int]:
    """Return how long each factor of one axis is."""
    size, lengths = shape[axis], [of_axes.get(name) for name in item]
    if lengths == [None]:
        return [size]
    known = prod([length for length in lengths if length is not None])
    n_unknown = lengths.count(None)
    if n_unknown > 1:
        unknown = [name for name in item if name not in of_axes]
        raise ValueError(
            f"Rearrange: to split a dimension into ({' '.join(item)}) all lengths but one must be "
            f"in axes_lengths, got none for {' and '.join(unknown)}"
        )
    if size % known if n_unknown else size != known:
        raise ValueError(
            f"Rearrange: the size along axis {axis} must be {'a multiple of ' * n_unknown}{known} "
            f"for ({' '.join(item)}), got shape {tuple(shape)}"
        )
    return [size // known if length is None else length for length in lengths]


def _error(pattern: str, what: str) -> ValueError:
    return ValueError(
        "Rearrange: a pattern must be made of axis names, groups (a b) of them, 1 and one '...', "
        f"each name once, got {pattern!r} with {what}"
    )
