"""Repetition along new dimensions, and its adjoint: the sum over dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import ClassVar, NamedTuple

from torch import Tensor

from nameddim import ELLIPSES, NamedDimension, NamedShape, as_dims

from .._algebra._normal import Normal, composed_normal
from .._algebra._scalar import Scalar
from .._base._copying import linked_copy
from .._base._dimensions import named_axes
from .._base._grid_questions import without_fftshift
from .._base._linop import NamedLinop
from .._base._sizes import by_dimension
from .._numbers import is_size
from ._grid_names import Dims
from ._grid_operator import GridOperator


class Repetition(NamedTuple):
    """The number of repetitions along one axis of the wide side."""

    axis: int
    n_repeats: int | None
    is_new: bool

    @property
    def lengths(self) -> tuple[int, int | None]:
        """Length of the narrow side and of the wide one."""
        return 1, self.n_repeats

    @property
    def supports(self) -> tuple[None, None]:
        """Both sides are needed whole."""
        return None, None

    def cut(self, of_narrow: slice | None, of_wide: slice | None) -> Repetition:
        """Return the number of repetitions in a slice of the wide side."""
        return self if of_wide is None else self._replace(n_repeats=of_wide.stop - of_wide.start)


class Expansion(GridOperator[Repetition]):
    """The base of :class:`Repeat` and :class:`SumReduce`: one side is the other, repeated.

    The counts are the numbers of repetitions, None if not known.
    """

    saved_with: ClassVar[tuple[type, ...]] = (Repetition,)

    is_real = True
    takes_any_batch = True

    def __init__(
        self, narrow: Dims, wide: Dims, counts: Mapping[NamedDimension, int | None]
    ) -> None:
        sides = (narrow, wide) if self._has_grid_as_input else (wide, narrow)
        super().__init__(NamedShape(*sides, repeated=tuple(counts)), ())
        narrow_dims, wide_dims = map(as_dims, (narrow, wide))
        new = [dim for dim in wide_dims if dim not in narrow_dims]
        if [dim for dim in wide_dims if dim not in new] != list(narrow_dims) or not counts:
            raise ValueError(
                f"{self.name}: the larger side must have the dimensions of the smaller one, in the "
                f"same order, and at least one dimension more, got {self.shape}"
            )
        sized = {dim for dim, count in counts.items() if count is None or is_size(count)}
        for dim in dict.fromkeys([*counts, *new]):
            if dim not in sized & self.dims & set(wide_dims):
                raise ValueError(
                    f"{self.name}: a repeated dimension must be a named dimension of the larger "
                    f"side with a positive integer as size, got {dim}: {counts.get(dim)} for "
                    f"{self.shape}"
                )
        axes = {dim: axis for axis, dim in named_axes(wide_dims)}
        self._axes = tuple(
            Repetition(axes[dim], None if count is None else int(count), dim in new)
            for dim, count in counts.items()
        )
        self._index = _index_of(wide_dims, new)

    @property
    def axis_dims(self) -> Sequence[tuple[NamedDimension | None, ...]]:
        """The repeated dimensions, on both sides or only on the wide one."""
        pairs = zip(self.shape.other_shapes["repeated"], self._axes, strict=True)
        return [(None if axis.is_new else dim, dim) for dim, axis in pairs]

    def expanded(self, x: Tensor) -> Tensor:
        """Return a wide view of the narrow ``x``."""
        y = x[tuple([... if isinstance(part, str) else part for part in self._index])]
        sizes = [-1] * y.ndim
        for (_, dim), (axis, count, _) in zip(self.axis_dims, self._axes, strict=True):
            if count is None:
                raise ValueError(
                    f"{self.name}: the size of {dim} must be known for the adjoint, give it in "
                    f"sizes, for {self.shape}"
                )
            sizes[axis] = count
        return y.expand(sizes)

    def summed(self, x: Tensor) -> Tensor:
        """Return the narrow sums of the wide ``x``."""
        total = x.sum(dim=[repetition.axis for repetition in self._axes], keepdim=True)
        return total.squeeze([axis for axis, _, is_new in self._axes if is_new])

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, and the axes that it repeats there."""
        expands = self._has_grid_as_input != self.is_adjoint
        wide = shape.oshape if expands else shape.ishape
        axis_numbers = {dim: axis for axis, dim in named_axes(wide)}
        pairs = [*zip(shape.other_shapes["repeated"], self._axes, strict=True)]
        axes = tuple([axis._replace(axis=axis_numbers[dim]) for dim, axis in pairs])
        new = [dim for dim, axis in pairs if axis.is_new]
        return linked_copy(self, shape, _axes=axes, _index=_index_of(wide, new))

    def own_normal(self) -> NamedLinop:
        """Return the number of repetitions times x; for a sum, the sum repeated."""
        counts = [axis.n_repeats for axis in self._axes if axis.n_repeats is not None]
        is_complete = len(counts) == len(self._axes)
        expands = self._has_grid_as_input != self.is_adjoint
        if not expands and not is_complete:
            return Normal(self)
        if expands and is_complete and all(axis.is_new for axis in self._axes):
            return Scalar(prod(counts), self.ishape)
        return composed_normal(self)  # raises unless broadcast sizes are 1

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it has size 1 on one side only."""
        for dims, axis in zip(self.axis_dims, self._axes, strict=True):
            if dims == (dim, dim) and axis.n_repeats != 1:
                return f"it has size 1 on one side and {axis.n_repeats} on the other"
        return None


def _index_of(wide: Dims, new: Sequence[NamedDimension]) -> tuple[str | slice | None, ...]:
    """Return the index that makes the new axes."""
    # A run by its name: torch.load(weights_only=True) does not know an Ellipsis.
    return tuple(
        [ELLIPSES if d == ELLIPSES else None if d in new else slice(None) for d in as_dims(wide)]
    )


class Repeat(Expansion):
    r"""Repetition along new dimensions, :math:`y_{rn} = x_n`.

    The result is an expanded view; nothing is copied. The adjoint is the sum over the new
    dimensions. The normal operator multiplies by the number of repetitions. All dimensions can be
    sliced, except broadcast ones.

    Parameters
    ----------
    n_repeats : mapping of dimension to int
        Size of each new dimension and of each broadcast dimension.
    ishape, oshape : sequence of dimensions
        The output has the dimensions of the input in order, and the new ones at any places.
    broadcast_dims : sequence of dimensions, optional
        Dimensions in which the input has size 1 and the output has the size in ``n_repeats``. A
        dimension that is only in the output counts as new.

    Raises
    ------
    ValueError
        If the shapes do not fit each other, or there is not a positive size for each dimension that
        is repeated.

    Examples
    --------
    >>> import torch
    >>> A = Repeat({"C": 2}, ("N",), ("C", "N"))
    >>> A(torch.tensor([1.0, 2.0]))
    tensor([[1., 2.],
            [1., 2.]])
    >>> A.H(torch.ones(2, 3))
    tensor([2., 2., 2.])
    """

    def __init__(
        self,
        n_repeats: Mapping[str, int] | Mapping[NamedDimension, int],
        ishape: Dims,
        oshape: Dims,
        broadcast_dims: Dims | None = None,
    ) -> None:
        counts = by_dimension("Repeat", n_repeats, "n_repeats")
        broadcast = set(as_dims(() if broadcast_dims is None else broadcast_dims))
        for dim in broadcast - counts.keys():
            raise ValueError(
                f"Repeat: n_repeats must have a size for each dimension that is broadcast, "
                f"got none for {dim}"
            )
        for dim in counts.keys() & set(as_dims(ishape)) - broadcast:
            raise ValueError(
                f"Repeat: a dimension that the input has must be in broadcast_dims to be "
                f"repeated, got {dim} in n_repeats"
            )
        super().__init__(ishape, oshape, counts)

    fn = staticmethod(Expansion.expanded)
    adj_fn = staticmethod(Expansion.summed)


class SumReduce(Expansion):
    r"""The sum over dimensions, :math:`y_n = \sum_r x_{rn}`.

    The adjoint is a :class:`Repeat`; it needs ``sizes``. All dimensions can be sliced.

    Parameters
    ----------
    ishape, oshape : sequence of dimensions
        Dimensions that are only in the input are summed over. The others stay in order.
    sizes : mapping of dimension to int, optional
        Sizes of the dimensions that are summed over. Without them, the operator and its normal
        accept any size, and the adjoint raises an error.

    Raises
    ------
    ValueError
        If the dimensions of the output are not dimensions of the input in order, no dimension is
        summed over, a summed dimension has no name, or a size is not positive. When the
        adjoint is called, if a size is not known.

    Examples
    --------
    >>> import torch
    >>> A = SumReduce(("C", "N"), ("N",), sizes={"C": 2})
    >>> A(torch.ones(2, 3))
    tensor([2., 2., 2.])
    >>> A.H(torch.tensor([1.0, 2.0]))
    tensor([[1., 2.],
            [1., 2.]])
    """

    _has_grid_as_input = False

    def __init__(
        self,
        ishape: Dims,
        oshape: Dims,
        *,
        sizes: Mapping[str, int] | Mapping[NamedDimension, int] | None = None,
    ) -> None:
        given = by_dimension("SumReduce", sizes)
        kept = as_dims(oshape)
        gone = [dim for _, dim in named_axes(as_dims(ishape)) if dim not in kept]
        for dim in given.keys() - set(gone):
            raise ValueError(
                f"SumReduce: sizes must be of dimensions that are summed over, got {dim} for "
                f"({', '.join(map(str, ishape))}) -> ({', '.join(map(str, oshape))})"
            )
        super().__init__(oshape, ishape, {dim: given.get(dim) for dim in gone})

    fn = staticmethod(Expansion.summed)
    adj_fn = staticmethod(Expansion.expanded)

    @staticmethod
    def normal_fn(linop: SumReduce, x: Tensor, /) -> Tensor:
        """Return the sums, repeated to the shape of x."""
        axes = [repetition.axis for repetition in linop._axes]
        return x.sum(dim=axes, keepdim=True).expand(x.shape)


@without_fftshift.register(Repeat, SumReduce)
def _alike_everywhere(linop: Expansion, dims: Iterable[NamedDimension]) -> NamedLinop:
    return linop
