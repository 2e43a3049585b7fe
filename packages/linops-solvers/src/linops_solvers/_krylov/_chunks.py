"""Independent systems with large vectors, solved a few at a time."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from linops_core import NamedLinop, SplitError
from linops_core.siblings import tile_of

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
    whole, nbytes = [Chunk(A, preconditioner, ())], y.numel() * y.element_size()
    operators = [A] if preconditioner is None else [A, preconditioner]
    if not axes or not y.is_cpu or nbytes <= 4 * CHUNK_NBYTES or y.shape[axes[0]] == 1:
        return whole
    linops = [operator for operator in operators if isinstance(operator, NamedLinop)]
    modules = [part for linop in linops for part in linop.modules()]
    dims = [name_at(linop.ishape, axes[0], y.ndim) for linop in linops]
    runs_in_parts = any(getattr(part, "_runs_in_parts", False) for part in modules)
    if len(linops) < len(operators) or None in dims or runs_in_parts:
        return whole
    length, before = y.shape[axes[0]], (slice(None),) * axes[0]
    step, chunks = max(1, CHUNK_NBYTES * length // nbytes), []
    try:
        for start in range(0, length, step):
            piece = slice(start, min(start + step, length))
            tiles = [
                tile_of(linop, {dim: piece})
                for linop, dim in zip(linops, dims, strict=True)
                if dim is not None
            ]
            chunks.append(Chunk(tiles[0], [*tiles, None][1], (*before, piece)))
    except SplitError:
        return whole
    return chunks
