"""The division of one side among operators that stand side by side."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from nameddim import NamedDimension, NamedShape

from ..._base._dimensions import Side, dims_of
from ..._base._linop import NamedLinop
from ..._base._sizes import per_axis
from ..._numbers import is_integer
from ..._operators._rearrange import Rearrange


@dataclass(frozen=True)
class Blocks:
    """The division of one side among operators that stand side by side."""

    position: int
    """Position of the divided dimension in the names of that side."""
    sizes: tuple[int, ...]
    """Length of each operand's block."""
    is_new: bool = False
    """Whether the dimension is new: each operand has one index of it."""
    layouts: tuple[Rearrange, ...] = ()
    """The merging of several dimensions of an operand into its block, if there are several."""

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The start of each block, and the end of the last one."""
        return tuple(accumulate(self.sizes, initial=0))

    def touched(self, piece: slice) -> range:
        """Return the numbers of the blocks that overlap ``piece``."""
        first = bisect_right(self.starts, piece.start) - 1
        return range(first, bisect_right(self.starts, piece.stop - 1))

    def of(self, numbers: range, sizes: Sequence[int]) -> Blocks:
        """Return the blocks of some operands with these sizes."""
        layouts = [self.layouts[number] for number in numbers] if self.layouts else []
        return replace(self, sizes=tuple(sizes), layouts=tuple(layouts))

    def part(self, number: int, piece: slice) -> slice:
        """Return the slice of a block that is within ``piece``."""
        start, size = self.starts[number], self.sizes[number]
        return slice(max(piece.start - start, 0), min(piece.stop - start, size))


def blocks_along(
    linops: Sequence[NamedLinop], side: Side, dim: NamedDimension, sizes: Sequence[int] | None
) -> Blocks:
    """Return the blocks of operands along a dimension that they have."""
    shape, which = NamedShape(linops[0].ishape, linops[0].oshape), side[0]
    names = dims_of(shape, side)
    if dim not in names:
        raise ValueError(f"Concat: {which}dim must be one of {shape}, got {dim}")
    of_operands = [linop.sizes(side)[names.index(dim)] for linop in linops]
    lengths = of_operands if sizes is None else list(per_axis("Concat", f"{which}sizes", sizes))
    whole = [int(length) for length in lengths if is_integer(length, 0)]
    if not len(whole) == len(lengths) == len(of_operands):
        raise ValueError(
            f"Concat: the size of {dim} must be known in every operand; give {which}sizes, "
            f"integers of at least 0, one for each of {len(of_operands)} operands; got {lengths}"
        )
    for linop, size, length in zip(linops, of_operands, whole, strict=True):
        if size not in (None, length):
            raise ValueError(
                f"Concat: {dim} must have size {length} in {linop.name} ({linop.shape}), got {size}"
            )
    return Blocks(names.index(dim), tuple(whole))
