"""Independent systems with large vectors, solved a few at a time."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from linops_core import NamedLinop, Role, SplitError, tile_of
from nameddim import NamedDimension

from .._shared._checks import Operator
from .._shared._vectors import name_at

CHUNK_NBYTES = 2 * 2**20
"""Bytes of the right-hand sides of a chunk on a CPU.

Memory for vectors of this size is reused. Allocations above 32 MiB get new pages from the system,
and zeroing the pages takes longer than the arithmetic. Chunks of 1 to 8 MiB take about the same
time.
"""


class Chunk(NamedTuple):
    """Some of the systems, and the operators of these systems."""

    A: Operator
    preconditioner: Operator | None
    part: tuple[slice, ...]
    """Their slice of the vectors of all systems."""


def chunks_of(
    A: Operator, preconditioner: Operator | None, y: Tensor, axes: tuple[int, ...]
) -> list[Chunk]:
    """Return chunks along the first axis that numbers systems, or one chunk of all systems.

    There is one chunk if the vectors are small, if they are not on a CPU, or if an operator cannot
    be sliced along that axis or runs in parts already.
    """
    whole = [Chunk(A, preconditioner, ())]
    operators = [A] if preconditioner is None else [A, preconditioner]
    nbytes = y.numel() * y.element_size()
    if not axes or not y.is_cpu or nbytes <= 4 * CHUNK_NBYTES:
        return whole
    axis, length = axes[0], y.shape[axes[0]]
    step = max(1, CHUNK_NBYTES * length // nbytes)
    if step >= length:
        return whole
    along = [_batch_dim(operator, axis, y.ndim) for operator in operators]
    chunks = []
    try:
        for start in range(0, length, step):
            piece = slice(start, min(start + step, length))
            tiles = [
                tile_of(linop, {dim: piece})
                for linop, dim in zip(operators, along, strict=True)
                if isinstance(linop, NamedLinop) and dim is not None
            ]
            if len(tiles) < len(operators):
                return whole
            chunks.append(Chunk(tiles[0], [*tiles, None][1], (slice(None),) * axis + (piece,)))
    except SplitError:
        return whole
    return chunks


def _batch_dim(A: Operator, axis: int, ndim: int) -> NamedDimension | None:
    """Return the dimension at an axis of input and output, None if it cannot be sliced."""
    if not isinstance(A, NamedLinop) or any(
        isinstance(part, NamedLinop) and part._runs_in_parts for part in A.modules()
    ):
        return None
    names = [name_at(dims, axis, ndim) for dims in (A.ishape, A.oshape)]
    is_batch = names[0] == names[1] and names[0] is not None and A.role(names[0]) is Role.BATCH
    return names[0] if is_batch else None
