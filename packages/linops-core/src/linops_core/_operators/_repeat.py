"""The same along new dimensions, and its adjoint: the sum over dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import ClassVar, NamedTuple

from torch import Tensor

from nameddim import ELLIPSES, NamedDimension, NamedShape, as_dims

from .._algebra._normal import Normal
from .._algebra._normal_of import normal_of
from .._algebra._scalar import Scalar
from .._base._copying import linked
from .._base._linop import NamedLinop
from .._base._sides import named_axes
from .._base._sizes import by_dimension, is_size
from ._grid_names import Dims
from ._grid_operator import GridOperator


class Repetition(NamedTuple):
    """How often what has size 1, or no axis at all, is along one axis of the wide side."""

    axis: int
    n_repeats: int | None
    is_new: bool

    @property
    def lengths(self) -> tuple[int, int | None]:
        """Length of the narrow side and of the wide one."""
        return 1, self.n_repeats

    @property
    def supports(self) -> tuple[None, None]:
        """All of both sides."""
        return None, None

    def cut(self, of_narrow: slice | None, of_wide: slice | None) -> Repetition:
        """Return how often it is in a slice of the wide side."""
        return self if of_wide is None else self._replace(n_repeats=of_wide.stop - of_wide.start)


class Expansion(GridOperator[Repetition]):
    """The base of :class:`Repeat` and :class:`SumReduce`: one side is the other, repeated.

    The counts say how often what is repeated is in the wide side, None where that is not known.
    """

    saved_with: ClassVar[tuple[type, ...]] = (Repetition,)

    _is_real = True
    _takes_any_batch = True

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
                    f"{self.name}: what is repeated must be a named dimension of the larger side "
                    f"with a positive integer as size, got {dim}: {counts.get(dim)} for "
                    f"{self.shape}"
                )
        axes = {dim: axis for axis, dim in named_axes(wide_dims)}
        self._axes = tuple(
            Repetition(axes[dim], None if count is None else int(count), dim in new)
            for dim, count in counts.items()
        )
        # A run by its name: an Ellipsis is nothing that torch.load(weights_only=True) knows.
        self._index = tuple(
            ELLIPSES if dim == ELLIPSES else None if dim in new else slice(None)
            for dim in wide_dims
        )

    @property
    def axis_dims(self) -> Sequence[tuple[NamedDimension | None, ...]]:
        """The repeated dimensions, on both sides or on the wide one alone."""
        pairs = zip(self.shape.other_shapes["repeated"], self._axes, strict=True)
        return [(None if axis.is_new else dim, dim) for dim, axis in pairs]

    def expanded(self, x: Tensor) -> Tensor:
        """Return a view of the narrow ``x`` that is wide."""
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
        """Return the sums of the wide ``x``, which are narrow."""
        total = x.sum(dim=[repetition.axis for repetition in self._axes], keepdim=True)
        return total.squeeze([axis for axis, _, is_new in self._axes if is_new])

    def without_fftshift(self, dims: Iterable[NamedDimension]) -> NamedLinop:
        """Return the operator itself: what is repeated is the same wherever it begins."""
        return self

    def _fitted_with(self, shape: NamedShape) -> NamedLinop:
        """Return the copy whose repeated axes stand behind further dimensions."""
        expands = self._has_grid_as_input != self.is_adjoint
        wide = shape.oshape if expands else shape.ishape
        front = wide[: len(wide) - len(self._index)]
        places = {dim: axis for axis, dim in named_axes(wide)}
        dims = shape.other_shapes["repeated"]
        axes = [axis._replace(axis=places[dim]) for dim, axis in zip(dims, self._axes, strict=True)]
        parts = [ELLIPSES if dim == ELLIPSES else slice(None) for dim in front]
        return linked(self, shape, _axes=tuple(axes), _index=(*parts, *self._index))

    def own_normal(self) -> NamedLinop:
        """Return the number of repetitions times x; for a sum, the sum repeated."""
        counts = [axis.n_repeats for axis in self._axes if axis.n_repeats is not None]
        is_complete = len(counts) == len(self._axes)
        expands = self._has_grid_as_input != self.is_adjoint
        if not expands and not is_complete:
            return Normal(linked(self))
        if expands and is_complete and all(axis.is_new for axis in self._axes):
            return Scalar(prod(counts), self.ishape)
        return normal_of(self)  # which refuses what is to be broadcast and is not of size 1

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it has size 1 on one side alone."""
        for dims, axis in zip(self.axis_dims, self._axes, strict=True):
            if dims == (dim, dim) and axis.n_repeats != 1:
                return f"it has size 1 on one side and {axis.n_repeats} on the other"
        return None


class Repeat(Expansion):
    r"""The same along new dimensions, :math:`y_{rn} = x_n`.

    The result is an expanded view: nothing is copied. The adjoint is the sum over the new
    dimensions, the normal operator multiplies with the number of repetitions. It can be sliced
    along all dimensions but those that are broadcast.

    Parameters
    ----------
    n_repeats : mapping of dimension to int
        Size of each new dimension, and of each that is broadcast.
    ishape, oshape : sequence of dimensions
        The output has the dimensions of the input in their order, with the new ones anywhere
        between.
    broadcast_dims : sequence of dimensions, optional
        Dimensions in which the input has size 1 and the output the size in ``n_repeats``. One
        that is only in the output is as new as any other.

    Raises
    ------
    ValueError
        If the shapes do not go together, or there is not a positive size for each dimension that
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

    The adjoint repeats, as :class:`Repeat` does, and has to know how often. It can be sliced
    along all dimensions.

    Parameters
    ----------
    ishape, oshape : sequence of dimensions
        What the output lacks is summed over; the others stay in their order.
    sizes : mapping of dimension to int, optional
        Sizes of the dimensions that are summed over. The operator and its normal operator work
        without, and take any; the adjoint refuses to guess.

    Raises
    ------
    ValueError
        If the output is not made of dimensions of the input in their order, all of them are in
        it, one that is summed over has no name, or a size is not positive; by the adjoint, if a
        size is not known.

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
        known = by_dimension("SumReduce", sizes)
        kept = as_dims(oshape)
        gone = [dim for _, dim in named_axes(as_dims(ishape)) if dim not in kept]
        for dim in known.keys() - set(gone):
            raise ValueError(
                f"SumReduce: sizes must be of dimensions that are summed over, got {dim} for "
                f"({', '.join(map(str, ishape))}) -> ({', '.join(map(str, oshape))})"
            )
        super().__init__(oshape, ishape, {dim: known.get(dim) for dim in gone})

    fn = staticmethod(Expansion.summed)
    adj_fn = staticmethod(Expansion.expanded)

    @staticmethod
    def normal_fn(linop: SumReduce, x: Tensor, /) -> Tensor:
        """Return the sum at each place of what was summed; as often as x has it."""
        axes = [repetition.axis for repetition in linop._axes]
        return x.sum(dim=axes, keepdim=True).expand(x.shape)
