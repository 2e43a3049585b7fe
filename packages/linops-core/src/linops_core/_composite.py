"""Operators made of operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self, cast

from torch import Tensor

from nameddim import NamedDimension, NamedShape

from ._copying import linked
from ._linop import NamedLinop


class Composite(NamedLinop):
    """An operator that is built from others, its operands.

    The operands are submodules named "0", "1", ...; they are what holds weights.
    """

    def __init__(
        self, shape: NamedShape, linops: Iterable[NamedLinop], name: str | None = None
    ) -> None:
        super().__init__(shape, name)
        for position, linop in enumerate(linops):
            self.add_module(str(position), linop)

    @property
    def linops(self) -> tuple[NamedLinop, ...]:
        """The operands, in the order in which they were given."""
        # By their numbers: another module that someone attaches is no operand.
        numbered = (part for name, part in self._modules.items() if name.isdecimal())
        return cast(tuple[NamedLinop, ...], tuple(numbered))

    @property
    def dims(self) -> frozenset[NamedDimension]:
        """All dimensions that have a name here, those inside of the composition too."""
        return self.shape.dims.union(*(linop.dims for linop in self.linops))

    def with_operands(self, linops: Iterable[NamedLinop], shape: NamedShape | None = None) -> Self:
        """Return the same composition of other operands, which must fit as the first ones did."""
        other = linked(self, shape)
        vars(other)["_modules"] = {str(i): linop for i, linop in enumerate(linops)}
        return other

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, or None where no operand knows it."""
        for linop in self.linops:
            if (size := linop.size(dim)) is not None:
                return size
        return None

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions; it shares all tensors."""
        if not self.dims & names.keys():
            return self
        operands = [linop.renamed(names) for linop in self.linops]
        return self.with_operands(operands, self.shape.rename(names))

    def _check_input(self, x: Tensor) -> None:
        # Sizes are checked by the operands, each of which says its own name.
        self._check_rank(x)
