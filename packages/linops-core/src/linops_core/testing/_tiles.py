"""Cutting an operator along one dimension, and putting the matrix together by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from nameddim import NamedDimension

from .._linop import NamedLinop
from .._roles import Role

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
    lengths = [[sizes[name] for name in names] for names in (linop.oshape, linop.ishape)]
    n_rows, n_columns = (torch.Size(side).numel() for side in lengths)
    whole = torch.zeros(n_rows, n_columns, dtype=torch.complex128)
    role = linop.role(dim)
    for piece, tile in tiles:
        if (tile.ishape, tile.oshape) != (linop.ishape, linop.oshape):
            raise ValueError(f"{linop.signature}: a tile must have that shape, got {tile.shape}")
        part = tile.to_dense({**sizes, str(dim): piece.stop - piece.start})
        rows, columns = torch.arange(n_rows), torch.arange(n_columns)
        if role in (Role.BATCH, Role.OUTPUT):
            rows = _positions(lengths[0], linop.oshape.index(dim), piece)
        if role in (Role.BATCH, Role.INPUT):
            columns = _positions(lengths[1], linop.ishape.index(dim), piece)
        whole[rows[:, None], columns] += part
    return whole


def _positions(lengths: Sequence[int], axis: int, piece: slice) -> Tensor:
    """Return where, in the flattened side, the elements of a slice along one axis are."""
    all_positions = torch.arange(torch.Size(lengths).numel()).reshape(list(lengths))
    return all_positions.narrow(axis, piece.start, piece.stop - piece.start).flatten()
