"""Sums and concatenations of results that are computed one by one."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ._dtype import at_least_single, summable
from ._torch_state import FakeTensor, is_transformed
from ._tracing import is_recorded

MANY = 2**8
"""Number of values in single precision that are added one by one, with errors below 3e-6.

A NUFFT multiplies such errors by up to 100, at the edge of the image."""
_BINS = 2**16
"""Indices are counted by their lowest bits; several share a bin, so counts are only too large."""


def accumulate(results: Iterable[Tensor], owner: str = "Add") -> Tensor:
    """Return the sum of ``results`` in order, with at most two of them in memory.

    Integers are added as int64, and half precision in single precision. Nothing is broadcast:
    different shapes raise a ValueError, which names ``owner``.
    """
    iterator = iter(results)
    total = next(iterator)
    dtype = total.dtype
    ours = False  # the first result may be a view of the input or of a weight
    for result in iterator:
        if result.shape != total.shape:
            raise ValueError(
                f"{owner}: all terms must return one shape, got {tuple(total.shape)} "
                f"and {tuple(result.shape)}"
            )
        dtype = torch.promote_types(dtype, result.dtype)
        fits = torch.promote_types(total.dtype, result.dtype) == total.dtype
        if ours and fits and writing_is_safe():
            total.add_(result)  # also under autograd: a sum does not keep its terms
        else:
            total = summable(total.to(at_least_single(total.dtype))) + result
        ours = True
        del result  # freed before the next one is made
    return total if at_least_single(dtype) == dtype else total.to(dtype)


def concatenate(results: Iterable[Tensor], axis: int, length: int, owner: str = "Concat") -> Tensor:
    """Return ``results`` concatenated along ``axis``, with one of them in memory at a time.

    ``length`` is that of all together; in memory planning, there may be fewer results. Dtypes
    promote, as in :func:`torch.cat`. Results that differ along another axis raise a ValueError,
    which names ``owner``.
    """
    whole: Tensor | None = None
    shape: tuple[int, ...] = ()
    offset = 0
    kept: list[Tensor] = []
    in_place = writing_is_safe()
    for result in results:
        size = result.shape[axis]
        lengths = [*(shape or result.shape)]
        lengths[axis], shape = size, shape or result.shape
        if lengths != [*result.shape]:
            raise ValueError(
                f"{owner}: all operands must return one shape except for axis {axis}, "
                f"got {tuple(shape)} and {tuple(result.shape)}"
            )
        if kept or not in_place or is_recorded(result) or size == length:
            kept.append(result)
            continue
        if whole is None:
            lengths[axis] = length
            whole = result.new_empty(lengths)
        if result.dtype != whole.dtype:
            whole = whole.to(torch.promote_types(whole.dtype, result.dtype))
        whole.narrow(axis, offset, size).copy_(result)
        offset += size
        del result  # freed before the next one is made
    if whole is None and len(kept) == 1:
        return kept[0]
    if kept:
        done = [] if whole is None else [whole.narrow(axis, 0, offset)]
        return torch.cat([*done, *kept], dim=axis)
    assert whole is not None
    return whole


def writing_is_safe() -> bool:
    """Whether new results may be written to in place.

    False while torch compiles, where writing in place saves nothing. False under a transform of
    torch.func, because a batched result does not fit into one that is not batched.
    """
    return not (torch.compiler.is_compiling() or is_transformed())


def dtype_of_sums(dtype: torch.dtype, count: int, indices: Iterable[Tensor]) -> torch.dtype:
    """Return the dtype in which values are added at ``count`` indices, which are given in parts.

    It is double precision if more than 256 may share an index: torch adds them one by one, so that
    2^16 of 0.1 in single precision err by 6e-4, and 2^25 of 1 give 2^24. Of indices without values
    nothing is known: plans count double precision, and compiled graphs stay in the dtype.
    """
    if dtype.itemsize > (8 if dtype.is_complex else 4) or count <= MANY or not writing_is_safe():
        return dtype
    n_bins = max(_BINS, 1 << (count // 64).bit_length())
    counts: Tensor | None = None
    for part in indices:
        if not isinstance(part, FakeTensor) and (type(part) is not Tensor or part.is_meta):
            return dtype
        if counts is None:
            counts = part.new_zeros(n_bins, dtype=torch.int32)
        # Not `bincount`, whose size would depend on values, which plans do not have.
        counts.scatter_add_(0, part & (n_bins - 1), counts.new_ones(()).expand(part.shape))
    if counts is None:
        return dtype
    is_crowded = isinstance(counts, FakeTensor) or bool(counts.max() > MANY)
    return torch.promote_types(dtype, torch.float64) if is_crowded else dtype
