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

TilesAtWindows: TypeAlias = Sequence[tuple[Window, NamedLinop]]
Close: TypeAlias = Callable[[Tensor, Tensor], bool]


class LawError(ValueError):
    """An operator differs from its matrix, or cannot be sliced and gives no reason."""

    __module__ = "linops_core.testing.strategies"  # a traceback shows the name that users import


def sizes_of(linop: NamedLinop, given: Mapping[str, int]) -> dict[str, int]:
    """Return the size of each dimension, known to the operator or given by name."""
    sizes = {dim: linop.size(dim) for dim in linop.dims}
    return {str(dim): given[dim.name] if size is None else size for dim, size in sizes.items()}


def check_cuts(
    linop: NamedLinop,
    matrix: Tensor,
    sizes: Mapping[str, int],
    close: Close,
    accepts: Callable[[NamedDimension, str], bool],
) -> None:
    """Check the supports of ``linop``, whose matrix is given, and its tiles along every dimension.

    Tiles of one, of more than half and of the whole length are put together, and tiles of two where
    some of them are not at an end.
    """
    is_complex = matrix.is_complex()
    check_supports(linop, matrix, sizes, close)
    for dim in sorted(linop.dims):
        if linop.role(dim) is Role.OPAQUE:
            reason = linop.why_opaque(dim) or ""
            if not accepts(dim, reason):
                raise LawError(
                    f"{linop!r}\n{dim}: an opaque dimension must have a reason, got {reason!r}"
                )
            continue
        size = sizes[dim]
        lengths = {1, 2 if size > 4 else 1, size // 2 + 1, size}
        for length in sorted(lengths) if size else ():
            parts = []
            for window, tile in tiles_of(linop, dim, length, sizes):
                lengths_of_tile = {**sizes, **lengths_of(window)}
                part = dense(tile, lengths_of_tile, is_complex)
                check_supports(tile, part, lengths_of_tile, close)
                parts.append((window, tile, part))
            whole = sum_of(parts, linop, sizes, is_complex)
            check_matrix(whole, matrix, close, f"{linop!r}\n{dim} in tiles of {length}")


def check_supports(
    linop: NamedLinop, matrix: Tensor, sizes: Mapping[str, int], close: Close
) -> None:
    """Check that ``linop`` equals its part within its supports, with zeros around it."""
    window = {dim: piece for dim in linop.dims if (piece := linop.support(dim)) is not None}
    if all(piece == slice(0, sizes[dim]) for dim, piece in window.items()):
        return
    is_empty = any(piece.start >= piece.stop for piece in window.values())
    part = [] if is_empty else [(window, linop.split(linop, window))]
    actual = whole_of(part, linop, sizes, matrix.is_complex())
    check_matrix(actual, matrix, close, f"{linop!r}\nthe part within {window}")


def check_matrix(actual: Tensor, matrix: Tensor, close: Close, what: str) -> None:
    """Raise a LawError if two matrices differ."""
    if actual.shape != matrix.shape or not close(actual, matrix):
        raise LawError(f"{what}: the matrix must be\n{matrix}, got\n{actual}")


def tiles_of(
    linop: NamedLinop, dim: NamedDimension, length: int, sizes: Mapping[str, int]
) -> TilesAtWindows:
    """Return the tiles of ``linop`` along ``dim``, each with its slice; the last may be shorter."""
    starts = range(0, sizes[dim], length)
    windows = [{dim: slice(start, min(start + length, sizes[dim]))} for start in starts]
    return [(window, linop.split(linop, window)) for window in windows]


def whole_of(
    tiles: TilesAtWindows, linop: NamedLinop, sizes: Mapping[str, int], is_complex: bool = True
) -> Tensor:
    """Return the sum of the matrices of tiles of ``linop``, each with zeros around it."""
    parts = [
        (window, tile, dense(tile, {**sizes, **lengths_of(window)}, is_complex))
        for window, tile in tiles
    ]
    return sum_of(parts, linop, sizes, is_complex)


def lengths_of(window: Window) -> dict[str, int]:
    """Return the sizes that a window has along the dimensions that it cuts."""
    return {str(dim): piece.stop - piece.start for dim, piece in window.items()}


def sum_of(
    parts: Sequence[tuple[Window, NamedLinop, Tensor]],
    linop: NamedLinop,
    sizes: Mapping[str, int],
    is_complex: bool,
) -> Tensor:
    """Return the sum of matrices of tiles of ``linop``, each with zeros around it."""
    # Over the reals both sides begin with the real and the imaginary parts.
    halves = [] if is_complex else [2]
    rows, columns = (
        [*halves, *(sizes[dim] for dim in side)] for side in (linop.oshape, linop.ishape)
    )
    dtype = torch.complex128 if is_complex else torch.float64
    whole = torch.zeros([*rows, *columns], dtype=dtype)
    both = [slice(None)] * len(halves)
    for window, tile, matrix in parts:
        if (tile.ishape, tile.oshape) != (linop.ishape, linop.oshape):
            raise ValueError(
                f"{linop.signature}: a tile must have the shape {linop.shape}, got {tile.shape}"
            )
        sides = ([window.get(dim, slice(None)) for dim in d] for d in (linop.oshape, linop.ishape))
        part = whole[tuple(piece for side in sides for piece in (*both, *side))]
        part += matrix.reshape(part.shape)
    return whole.reshape(torch.Size(rows).numel(), torch.Size(columns).numel())
