"""Sums and concatenations of results that are computed one by one."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ._dtype import summable
from ._torch_state import is_transformed
from ._tracing import is_recorded


def accumulate(results: Iterable[Tensor]) -> Tensor:
    """Return the sum of ``results`` in order, with at most two of them in memory.

    Integers are added as int64. Nothing is broadcast: different shapes raise a ValueError.
    """
    iterator = iter(results)
    total = next(iterator)
    ours = False  # the first result may be a view of the input or of a weight
    for result in iterator:
        if result.shape != total.shape:
            raise ValueError(
                f"Add: all terms must return one shape, got {tuple(total.shape)} "
                f"and {tuple(result.shape)}"
            )
        fits = torch.promote_types(total.dtype, result.dtype) == total.dtype
        if ours and fits and writing_is_safe():
            total.add_(result)  # also under autograd: a sum does not keep its terms
        else:
            total = summable(total) + result
        ours = True
        del result  # freed before the next one is made
    return total


def concatenate(results: Iterable[Tensor], axis: int, length: int) -> Tensor:
    """Return ``results`` concatenated along ``axis``, with one of them in memory at a time.

    ``length`` is that of all together; in memory planning, there may be fewer results. Dtypes
    promote, as in :func:`torch.cat`.
    """
    whole: Tensor | None = None
    offset = 0
    kept: list[Tensor] = []
    in_place = writing_is_safe()
    for result in results:
        size = result.shape[axis]
        if kept or not in_place or is_recorded(result) or size == length:
            kept.append(result)
            continue
        if whole is None:
            lengths = list(result.shape)
            lengths[axis] = length
            whole = result.new_empty(lengths)
        if result.dtype != whole.dtype:
            whole = whole.to(torch.promote_types(whole.dtype, result.dtype))
        part = whole.narrow(axis, offset, size)
        if part.shape != result.shape:
            raise ValueError(
                f"Concat: all operands must return one shape except for axis {axis}, "
                f"got {tuple(part.shape)} and {tuple(result.shape)}"
            )
        part.copy_(result)
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
