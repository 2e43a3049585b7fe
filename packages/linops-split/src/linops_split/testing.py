"""Tests for operators that can be cut: the tiles must make the whole, for random ways to cut.

Needs hypothesis (the extra ``testing``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from linops_core import NamedLinop, Role, Window
from nameddim import ND, NamedDimension

from ._batch import batch_linop
from ._split import split_linop

__all__ = ["assert_tiles_make_the_whole", "batch_sizes", "cuttable_dims", "dense_blocks"]


def dense_blocks(
    linop: NamedLinop,
    lengths: Sequence[int],
    dtype: torch.dtype = torch.complex128,
    unit: complex = 1.0,
) -> Tensor:
    """Return the matrix of an operator, with the dimensions of both sides.

    Parameters
    ----------
    linop : NamedLinop
    lengths : sequence of int
        Sizes of the input dimensions.
    dtype : torch.dtype
        The dtype of the unit vectors.
    unit : complex
        The value of their nonzero element. Use 1j for operators that are only real-linear.

    Returns
    -------
    Tensor
        Shape ``(*output sizes, *input sizes)``.

    Examples
    --------
    >>> from linops_core import Diagonal
    >>> dense_blocks(Diagonal(torch.tensor([2.0, 3.0]), ("N",)), [2]).real
    tensor([[2., 0.],
            [0., 3.]], dtype=torch.float64)
    """
    basis = torch.eye(int(np.prod(lengths)), dtype=dtype) * unit
    columns = torch.stack([linop(vector.reshape(tuple(lengths))) for vector in basis], dim=-1)
    return columns.reshape((*columns.shape[:-1], *lengths))


def cuttable_dims(linop: NamedLinop) -> list[NamedDimension]:
    """Return the dimensions along which ``linop`` can be cut, in alphabetical order.

    Examples
    --------
    >>> from linops_core import FFT
    >>> cuttable_dims(FFT(1, batch_shape=("C",)))  # the size of C is not known
    []
    """
    return [
        dim
        for dim in sorted(linop.dims, key=str)
        if linop.role(dim) not in (None, Role.OPAQUE) and linop.size(dim)
    ]


@st.composite
def batch_sizes(draw: st.DrawFn, linop: NamedLinop) -> dict[NamedDimension, int]:
    """Draw batch sizes for some of the dimensions that can be cut, in any order.

    Sizes range from 1 to one more than the size of the dimension, so that there are tiles of
    one element, uneven tiles, and a single tile.
    """
    order = draw(st.permutations(cuttable_dims(linop)))
    chosen = order[: draw(st.integers(0, len(order)))]
    return {dim: draw(st.integers(1, (linop.size(dim) or 0) + 1)) for dim in chosen}


def assert_tiles_make_the_whole(
    linop: NamedLinop,
    batch_sizes: Mapping[str, int] | Mapping[NamedDimension, int],
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Check that the tiles of an operator make the whole operator.

    Each tile is placed where ``split_linop`` says; the sum must be the operator. A tile must read
    and write no more than its supports. The operator that works tile by tile must have the same
    matrix, the same adjoint and the same normal operator.

    Parameters
    ----------
    linop : NamedLinop
    batch_sizes : mapping of dimension to int
        As in :func:`linops_split.split_linop`.
    sizes : mapping of dimension to int, optional
        Sizes of input dimensions that the operator does not know.

    Raises
    ------
    AssertionError
        If the check fails. The message says where.
    SplitError
        If the operator cannot be cut in this way.

    Examples
    --------
    >>> from linops_core import Dense
    >>> assert_tiles_make_the_whole(Dense(torch.rand(4, 5)), {"M": 3, "N": 2})
    """
    known = {ND.infer(dim): size for dim, size in (sizes or {}).items()}
    ilengths = [known.get(dim, linop.size(dim)) for dim in linop.ishape]
    lengths = [length for length in ilengths if length is not None]
    assert len(lengths) == len(ilengths), f"give the sizes of {linop.ishape}, got {ilengths}"
    where = f"{linop.signature} cut by {dict(batch_sizes)}"
    batched = batch_linop(linop, batch_sizes)
    units = (1.0,) if linop.is_complex_linear else (1.0, 1j)
    for unit in units:
        whole = dense_blocks(linop, lengths, unit=unit) + 0j
        total = torch.zeros_like(whole)
        for tile, ibatch, obatch in zip(
            *(a.flat for a in split_linop(linop, batch_sizes)), strict=True
        ):
            pieces = [piece.indices(length) for piece, length in zip(ibatch, lengths, strict=True)]
            block = dense_blocks(tile, [stop - start for start, stop, _ in pieces], unit=unit) + 0j
            if window := _supports(tile):
                narrow = _narrow_blocks(tile, window, block, unit)
                _assert_close(narrow, block, f"{tile.signature} within its supports {dict(window)}")
            total[(*obatch, *ibatch)] += block
        _assert_close(total, whole, f"the tiles of {where}")
        _assert_close(dense_blocks(batched, lengths, unit=unit) + 0j, whole, where)
    olengths = whole.shape[: whole.ndim - len(lengths)]
    matrix = _matrix(linop, lengths)
    _assert_close(_matrix(batched.H, olengths), matrix.mH, f"the adjoint of {where}")
    _assert_close(_matrix(batched.N, lengths), matrix.mH @ matrix, f"the normal of {where}")


def _matrix(linop: NamedLinop, lengths: Sequence[int]) -> Tensor:
    """Return the matrix; over real and imaginary parts if the operator is only real-linear."""
    n_columns = int(np.prod(lengths))
    if linop.is_complex_linear:
        return dense_blocks(linop, lengths).reshape(-1, n_columns)
    both = [dense_blocks(linop, lengths, unit=unit).reshape(-1, n_columns) for unit in (1.0, 1j)]
    columns = torch.cat(both, dim=1) + 0j
    return torch.cat([columns.real, columns.imag])


def _supports(tile: NamedLinop) -> Window:
    supports = {dim: tile.support(dim) for dim in tile.dims}
    return {dim: piece for dim, piece in supports.items() if piece is not None}


def _narrow_blocks(tile: NamedLinop, window: Window, blocks: Tensor, unit: complex) -> Tensor:
    """Return the matrix of the tile within ``window``, padded with zeros to fit ``blocks``."""
    found = torch.zeros_like(blocks)
    if any(piece.start >= piece.stop for piece in window.values()):
        return found
    lengths = blocks.shape[blocks.ndim - len(tile.ishape) :]
    reads = [window.get(dim, slice(0, n)) for dim, n in zip(tile.ishape, lengths, strict=True)]
    writes = [window.get(dim, slice(None)) for dim in tile.oshape]
    found[(*writes, *reads)] = dense_blocks(
        tile.split(tile, window), [piece.stop - piece.start for piece in reads], unit=unit
    )
    return found


def _assert_close(found: Tensor, wanted: Tensor, what: str) -> None:
    if found.shape != wanted.shape:
        raise AssertionError(f"{what}: shape {tuple(found.shape)}, not {tuple(wanted.shape)}")
    error = float((found - wanted).detach().abs().max()) if wanted.numel() else 0.0
    if not error <= 1e-10 * (1 + float(wanted.detach().abs().sum())):
        raise AssertionError(f"{what}: off by {error:.3g}")
