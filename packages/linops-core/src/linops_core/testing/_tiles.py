"""Cutting an operator along one dimension, and putting the matrix together by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from nameddim import NamedDimension

from .._base._linop import NamedLinop
from .._base._tile import Window

Tiles = Sequence[tuple[slice, NamedLinop]]


def tiles_of(
    linop: NamedLinop, dim: NamedDimension, length: int, sizes: Mapping[str, int]
) -> Tiles:
    """Return the tiles of ``linop`` along ``dim``, each with its slice; the last may be shorter."""
    size = sizes[dim]
    pieces = [slice(start, min(start + length, size)) for start in range(0, size, length)]
    return [(piece, linop.split(linop, {dim: piece})) for piece in pieces]


def whole_of(
    tiles: Tiles, linop: NamedLinop, dim: NamedDimension, sizes: Mapping[str, int]
) -> Tensor:
    """Return the matrix that ``tiles`` make up by the role of ``dim`` in ``linop``."""
    return sum(
        (placed(tile, linop, {dim: piece}, sizes) for piece, tile in tiles),
        start=torch.zeros((), dtype=torch.complex128),
    )


def placed(part: NamedLinop, linop: NamedLinop, window: Window, sizes: Mapping[str, int]) -> Tensor:
    """Return the matrix of the part of ``linop`` between slices, with zeros around it."""
    if (part.ishape, part.oshape) != (linop.ishape, linop.oshape):
        raise ValueError(f"{linop.signature}: a tile must have that shape, got {part.shape}")
    rows, columns = (_positions(side, window, sizes) for side in (linop.oshape, linop.ishape))
    n_rows, n_columns = (
        torch.Size([sizes[dim] for dim in side]).numel() for side in (linop.oshape, linop.ishape)
    )
    whole = torch.zeros(n_rows, n_columns, dtype=torch.complex128)
    own = {str(dim): piece.stop - piece.start for dim, piece in window.items()}
    whole[rows[:, None], columns] = part.to_dense({**sizes, **own}, whole.dtype)
    return whole


def supports_of(linop: NamedLinop) -> Window:
    """Return the support of each dimension along which it is known."""
    supports = {dim: linop.support(dim) for dim in linop.dims}
    return {dim: piece for dim, piece in supports.items() if piece is not None}


def within_supports(linop: NamedLinop, window: Window, sizes: Mapping[str, int]) -> Tensor:
    """Return the matrix of what is within the supports, with zeros around; zero if one is empty."""
    if any(piece.start >= piece.stop for piece in window.values()):
        rows, columns = (
            torch.Size([sizes[d] for d in side]).numel() for side in (linop.oshape, linop.ishape)
        )
        return torch.zeros(rows, columns, dtype=torch.complex128)
    return placed(linop.split(linop, window), linop, window, sizes)


def _positions(
    names: tuple[NamedDimension, ...], window: Window, sizes: Mapping[str, int]
) -> Tensor:
    """Return where, in the flattened side, the elements between slices are."""
    lengths = [sizes[dim] for dim in names]
    all_positions = torch.arange(torch.Size(lengths).numel()).reshape(lengths)
    return all_positions[tuple(window.get(dim, slice(None)) for dim in names)].flatten()
