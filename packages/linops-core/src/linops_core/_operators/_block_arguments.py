"""What may be said of blocks of an array: their sizes, what a mask of them means, their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from nameddim import NamedDimension, get_nd_shape

from .._base._sizes import is_size, per_axis

Shape: TypeAlias = Sequence[NamedDimension | str]


def window_counts(
    name: str, grid_size: Sequence[int], block_size: Sequence[int], stride: Sequence[int]
) -> tuple[int, ...]:
    """Return how many whole blocks there are along each axis."""
    sizes = (
        per_axis(name, "grid_size", grid_size),
        per_axis(name, "block_size", block_size),
        per_axis(name, "stride", stride),
    )
    if not sizes[0] or len({len(size) for size in sizes}) != 1:
        raise ValueError(
            f"{name}: grid_size, block_size and stride must have one number per dimension, "
            f"got {sizes}"
        )
    for size, length, step in zip(*sizes, strict=True):
        if not all(map(is_size, (size, length, step))) or length > size:
            raise ValueError(
                f"{name}: sizes and strides must be positive integers, and a block must fit into "
                f"the array, got block_size {sizes[1]} and stride {sizes[2]} for an "
                f"array of {sizes[0]}"
            )
    return tuple((n - length) // step + 1 for n, length, step in zip(*sizes, strict=True))


def meaning_of(
    name: str, mask: Tensor, counts: tuple[int, ...], block: tuple[int, ...], given: str | None
) -> str:
    """Return whether a mask selects "blocks" or "elements" of every block."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask)
        raise TypeError(f"{name}: the mask must be a tensor of booleans, got {kind}")
    shapes = {"blocks": counts, "elements": block}
    if given is not None and given not in shapes:
        raise ValueError(f"{name}: mask_of must be one of {[*shapes]}, got {given!r}")
    fitting = [what for what, shape in shapes.items() if tuple(mask.shape) == shape]
    if given in fitting:
        return given
    if given is not None or not fitting:
        wanted = [given] if given else [*shapes]
        raise ValueError(
            f"{name}: the mask must have the shape "
            f"{' or '.join(f'{shapes[what]} (of {what})' for what in wanted)}, "
            f"got shape {tuple(mask.shape)}"
        )
    if len(fitting) > 1:
        raise ValueError(
            f"{name}: mask_of must say what a mask of shape {counts} selects, the blocks or the "
            "elements of every block: both have this shape, got None"
        )
    return fitting[0]


def default_array(ndim: int) -> Shape:
    return get_nd_shape(ndim) if ndim <= 3 else _numbered("N", ndim)


def default_blocks(ndim: int, mask_of: str | None) -> Shape:
    def letters(letter: str) -> tuple[str, ...]:
        if ndim > 3:
            return _numbered(letter, ndim)
        return tuple(f"{letter}{axis}" for axis in "xyz"[:ndim])

    blocks = ("B",) if mask_of == "blocks" else letters("B")
    return (*blocks, *(("E",) if mask_of == "elements" else letters("E")))


def _numbered(letter: str, ndim: int) -> tuple[str, ...]:
    return tuple(f"{letter}{axis or ''}" for axis in range(ndim))
