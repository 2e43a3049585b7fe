"""Putting results together with operations that return new tensors and write to none.

This is for transforms of ``torch.func``, forward derivatives, compilers and tensor subclasses,
which follow every operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor

from linops_core.siblings import at_least_single

from ._execution import sum_dtype
from ._part_slices import PartSlices, Slices, cut_apart
from ._tiles import Part, Tiles


def applied_out_of_place(
    tiles: Tiles, x: Tensor, called: Callable[[Part, Tensor], Tensor] | None = None
) -> Tensor:
    """Return A x, put together from the results of the parts.

    ``called`` computes the result of a part from the slice of x that it reads; by default it calls
    the operator of the part.
    """
    layout = tiles.output
    sums: dict[Slices, Tensor] = {}
    dtypes: list[torch.dtype] = []
    for part, view, key in zip(tiles.parts, tiles.input.views(x), layout.keys, strict=True):
        result = part.linop(view) if called is None else called(part, view)
        if layout.is_summed:
            dtype = sum_dtype(result.dtype)
            dtypes.append(dtype)
            result = result.to(at_least_single(dtype))
        sums[key] = sums[key] + result if key in sums else result
    if layout.fills:
        y = _joined(sums, list(sums), layout)
    else:
        y = reduce(torch.add, (_padded(result, key, layout) for key, result in sums.items()))
    return y.to(reduce(torch.promote_types, dtypes)) if dtypes else y


def _joined(results: Mapping[Slices, Tensor], keys: Sequence[Slices], layout: PartSlices) -> Tensor:
    """Return results side by side; together they fill a box."""
    if len(keys) == 1:
        return results[keys[0]]
    cuts = cut_apart(keys, layout.axes)
    assert cuts is not None
    dim, groups = cuts
    return torch.cat([_joined(results, group, layout) for group in groups], layout.axes[dim])


def _padded(result: Tensor, key: Slices, layout: PartSlices) -> Tensor:
    """Return a result with zeros around it."""
    widths = [0] * 2 * result.ndim
    for dim, start, stop in key:
        from_last = result.ndim - 1 - layout.axes[dim] % result.ndim
        widths[2 * from_last : 2 * from_last + 2] = [start, layout.lengths[dim] - stop]
    return torch.nn.functional.pad(result, widths)
