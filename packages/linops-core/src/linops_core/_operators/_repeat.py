"""The same along new dimensions, and its adjoint: the sum over dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from torch import Tensor

from nameddim import ELLIPSES, NamedDimension, NamedShape, as_dims

from .._algebra._normal import Normal
from .._algebra._normal_of import normal_of
from .._algebra._scalar import Scalar
from .._base._copying import linked
from .._base._linop import NamedLinop
from .._base._sides import Side, dims_of, named_axes
from .._base._sizes import by_dimension, is_size
from .._base._sliceable import SliceableLinop


class Expansion(SliceableLinop):
    """The base of :class:`Repeat` and :class:`SumReduce`: one side is the other, repeated.

    Parameters
    ----------
    narrow, wide : sequence of dimensions
        The sides. What is in both has the same order.
    counts : mapping of dimension to int or None
        How often what is repeated is in the wide side; None where that is not known.
    expands : bool
        Whether the wide side is the output.
    """

    def __init__(
        self,
        narrow: Sequence[NamedDimension | str],
        wide: Sequence[NamedDimension | str],
        counts: Mapping[NamedDimension, int | None],
        expands: bool,
    ) -> None:
        sides = (narrow, wide) if expands else (wide, narrow)
        super().__init__(NamedShape(*sides, repeated=tuple(counts)))
        self._counts = tuple(int(n) if is_size(n) else n for n in counts.values())
        self._expands = expands
        narrow_dims, wide_dims = self._sides()
        new = [dim for dim in wide_dims if dim not in narrow_dims]
        if [dim for dim in wide_dims if dim not in new] != list(narrow_dims):
            raise ValueError(
                f"{self.name}: the dimensions of the smaller side must be in the larger one, in "
                f"the same order, got {self.shape}"
            )
        if not counts:
            raise ValueError(
                f"{self.name}: there must be at least one dimension more on the larger side, "
                f"got {self.shape}"
            )
        for dim, count in counts.items():
            if dim not in self.dims & set(wide_dims) or not (count is None or is_size(count)):
                raise ValueError(
                    f"{self.name}: sizes must be positive integers for named dimensions of the "
                    f"larger side, got {dim}: {count} for {self.shape}"
                )
        for dim in new:
            if dim not in counts:
                raise ValueError(
                    f"{self.name}: a dimension of one side alone must have a name and a size, "
                    f"got {dim} for {self.shape}"
                )
        of_name = {dim: axis for axis, dim in named_axes(wide_dims)}
        self._axes = tuple(of_name[dim] for dim in counts)
        self._new = tuple(dim in new for dim in counts)
        # Those that both sides have, in different sizes, which nobody else can check.
        places = enumerate(zip(self._axes, self._new, strict=True))
        self._stretched = tuple((i, axis) for i, (axis, is_new) in places if not is_new)
        self._index = tuple(
            ... if dim == ELLIPSES else None if dim in new else slice(None) for dim in wide_dims
        )

    def _sides(self) -> tuple[tuple[NamedDimension, ...], tuple[NamedDimension, ...]]:
        """Return the names of the narrow side and those of the wide one."""
        return (self.ishape, self.oshape) if self._expands else (self.oshape, self.ishape)

    def expanded(self, x: Tensor) -> Tensor:
        """Return a view of the narrow ``x`` that is wide."""
        y = x[self._index]
        for _, axis in self._stretched:
            if y.shape[axis] != 1:
                raise ValueError(
                    f"{self.name}: the size along axis {axis} must be 1 to be broadcast, "
                    f"got shape {tuple(x.shape)} for {self.shape}"
                )
        sizes = [-1] * y.ndim
        for axis, count in zip(self._axes, self._counts, strict=True):
            if count is None:
                unknown = self.shape.other_shapes["repeated"][self._counts.index(None)]
                raise ValueError(
                    f"{self.name}: the size of {unknown} must be known for the adjoint, give it in "
                    f"sizes, for {self.shape}"
                )
            sizes[axis] = count
        return y.expand(sizes)

    def summed(self, x: Tensor) -> Tensor:
        """Return the sums of the wide ``x``, which are narrow."""
        if not self._stretched:
            return x.sum(dim=self._axes)
        for i, axis in self._stretched:
            if x.shape[axis] != self._counts[i]:
                raise ValueError(
                    f"{self.name}: the size along axis {axis} must be {self._counts[i]}, "
                    f"got shape {tuple(x.shape)} for {self.shape}"
                )
        new = [axis for axis, new in zip(self._axes, self._new, strict=True) if new]
        total = x.sum(dim=self._axes, keepdim=True)
        return total.squeeze(dim=new) if new else total

    def adjoint(self) -> NamedLinop:
        """Return the adjoint: what was repeated is summed over and the other way round."""
        adjoint = super().adjoint()
        vars(adjoint)["_expands"] = not self._expands
        return adjoint

    def conj(self) -> NamedLinop:
        """Return the operator itself, which is real."""
        return self

    def without_fftshift(self, dims: Iterable[NamedDimension]) -> NamedLinop:
        """Return the operator itself: what is repeated is the same wherever it begins."""
        return self

    def own_normal(self) -> NamedLinop:
        """Return the number of repetitions times x; for a sum, the sum repeated."""
        counts = [count for count in self._counts if count is not None]
        complete = len(counts) == len(self._counts)
        if not self._expands:
            return normal_of(self) if complete else Normal(linked(self))
        if complete and all(self._new):
            return Scalar(prod(counts), self.ishape)
        return normal_of(self)  # which refuses what is to be broadcast and is not of size 1

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of a repeated dimension; that of the input where the sides differ."""
        return self.size_of_side(dim)

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return how often what is repeated is in the wide side; it has size 1 in the other."""
        names = self.shape.other_shapes["repeated"]
        if (side == "output") == self._expands:
            known = dict(zip(names, self._counts, strict=True))
        else:
            known = dict.fromkeys(names, 1)
        return tuple([known.get(dim) for dim in dims_of(self.shape, side)])

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it has size 1 on one side alone."""
        for own, count, new in zip(
            self.shape.other_shapes["repeated"], self._counts, self._new, strict=True
        ):
            if own == dim and not new and count != 1:
                return f"it has size 1 on one side and {count} on the other"
        return None

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the operator between the slices of ``tile``; see :meth:`NamedLinop.split`."""
        window = linop.own_window(tile)
        counts = tuple(
            window[dim].stop - window[dim].start if dim in window else count
            for dim, count in zip(linop.shape.other_shapes["repeated"], linop._counts, strict=True)
        )
        if counts == linop._counts:
            return linop  # type: ignore[no-any-return]
        piece = linked(linop)
        vars(piece)["_counts"] = counts
        return piece  # type: ignore[no-any-return]

    adj_split = split


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
        ishape: Sequence[NamedDimension | str],
        oshape: Sequence[NamedDimension | str],
        broadcast_dims: Sequence[NamedDimension | str] | None = None,
    ) -> None:
        counts = by_dimension("Repeat", n_repeats, "n_repeats")
        given = set(as_dims(ishape))
        broadcast = set(as_dims(() if broadcast_dims is None else broadcast_dims))
        for dim in broadcast - counts.keys():
            raise ValueError(
                f"Repeat: n_repeats must have a size for each dimension that is broadcast, "
                f"got none for {dim}"
            )
        for dim in (counts.keys() & given) - broadcast:
            raise ValueError(
                f"Repeat: a dimension that the input has must be in broadcast_dims to be "
                f"repeated, got {dim} in n_repeats"
            )
        super().__init__(ishape, oshape, counts, expands=True)

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return x repeated, as a view."""
        return linop.expanded(x)  # type: ignore[no-any-return]

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return the sum over the repetitions."""
        return linop.summed(x)  # type: ignore[no-any-return]


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

    def __init__(
        self,
        ishape: Sequence[NamedDimension | str],
        oshape: Sequence[NamedDimension | str],
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
        super().__init__(oshape, ishape, {dim: known.get(dim) for dim in gone}, expands=False)

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return the sum of x over what the output lacks."""
        return linop.summed(x)  # type: ignore[no-any-return]

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return x repeated, as a view."""
        return linop.expanded(x)  # type: ignore[no-any-return]

    @staticmethod
    def normal_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return the sum at each place of what was summed; as often as x has it."""
        return x.sum(dim=linop._axes, keepdim=True).expand(x.shape)
