"""Factors of tall matrices, right to rounding for any number of rows.

On a CPU, LAPACK adds long columns in few accumulators: for 2^20 complex rows in single precision,
singular values err by 8e-5 and U^H U by 3e-4. Blocks of rows err by rounding.

References
----------
J. Demmel, L. Grigori, M. Hoemmen and J. Langou, "Communication-optimal parallel and sequential QR
and LU factorizations", SIAM Journal on Scientific Computing 34 (2012): TSQR.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from ._space import Space

_ROWS = 2**13
"""Smallest number of rows of a block, of which torch's factors are right to rounding."""


def factors(factorise: Callable[[Tensor], tuple[Tensor, ...]], x: Tensor) -> tuple[Tensor, ...]:
    """Return the factors of matrices (..., M, N), the first of which has M rows.

    For each factorisation that multiplies triangles from the left by orthonormal columns, such as
    :func:`torch.linalg.qr`.
    """
    n_blocks, rows = n_blocks_of(x), x.shape[-2]
    if n_blocks == 1:
        return factorise(x)
    blocks = pad(x, (0, 0, 0, -rows % n_blocks)).unflatten(-2, (n_blocks, -1))
    bases, triangles = torch.linalg.qr(blocks)
    first, *others = factors(factorise, triangles.flatten(-3, -2))
    turns = first.unflatten(-2, (n_blocks, -1))
    return (bases @ turns).flatten(-3, -2)[..., :rows, :], *others


def orthonormal(columns: Tensor, space: Space) -> tuple[Tensor, Tensor]:
    """Return the rows of Q that this process has, and R, with Q R = columns (rows, columns)."""
    basis, triangle = factors(torch.linalg.qr, columns)
    if space.is_whole:
        return basis, triangle
    height, width = triangle.shape
    stacked = columns.new_zeros(space.totals.n_parts, width, width)
    stacked[space.totals.part, :height] = triangle
    (stacked,) = space.total(stacked)
    turn, triangle = torch.linalg.qr(stacked.flatten(0, 1))
    first = space.totals.part * width
    return basis @ turn[first : first + height], triangle


def n_blocks_of(x: Tensor) -> int:
    """Return the number of blocks of rows in which to factorise matrices (..., M, N)."""
    return max(1, x.shape[-2] // max(_ROWS, 4 * x.shape[-1]))
