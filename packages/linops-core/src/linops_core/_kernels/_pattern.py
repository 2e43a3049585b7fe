"""Patterns of axes as in einops, ``(a b) ... c``, and the conversion of tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TypeAlias

import torch
from torch import Tensor

Item: TypeAlias = tuple[str, ...]
"""The factors of one axis of a tensor, the slowest first; none for an axis of size 1."""

RUN: Item = ("...",)
"""Stands for any number of axes that stay together."""

_ITEM = re.compile(r"\.\.\.|\(([\w\s]*)\)|\w+")


def parsed_pattern(pattern: str) -> tuple[Item, ...]:
    """Return the items of ``pattern``; each axis and the ``...`` may occur once."""
    if not isinstance(pattern, str):
        raise TypeError(f"Rearrange: a pattern must be a string, got {pattern!r}")
    items: list[Item] = []
    for match in _ITEM.finditer(pattern):
        names = [match[0]] if match[1] is None else match[1].split()
        items.append(tuple([name for name in names if name != "1"]))
    axes = names_of(items)
    are_names = all(axis in RUN or axis.isidentifier() for axis in axes)
    if not are_names or len({*axes}) < len(axes) or _ITEM.sub("", pattern).strip():
        raise ValueError(
            "Rearrange: a pattern must be made of axis names, groups (a b) of them, 1 and one "
            f"'...', each name once, got {pattern!r}"
        )
    return tuple(items)


def names_of(items: Iterable[Item]) -> list[str]:
    """Return the elementary axes in order, with ``...`` for a run."""
    return [name for item in items for name in item]


def rearranged(
    x: Tensor, before: Sequence[Item], after: Sequence[Item], lengths: Mapping[str, int]
) -> Tensor:
    """Return ``x``, of pattern ``before``, in pattern ``after``; a view if torch can make one."""
    run = [(f"{RUN[0]}{axis}",) for axis in range(x.ndim - len(before) + 1)]
    before, after = (_with_run(items, run) for items in (before, after))
    sizes: dict[str, int] = {}
    for axis, item in enumerate(before):
        sizes.update(zip(item, _factors(item, axis, x.shape, lengths), strict=True))
    names, new_names = names_of(before), names_of(after)
    if any(len(item) != 1 for item in before):
        x = x.reshape([sizes[name] for name in names])
    if names != new_names:
        x = x.permute([names.index(name) for name in new_names])
    if any(len(item) != 1 for item in after):
        x = x.reshape([prod([sizes[name] for name in item]) for item in after])
    return x


def _with_run(items: Sequence[Item], run: Sequence[Item]) -> list[Item]:
    return [each for item in items for each in (run if item == RUN else [item])]


def _factors(item: Item, axis: int, shape: torch.Size, of_axes: Mapping[str, int]) -> list[int]:
    """Return the length of each factor of one axis."""
    size, lengths = shape[axis], [of_axes.get(name) for name in item]
    if lengths == [None]:
        return [size]
    count = prod([length for length in lengths if length is not None])
    n_unknown = lengths.count(None)
    if n_unknown > 1:
        unknown = [name for name in item if name not in of_axes]
        raise ValueError(
            f"Rearrange: to split a dimension into ({' '.join(item)}) all lengths but one must be "
            f"in axes_lengths, got none for {' and '.join(unknown)}"
        )
    if size % count if n_unknown else size != count:
        raise ValueError(
            f"Rearrange: the size along axis {axis} must be {'a multiple of ' * n_unknown}{count} "
            f"for ({' '.join(item)}), got shape {tuple(shape)}"
        )
    return [size // count if length is None else length for length in lengths]
