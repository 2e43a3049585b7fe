"""Checks of tiles: an operator is cut along a dimension, and its matrix put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from nameddim import NamedDimension

from .._base._linop import NamedLinop
from .._base._roles import Role
from .._base._tile import Window
from ._real_matrices import dense

Tiles: TypeAlias = Sequence[tuple[Window, NamedLinop]]
Close: TypeAlias = Callable[[Tensor, Tensor], bool]


class LawError(ValueError):
    """An operator differs from its matrix, or cannot be sliced without a reason."""


def sizes_of(linop: NamedLinop, given: Mapping[str, int]) -> dict[str, int]:
    """Return the size of each dimension, known to the operator or given by name."""
    own = {dim: linop.size(dim) for dim in linop.dims}
    return {str(dim): given[dim.name] if size is None else size for dim, size in own.items()}


def check_cuts(
    linop: NamedLinop,
    matrix: Tensor,
    sizes: Mapping[str, int],
    close: Close,
    accepts: Callable[[NamedDimension, str], bool],
) -> None:
    """Check the supports of ``linop`` and its tiles of every length along every dimension."""
    is_complex = matrix.is_complex()
    check_supports(linop, sizes, close, is_complex)
    for dim in sorted(linop.dims):
        if linop.role(dim) is Role.OPAQUE:
            reason = linop.why_opaque(dim) or ""
            if not accepts(dim, reason):
                raise LawError(
                    f"{linop!r}\n{dim}: an opaque dimension must have a reason, got {reason!r}"
                )
            continue
        for length in range(1, sizes[dim] + 1):
            tiles = tiles_of(linop, dim, length, sizes)
            for window, tile in tiles:
                own = {**sizes, str(dim): window[dim].stop - window[dim].start}
                check_supports(tile, own, close, is_complex)
            whole = whole_of(tiles, linop, sizes, is_complex)
            check_matrix(whole, matrix, close, f"{linop!r}\n{dim} in tiles of {length}")


def check_supports(
    linop: NamedLinop, sizes: Mapping[str, int], close: Close, is_complex: bool = True
) -> None:
    """Check that ``linop`` equals its part within its supports, with zeros around it."""
    window = {dim: piece for dim in linop.dims if (piece := linop.support(dim)) is not None}
    if not window:
        return
    is_empty = any(piece.start >= piece.stop for piece in window.values())
    part = [] if is_empty else [(window, linop.split(linop, window))]
    found, matrix = whole_of(part, linop, sizes, is_complex), dense(linop, sizes, is_complex)
    check_matrix(found, matrix, close, f"{linop!r}\nthe part within {window}")


def check_matrix(found: Tensor, matrix: Tensor, close: Close, what: str) -> None:
    """Raise a LawError if two matrices differ."""
    if found.shape != matrix.shape or not close(found, matrix):
        raise LawError(f"{what}: the matrix must be\n{matrix}, got\n{found}")


def tiles_of(
    linop: NamedLinop, dim: NamedDimension, length: int, sizes: Mapping[str, int]
) -> Tiles:
    """Return the tiles of ``linop`` along ``dim``, each with its slice; the last may be shorter."""
    starts = range(0, sizes[dim], length)
    windows = [{dim: slice(start, min(start + length, sizes[dim]))} for start in starts]
    return [(window, linop.split(linop, window)) for window in windows]


def whole_of(
    tiles: Tiles, linop: NamedLinop, sizes: Mapping[str, int], is_complex: bool = True
) -> Tensor:
    """Return the sum of the matrices of parts of ``linop``, each with zeros around it."""
    # Over the reals both sides begin with the real and the imaginary parts.
    parts = [] if is_complex else [2]
    rows, columns = (
        [*parts, *(sizes[dim] for dim in side)] for side in (linop.oshape, linop.ishape)
    )
    dtype = torch.complex128 if is_complex else torch.float64
    whole = torch.zeros([*rows, *columns], dtype=dtype)
    all_parts = [slice(None)] * len(parts)
    for window, tile in tiles:
        if (tile.ishape, tile.oshape) != (linop.ishape, linop.oshape):
            raise ValueError(f"{linop.signature}: a tile must have that shape, got {tile.shape}")
        own = {str(dim): piece.stop - piece.start for dim, piece in window.items()}
        sides = ([window.get(dim, slice(None)) for dim in d] for d in (linop.oshape, linop.ishape))
        part = whole[tuple(piece for side in sides for piece in (*all_parts, *side))]
        part += dense(tile, {**sizes, **own}, is_complex).reshape(part.shape)
    return whole.reshape(torch.Size(rows).numel(), torch.Size(columns).numel())
