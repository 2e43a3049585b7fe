"""The operator that maps everything to zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor

from nameddim import NamedDimension, NamedShape, is_wildcard

from .._base._copying import linked_copy
from .._base._dimensions import (
    SIDES,
    Side,
    dims_of,
    lengths_by_occurrence,
    may_be_cut,
    occurrences,
    size_of_side,
)
from .._base._linop import NamedLinop
from .._base._question import acts_as
from .._base._roles import why_on_both_sides
from .._base._sizes import by_dimension
from .._base._sliceable import SliceableLinop
from .._base._swapped_functions import of_adjoint
from .._base._tile import SplitError, Window
from .._numbers import is_integer


class Zero(SliceableLinop):
    r"""The zero operator :math:`x \mapsto 0`.

    Parameters
    ----------
    ishape, oshape : sequence of dimensions
        A dimension on both sides has the same size in input and output.
    sizes : mapping of dimension to int, optional
        Known sizes; those of other dimensions are left out, so that one mapping serves several
        operators. The size of a dimension of only one side is needed when the operator, or its
        adjoint, returns a tensor of that side.

    Raises
    ------
    TypeError
        If ``sizes`` is not a mapping.
    ValueError
        If a size is not an integer of at least 0; when called, if a size is missing.

    Examples
    --------
    >>> import torch
    >>> Zero(("N",), ("M",), sizes={"M": 2})(torch.ones(3))
    tensor([0., 0.])
    """

    is_real = True
    takes_any_batch = True

    def __init__(
        self,
        ishape: Sequence[NamedDimension | str] = ("...",),
        oshape: Sequence[NamedDimension | str] | None = None,
        *,
        sizes: Mapping[str, int] | Mapping[NamedDimension, int] | None = None,
    ) -> None:
        super().__init__(NamedShape(ishape, oshape))
        given = by_dimension(self.name, sizes)
        for dim, size in given.items():
            if not is_integer(size, 0):
                raise ValueError(
                    f"{self.name}: the size of {dim} must be an integer of at least 0, got {size!r}"
                )
        self._sizes: dict[Side, dict[NamedDimension, int]] = {
            side: {dim: int(n) for dim, n in given.items() if dim in dims_of(self.shape, side)}
            for side in SIDES
        }
        self._apart = frozenset[NamedDimension]()  # names of different dimensions on the two sides

    @classmethod
    def like(
        cls, linop: NamedLinop, sizes: Mapping[Side, Mapping[NamedDimension, int]] | None = None
    ) -> Zero | None:
        """Return the zero operator between the spaces of ``linop``.

        None if a ``...`` or an unnamed dimension differs between input and output. A missing length
        is an error when it is needed: see :attr:`is_complete`.

        Parameters
        ----------
        sizes : mapping of side to mapping of dimension to int, optional
            Lengths that ``linop`` does not know.
        """
        of_input, of_output = occurrences(linop.ishape), occurrences(linop.oshape)
        links = {q for p, q in linop.linked_positions() if of_input[p] == of_output[q]}
        apart = [d for q, d in enumerate(linop.oshape) if d in linop.ishape and q not in links]
        if any(map(is_wildcard, apart)):
            return None
        zero = cls(linop.ishape, linop.oshape)
        zero._apart = frozenset(apart)
        for side in SIDES:
            pairs = zip(dims_of(linop.shape, side), linop.sizes(side), strict=True)
            given = (sizes or {}).get(side, {})
            zero._sizes[side] = {**given, **{dim: n for dim, n in pairs if n is not None}}
        return zero

    @property
    def is_complete(self) -> bool:
        """Whether the length of each dimension is known or follows from the other side."""
        idims, odims = {*self.ishape}, {*self.oshape}
        return (
            self._sizes["input"].keys() >= idims - odims | self._apart
            and self._sizes["output"].keys() >= odims - idims | self._apart
        )

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, or None if any length is accepted."""
        return size_of_side(self, dim)

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the given lengths."""
        return tuple([self._sizes[side].get(dim) for dim in dims_of(self.shape, side)])

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: input and output have different such dimensions."""
        return why_on_both_sides(self.shape, dim) if dim in self._apart else None

    @staticmethod
    def fn(linop: Zero, x: Tensor, /) -> Tensor:
        """Return zeros of the output's shape, of the dtype and on the device of x."""
        sizes = linop.output_sizes(x)
        if x.requires_grad and torch.is_grad_enabled():
            # The sum of no entries is zero, and autograd knows that it belongs to x.
            return x.unsqueeze(0)[:0].sum().expand(sizes).clone()
        return x.new_zeros(sizes)

    adj_fn = staticmethod(of_adjoint)

    def output_sizes(self, x: Tensor) -> list[int]:
        """Return the sizes of the output for input ``x``."""
        # The first "()" of the output is the first of the input, and so on.
        of_input = lengths_by_occurrence(self.ishape, x.shape)
        lengths: list[int] = []
        for dim, number in occurrences(self.oshape):
            if (dim, number) in of_input and dim not in self._apart:
                lengths += of_input[dim, number]
            elif dim in self._sizes["output"]:
                lengths.append(self._sizes["output"][dim])
            else:
                raise ValueError(
                    f"{self.name}: the size of {dim} must be given in sizes, for {self.shape}"
                )
        return lengths

    def own_normal(self) -> NamedLinop:
        """Return the zero operator of the input space; all its dimensions can be sliced."""
        return Zero(self.ishape, sizes=self._sizes["input"])

    def adjoint(self) -> NamedLinop:
        """Return the zero operator in the other direction."""
        other = cast(Zero, super().adjoint())
        other._sizes = {"input": self._sizes["output"], "output": self._sizes["input"]}
        return other

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the zero operator between the slices of each window."""
        return [self._with_lengths(lengths_of(window)) for window in windows]

    def _with_lengths(self, lengths: Mapping[NamedDimension, int]) -> Zero:
        """Return the zero operator with these lengths of some dimensions."""
        sizes = {
            side: of_side | {d: n for d, n in lengths.items() if d in dims_of(self.shape, side)}
            for side, of_side in self._sizes.items()
        }
        return linked_copy(self, None, _sizes=sizes)

    def support(self, dim: NamedDimension | str) -> slice | None:
        """Return that nothing is read or written."""
        return slice(0, 0) if acts_as(self, Zero) and may_be_cut(self, dim) else None

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions."""
        other = cast(Zero, super().renamed(names))
        if other is not self:
            other._sizes = {
                side: {names.get(dim, dim): n for dim, n in sizes.items()}
                for side, sizes in self._sizes.items()
            }
            other._apart = frozenset(names.get(dim, dim) for dim in self._apart)
        return other


def lengths_of(window: Window) -> dict[NamedDimension, int]:
    """Return the length of each slice."""
    return {dim: piece.stop - piece.start for dim, piece in window.items()}


def zero_between(
    linop: NamedLinop,
    lengths: Mapping[NamedDimension, int],
    sizes: Mapping[Side, Mapping[NamedDimension, int]] | None = None,
    *,
    complete: bool = False,
) -> Zero:
    """Return the zero operator between the spaces of ``linop``, with other lengths."""
    zero = Zero.like(linop, sizes)
    if zero is not None:
        zero = zero._with_lengths(lengths)
    if zero is None or (complete and not zero.is_complete):
        raise SplitError(
            f"{linop.signature}: blocks are zero along ({', '.join(map(str, lengths))}); to cut "
            "there, each dimension of the input alone or of the output alone must have a known "
            "size, and both sides must have the same wildcards, got input sizes "
            f"{linop.sizes('input')} and output sizes {linop.sizes('output')}"
        )
    return zero
