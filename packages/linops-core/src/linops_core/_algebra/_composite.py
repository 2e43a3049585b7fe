"""Operators made of operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Self, SupportsIndex, TypeAlias, cast, overload

import torch
from torch import Tensor

from memmap import union_nbytes
from memmap.siblings import bytes_text
from nameddim import ND, NamedDimension, NamedShape

from .._base._copying import attributes_of_linked, with_attributes
from .._base._dimensions import (
    Side,
    check_sizes,
    dims_of,
    is_renamed_by,
    size_of_side,
)
from .._base._grid_questions import without_fftshift
from .._base._linop import NamedLinop
from .._base._places import (
    CompositionDims,
    EqualPlaces,
    Place,
    composition_dims,
    equal_places_by_name,
    equal_places_side_by_side,
)
from .._base._swapped_functions import has_sizes_of_names
from .._base._tile import Supports
from .._base._totals import PartsSideBySide, Totals, is_over_processes, totals_of
from .._kept import Memo
from .._kernels._tracing import constant_when_compiled

LengthSource: TypeAlias = tuple[NamedLinop, Side, int] | int | None
"""Where a length is known: an operator and a position of a side, or a fixed number."""

COMPOSITION_DIMS = Memo[CompositionDims]()
"""The dimensions of a composition."""
_SOURCES = Memo[dict[tuple[Side, int], LengthSource]]()
"""Where the length at each place is known."""
_NUMBERS = Memo[dict[NamedDimension, list[int]]]()
"""The numbers of the operands that have each dimension."""


class Composite(NamedLinop):
    """An operator that is built from others, its operands.

    The operands are submodules named "0", "1", ...; they hold the weights. ``len(A)`` is their
    number, ``A[i]`` is one of them, ``A.linops`` is the tuple of all, and ``for part in A``
    iterates over them. In a :class:`Chain`, the operator that is applied first comes first. A slice
    ``A[i:j]`` of a chain, a sum or operators side by side is the same composition of these
    operands.

    Examples
    --------
    >>> from linops_core import Scalar
    >>> A = Scalar(2.0, ("N",)) + Scalar(3.0, ("N",))
    >>> len(A), A[-1]
    (2, Scalar (N) -> (N)  weight: 3.0)
    """

    _is_over_processes: bool = False
    threaded: bool = False
    """Whether the operands run on several threads."""
    _is_side_by_side: ClassVar[bool] = False
    """Whether operands have the input and the output of the whole, or parts of these."""
    _operands: tuple[str, ...]
    """The names of the operands; other attached modules are no operands."""

    def __init__(
        self,
        shape: NamedShape,
        linops: Iterable[NamedLinop],
        name: str | None = None,
        dims: CompositionDims | None = None,
    ) -> None:
        super().__init__(shape, name)
        operands = {str(position): linop for position, linop in enumerate(linops)}
        vars(self).update(_operands=tuple(operands), _modules=operands)
        # One operand of each class is asked, as a loop makes compositions of many operands often.
        of_each_class = {type(linop): linop for linop in operands.values()}
        nested = [linop for linop in operands.values() if isinstance(linop, Composite)]
        if any(map(is_over_processes, (*of_each_class.values(), *nested))):
            self._is_over_processes = True
        if dims is not None:
            COMPOSITION_DIMS.keep(self, dims)

    @property
    def linops(self) -> tuple[NamedLinop, ...]:
        """The operands, in the order in which they were given."""
        return tuple(map(self._modules.__getitem__, self._operands))  # type: ignore[arg-type]

    def __len__(self) -> int:
        """Return the number of operands."""
        return len(self._operands)

    def __bool__(self) -> bool:
        """Return True, as every operator does, for any number of operands."""
        return True

    def __iter__(self) -> Iterator[NamedLinop]:
        """Yield the operands, in the order in which they were given."""
        return iter(self.linops)

    @overload
    def __getitem__(self, index: SupportsIndex) -> NamedLinop: ...
    @overload
    def __getitem__(self, index: slice) -> NamedLinop: ...
    def __getitem__(self, index: SupportsIndex | slice) -> NamedLinop:
        """Return the operand at ``index``, or the same composition of the operands of a slice.

        Raises
        ------
        TypeError
            If the index is not an integer or slice, or a slice of another kind of composition.
        IndexError
            If there is no operand at ``index`` or in the slice.
        ValueError
            If the operands of a slice of a chain do not fit.
        """
        if not isinstance(index, (SupportsIndex, slice)):
            raise TypeError(
                f"{self.signature}: the index of an operand must be an integer or a slice, got "
                f"{index!r}; to cut a dimension, call A.split(A, {{dim: slice(start, stop)}})"
            )
        numbers = range(len(self))
        try:
            if not isinstance(index, slice):
                return self._operand(numbers[index])
        except IndexError:
            raise IndexError(
                f"{self.signature}: the index of an operand must be below {len(self)}, the "
                f"number of operands, got {index}"
            ) from None
        if not numbers[index]:
            raise IndexError(
                f"{self.signature}: a slice must have at least one of {len(self)} operands, got "
                f"{index}"
            )
        return self._with_operands_at(numbers[index])

    def _with_operands_at(self, numbers: range) -> NamedLinop:
        """Return the same composition of some operands."""
        raise TypeError(
            f"{self.signature}: a slice must be one of a chain, a sum or operators side by side, "
            f"got one of {type(self).__name__}; A.linops is the tuple of its operands"
        )

    @property
    def input_devices(self) -> tuple[torch.device, ...]:
        """Devices on which inputs of the operands must be."""
        return tuple(dict.fromkeys(d for linop in self.linops for d in linop.input_devices))

    @property
    def is_complex_linear(self) -> bool:
        """Whether all operands are linear over complex numbers."""
        return all([linop.is_complex_linear for linop in self.linops])

    @property
    def dims(self) -> frozenset[NamedDimension]:
        """All named dimensions, including those inside the composition."""
        return self._shape.dims | self._numbers_by_dim().keys()

    def extra_repr(self) -> str:
        """Return the text of ``repr``: the bytes of all weights, with shared ones counted once."""
        tensors = [*self.parameters(), *self.buffers()]
        return bytes_text(union_nbytes(tensors)) if tensors else ""

    def with_operands(self, linops: Iterable[NamedLinop], shape: NamedShape | None = None) -> Self:
        """Return the same composition of other operands.

        Without a shape, they must be tiles of the operands of this composition.
        """
        return self.with_operands_of_each([tuple(linops)], shape)[0]

    def with_operands_of_each(
        self, rows: Iterable[Sequence[NamedLinop]], shape: NamedShape | None = None
    ) -> list[Self]:
        """Return one composition for each sequence of operands, as `with_operands` does."""
        attributes = attributes_of_linked(self, shape)
        if shape is None:
            attributes["_is_endomorphism"] = False  # the slices of input and output may differ
        others = []
        for linops in rows:
            operands = {str(position): linop for position, linop in enumerate(linops)}
            own_attributes = attributes.copy()
            own_attributes.update(_modules=operands, _operands=tuple(operands), _memos={})
            others.append(with_attributes(self, own_attributes))
        return others

    # Methods for compositions whose result is the composition of the results of the operands.

    def _adjoint_of_operands(self) -> NamedLinop:
        """Return the same composition of the adjoints."""
        return self.with_operands([linop.H for linop in self.linops], self.shape.H)

    def _conj_of_operands(self) -> NamedLinop:
        """Return the same composition of the conjugates."""
        return self.with_operands([linop.conj() for linop in self.linops], self.shape)

    def support(self, dim: NamedDimension | str) -> slice | None:
        """Return the support of one dimension; see :meth:`NamedLinop.support`."""
        name = ND.infer(dim)
        return self._supports(name)[name]

    def _supports(self, *dims: NamedDimension) -> Supports:
        """Return the supports of several dimensions, which are found together.

        Classes of this library override it instead of ``support``.
        """
        return dict.fromkeys(dims)

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, or None if no operand knows it.

        It is the length in the input, else in the output, else inside the composition.
        """
        if dim in self.ishape or dim in self.oshape:
            return size_of_side(self, dim)
        for linop in self._having_dim(dim):
            if (size := linop.size(dim)) is not None:
                return size
        return None

    # A compiler must use this value and not trace how it is found.
    @constant_when_compiled
    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the length of each dimension of one side, as the operands know it."""
        positions = range(len(dims_of(self._shape, side)))
        return tuple([_length_of(self._source(side, position)) for position in positions])

    def _source(self, side: Side, position: int) -> LengthSource:
        """Return where the length at a position is known."""
        sources = _SOURCES.get_or_make(self, dict)
        if (side, position) not in sources:
            source: LengthSource = self.own_length(side, position)
            place = self._composition_dims().sources.get((side, position))
            if source is None and place is not None:
                source = source_of(self._operand(place[0]), place[1], place[2])
            sources[side, position] = source
        return sources[side, position]

    def linked_positions(self) -> Sequence[tuple[int, int]]:
        """Return the positions in the input and in the output that are one dimension."""
        return self._composition_dims().links

    def _composition_dims(self) -> CompositionDims:
        """Return what is known of the dimensions, which are those of the operands."""
        return COMPOSITION_DIMS.get_or_make(
            self, lambda: composition_dims(self._shape, self.linops, self._equal_places())
        )

    def _equal_places(self) -> Iterable[EqualPlaces]:
        """Yield pairs of places, of the whole and of operands, that are the same dimension."""
        if self._is_side_by_side and type(self).adjoint is not NamedLinop.adjoint:
            return equal_places_side_by_side(self._shape, self.linops, self.own_length)
        return equal_places_by_name(self._shape, self.linops)

    def own_length(self, side: Side, position: int) -> int | None:
        """Return the length of a dimension that the operands have only in part, or not at all.

        Compositions that join operands override it.
        """
        return None

    def _operand(self, number: int) -> NamedLinop:
        return cast(NamedLinop, self._modules[self._operands[number]])

    def _having_dim(self, dim: NamedDimension | str) -> list[NamedLinop]:
        """Return the operands that have a dimension of that name."""
        return [self._operand(n) for n in self._numbers_by_dim().get(ND.infer(dim), ())]

    def _numbers_by_dim(self) -> dict[NamedDimension, list[int]]:
        """Return the numbers of the operands that have each dimension."""
        numbers = _NUMBERS.get(self)
        if numbers is None:
            numbers = {}
            for number, linop in enumerate(self.linops):
                for name in linop.dims:
                    numbers.setdefault(name, []).append(number)
            _NUMBERS.keep(self, numbers)  # when it is complete: other threads may read it
        return numbers

    def _facts(self, x: Tensor) -> tuple[object, ...]:
        return (x.shape,)  # operands look at their own weights

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions; it shares all tensors."""
        if not is_renamed_by(self, names):
            return self
        numbers = self._numbers_by_dim()
        concerned = {number for dim in names.keys() & numbers for number in numbers[dim]}
        operands = [
            linop.renamed(names) if number in concerned else linop
            for number, linop in enumerate(self.linops)
        ]
        other = self.with_operands(operands, self.shape.rename(names))
        new = {names[dim] for dim in names.keys() & self.dims}
        if len(new) == len(names.keys() & self.dims) and not new & self.dims - names.keys():
            COMPOSITION_DIMS.keep(other, self._composition_dims())  # no two dimensions got one name
        return other

    def _check_vector(self, x: object, side: Side) -> None:
        # Operands check the rest, and their messages have their names.
        positions = range(len(dims_of(self._shape, side)))
        check_sizes(self, x, side, [self.own_length(side, position) for position in positions])

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, and with its operands adapted."""
        operands = [
            operand.resolved(ishape=shape.ishape, oshape=shape.oshape) for operand in self.linops
        ]
        return self.with_operands(operands, shape)


def operands_without_fftshift(
    linop: Composite, dims: Iterable[NamedDimension]
) -> NamedLinop | None:
    """Return the same composition of operands for data whose first element is the centre."""
    unshifted = [without_fftshift(operand, dims) for operand in linop.linops]
    operands = [operand for operand in unshifted if operand is not None]
    return linop.with_operands(operands, linop.shape) if len(operands) == len(unshifted) else None


@has_sizes_of_names.register(Composite)
def _has_operands_side_by_side(linop: Composite) -> bool:
    return linop._is_side_by_side


@is_over_processes.register(Composite)
def _is_an_operand_over_processes(linop: Composite) -> bool:
    return linop._is_over_processes


@totals_of.register(Composite)
def _totals_side_by_side(linop: Composite, side: Side) -> Totals | None:
    """Return how sums are collected.

    Raises
    ------
    PartsSideBySide
        If several processes have parts of the vectors of operands that stand side by side.
    """
    of_operands = [totals_of(operand, side) for operand in linop.linops]
    says = [totals for totals in of_operands if totals is not None]
    if len(of_operands) > 1 and any(totals.add is not None for totals in says):
        raise PartsSideBySide(
            f"{linop.signature}: operands that stand side by side must have whole vectors, got "
            f"an {side} that is cut over several processes; give a solver the "
            "operators as a list, as in lsqr([A, B], [y, z])"
        )
    return says[0] if says else None


def supports_of(linop: NamedLinop, dims: Iterable[NamedDimension]) -> Supports:
    """Return the supports of several dimensions; a composition finds them together."""
    if isinstance(linop, Composite) and type(linop).support is Composite.support:
        return linop._supports(*dims)
    return {dim: linop.support(dim) for dim in dims}


def source_of(linop: NamedLinop, side: Side, position: int) -> LengthSource:
    """Return where a length is known: in an operand, if ``linop`` has the sizes of operands."""
    if isinstance(linop, Composite) and type(linop).sizes is Composite.sizes:
        return linop._source(side, position)
    return linop, side, position


def _length_of(source: LengthSource) -> int | None:
    """Return the current length; weights may have been replaced."""
    if source is None or isinstance(source, int):
        return source
    linop, side, position = source
    return linop.sizes(side)[position]


def with_operands_inlined(
    linops: Sequence[NamedLinop], are_flattened: Sequence[bool], composition: CompositionDims
) -> tuple[list[NamedLinop], CompositionDims]:
    """Return operators with some of them replaced by their operands, and their dimensions."""
    operands: list[NamedLinop] = []
    numbers: list[int] = []  # of the first operand of each operator
    for linop, is_flat in zip(linops, are_flattened, strict=True):
        numbers.append(len(operands))
        operands += cast(Composite, linop).linops if is_flat else [linop]
    sources = {}
    for place, (number, side, position) in composition.sources.items():
        inside: Place = 0, side, position
        if are_flattened[number]:
            inside = cast(Composite, linops[number])._composition_dims().sources[side, position]
        sources[place] = (numbers[number] + inside[0], *inside[1:])
    return operands, CompositionDims(sources, composition.links)
