"""Operators made of operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self, cast

import torch
from torch import Tensor

from memmap import union_nbytes
from nameddim import NamedDimension, NamedShape

from ._copying import attributes_of_linked, with_attributes
from ._description import bytes_text
from ._linop import NamedLinop
from ._remembering import RememberingLinop


class Composite(RememberingLinop):
    """An operator that is built from others, its operands.

    The operands are submodules named "0", "1", ...; they are what holds weights.
    """

    def __init__(
        self, shape: NamedShape, linops: Iterable[NamedLinop], name: str | None = None
    ) -> None:
        super().__init__(shape, name)
        operands = {str(position): linop for position, linop in enumerate(linops)}
        self._operands = tuple(operands)  # another module that someone attaches is none
        self._modules.update(operands)

    @property
    def linops(self) -> tuple[NamedLinop, ...]:
        """The operands, in the order in which they were given."""
        numbered = (self._modules[name] for name in self._operands)
        return cast(tuple[NamedLinop, ...], tuple(numbered))

    @property
    def dims(self) -> frozenset[NamedDimension]:
        """All dimensions that have a name here, those inside of the composition too."""
        return self.shape.dims.union(*(linop.dims for linop in self.linops))

    def extra_repr(self) -> str:
        """Return what ``repr`` says of all weights inside: their bytes, shared ones once."""
        tensors = [*self.parameters(), *self.buffers()]
        return bytes_text(union_nbytes(tensors)) if tensors else ""

    def with_operands(self, linops: Iterable[NamedLinop], shape: NamedShape | None = None) -> Self:
        """Return the same composition of other operands, which must fit as the first ones did.

        Without a shape the operands are parts of these ones, and what maps a space to itself as
        a whole does not in parts.
        """
        return self.with_operands_of_each([tuple(linops)], shape)[0]

    def with_operands_of_each(
        self, rows: Iterable[Sequence[NamedLinop]], shape: NamedShape | None = None
    ) -> list[Self]:
        """Return the same composition of each of some rows of operands, as `with_operands` does."""
        attributes = attributes_of_linked(self, shape)
        if shape is None:
            attributes["_is_endomorphism"] = False
        others = []
        for linops in rows:
            operands = {str(position): linop for position, linop in enumerate(linops)}
            own = attributes.copy()
            own.update(_modules=operands, _operands=tuple(operands))
            others.append(with_attributes(self, own))
        return others

    def _uncentred_operands(self, dims: Iterable[NamedDimension]) -> Self | None:
        """Return the composition of what the operands are; see :meth:`NamedLinop.uncentred`."""
        found = [linop.uncentred(dims) for linop in self.linops]
        operands = [linop for linop in found if linop is not None]
        return self.with_operands(operands, self.shape) if len(operands) == len(found) else None

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

    def _check_sizes(self, shape: torch.Size) -> None:
        # By the operands, each of which says its own name.
        pass

    def _check_output(self, y: Tensor) -> None:
        pass  # by the operands too

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, and operands between the same spaces with it."""
        operands = [part.resolved(ishape=shape.ishape, oshape=shape.oshape) for part in self.linops]
        return self.with_operands(operands, shape)
