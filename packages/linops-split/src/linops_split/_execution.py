"""Running the parts of a table: the interface of all executors, and the simplest executor.

An executor computes each part of a `Work` and gives the result to an `Output`. The executor decides
where and in which order parts run. This module decides what is computed, the dtype of the output,
how integers are summed, and where a result is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import TypeAlias

import torch
from torch import Tensor

from linops_core.siblings import at_least_single, steps_that_differ

from ._part_slices import PartSlices
from ._tiles import Tiles

Called: TypeAlias = Callable[[int], Callable[[Tensor], Tensor]]


class RecordedByAutograd(Exception):
    """Autograd follows the result of a part through a tensor that is not one of its weights."""

    __module__ = "linops_split.siblings"  # a traceback shows the name that packages import


class Work(ABC):
    """A computation that runs the parts of a table: an output, or gradients.

    Parameters
    ----------
    tiles : Tiles
    tensors : sequence of Tensor
        The tensors that the parts read.
    reads : sequence of PartSlices
        For each tensor, the slice that each part reads.
    layout : PartSlices
        The slice of the output that each part writes.
    collects : bool
        Whether there is an output.
    """

    def __init__(
        self,
        tiles: Tiles,
        tensors: Sequence[Tensor],
        reads: Sequence[PartSlices],
        layout: PartSlices,
        collects: bool = True,
    ) -> None:
        self.tiles, self.tensors, self.reads = tiles, tensors, reads
        self.layout, self.collects = layout, collects

    def is_needed(self, number: int) -> bool:
        """Whether a part has anything to compute; it reads nothing otherwise."""
        return True

    def n_read(self, number: int) -> int:
        """Return how many of the tensors a part reads, the first ones; others need not be sent."""
        return len(self.tensors)

    @abstractmethod
    def compute(self, number: int, operands: Sequence[Tensor]) -> Tensor | None:
        """Return the result of a part, or None if there is nothing to collect.

        ``operands`` are the slices that the part reads.
        """


class Forward(Work):
    """The output A x.

    ``called`` maps the number of a part to a function to call; by default it is the part.
    """

    def __init__(self, tiles: Tiles, x: Tensor, called: Called | None = None) -> None:
        super().__init__(tiles, [x], [tiles.input], tiles.output)
        self.called: Called = called or tiles.linops.__getitem__

    def compute(self, number: int, operands: Sequence[Tensor]) -> Tensor:
        """Return the result of a part; raise `RecordedByAutograd` if autograd follows it."""
        (x,) = operands
        result = self.called(number)(x)
        if result.requires_grad:
            raise RecordedByAutograd
        return result


class Output:
    """The memory of an output, allocated for the first result.

    Its dtype is that of the results, promoted if they differ. Integers and booleans are summed in
    int64 and half precision in single precision, as in `Add`.
    """

    def __init__(self, work: Work) -> None:
        self.tiles, self.layout = work.tiles, work.layout
        self.y: Tensor | None = None
        self.slices: list[Tensor] = []
        self.dtypes: set[torch.dtype] = set()

    def put(self, number: int, result: Tensor) -> None:
        """Write the result of a part to its slice, or add it there."""
        target = self.slice_for(number, result)
        if self.layout.adds[number]:
            target.add_(result)
        else:
            target.copy_(result)

    def slice_for(self, number: int, result: Tensor) -> Tensor:
        """Return the slice of the output for the result of a part; check its shape."""
        self.dtypes.add(result.dtype)
        if self.y is None or result.dtype != self.y.dtype:
            self._fit(result)
        target = self.slices[number]
        if result.shape != target.shape:
            raise ValueError(
                f"{self.tiles.linops[number].signature}: a tile must return shape "
                f"{tuple(target.shape)}, got {tuple(result.shape)}"
            )
        return target

    def _fit(self, result: Tensor) -> None:
        """Have memory whose dtype fits this result and all before it."""
        dtype = result.dtype
        if self.layout.is_summed:
            dtype = at_least_single(sum_dtype(dtype))
        if self.y is None:
            self.use(self.make(result, dtype))
        elif (common := torch.promote_types(self.y.dtype, dtype)) != self.y.dtype:
            self.use(self.promoted(self.y, common))

    def make(self, like: Tensor, dtype: torch.dtype) -> Tensor:
        """Return memory for the output, given the first result."""
        make = like.new_empty if self.layout.fills else like.new_zeros
        return make(self.layout.shape(like.shape), dtype=dtype)

    def promoted(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the output so far in a wider dtype."""
        return y.to(dtype)

    def use(self, y: Tensor) -> None:
        """Use this memory for the output from now on."""
        self.y, self.slices = y, self.layout.views(y)

    def whole(self) -> Tensor | None:
        """Return the output in the dtype of the results; None if there is none."""
        if self.y is None or not self.layout.is_summed:
            return self.y
        return self.y.to(reduce(torch.promote_types, map(sum_dtype, self.dtypes)))


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which values of ``dtype`` are summed."""
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.int64


def run_in_order(
    work: Work, watched: Callable[[Iterable[int]], Iterable[int]] = iter
) -> Tensor | None:
    """Return the output of all parts, computed one after the other; None if there is none.

    ``watched`` wraps the sequence of part numbers, for example in a progress bar.
    """
    reads = [layout.views(x) for layout, x in zip(work.reads, work.tensors, strict=True)]
    operands, output = [*zip(*reads, strict=True)], Output(work)

    def key(number: int) -> object:
        return work.tiles.linops[number], operands[number], work.layout.adds[number]

    numbers = steps_that_differ(work.tensors[0], range(len(operands)), key)
    for number in watched(numbers):
        result = work.compute(number, operands[number])
        if result is not None:
            output.put(number, result)
        del result  # free it before the next one is made
    return output.whole()
