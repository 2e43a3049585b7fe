"""Independent systems with large vectors, solved a few at a time."""

from __future__ import annotations

from typing import TypeAlias

from torch import Tensor

from linops_core import NamedLinop, SplitError
from linops_core.siblings import all_parts_of, tile_of

from .._shared._checks import Operator
from .._shared._vectors import name_at

CHUNK_NBYTES = 2 * 2**20
"""Bytes of the right-hand sides of a chunk on a CPU.

Memory for vectors of this size is reused. Allocations above 32 MiB get new pages from the system,
and zeroing the pages takes longer than the arithmetic. Chunks of 1 to 8 MiB take about the same
time.
"""


Chunk: TypeAlias = tuple[Operator, Operator | None, tuple[slice, ...]]
"""A and the preconditioner of some of the systems, and the slice of these of all vectors."""


def chunks_of(
    A: Operator, preconditioner: Operator | None, y: Tensor, axes: tuple[int, ...]
) -> list[Chunk]:
    """Return chunks along the first axis that numbers systems, or one chunk of all systems.

    There is one chunk if the vectors are small, if they are not on a CPU, or if an operator cannot
    be sliced along that axis or runs in parts already.
    """
    whole: list[Chunk] = [(A, preconditioner, ())]
    given = [A] if preconditioner is None else [A, preconditioner]
    linops = [operator for operator in given if isinstance(operator, NamedLinop)]
    nbytes = y.numel() * y.element_size()
    is_large = axes and y.is_cpu and nbytes > 4 * CHUNK_NBYTES and y.shape[axes[0]] > 1
    if not is_large or len(linops) < len(given):
        return whole
    parts = [part for linop in linops for part in all_parts_of(linop)]
    dims = [name_at(linop.ishape, axes[0], y.ndim) for linop in linops]
    named = [dim for dim in dims if dim is not None]
    runs_in_parts = any(getattr(part, "_runs_in_parts", False) for part in parts)
    if len(named) < len(dims) or runs_in_parts:
        return whole
    length, before = y.shape[axes[0]], (slice(None),) * axes[0]
    step, chunks = max(1, CHUNK_NBYTES * length // nbytes), list[Chunk]()
    try:
        for start in range(0, length, step):
            piece = slice(start, min(start + step, length))
            pairs = zip(linops, named, strict=True)
            first, *others = (tile_of(linop, {dim: piece}) for linop, dim in pairs)
            chunks.append((first, others[0] if others else None, (*before, piece)))
    except SplitError:
        return whole
    return chunks
