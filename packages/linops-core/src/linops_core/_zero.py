"""The operator that maps everything to zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from torch import Tensor

from nameddim import ELLIPSES, ND, NamedDimension, NamedShape

from ._copying import linked
from ._linop import NamedLinop
from ._sizes import by_dimension
from ._sliceable import SliceableLinop


class Zero(SliceableLinop):
    r"""The zero operator :math:`x \mapsto 0`.

    Parameters
    ----------
    ishape, oshape : sequence of dimensions
        Dimensions of both sides have the same size in input and output.
    sizes : mapping of dimension to int, optional
        Sizes that the operator knows. A dimension of one side only must be here before the
        operator is applied towards that side.

    Raises
    ------
    TypeError
        If ``sizes`` is no mapping.
    ValueError
        If a size is no integer from 0; when called, if one is missing.

    Examples
    --------
    >>> import torch
    >>> Zero(("N",), ("M",), sizes={"M": 2})(torch.ones(3))
    tensor([0., 0.])
    """

    def __init__(
        self,
        ishape: Sequence[NamedDimension | str] = ("...",),
        oshape: Sequence[NamedDimension | str] | None = None,
        *,
        sizes: Mapping[str, int] | Mapping[NamedDimension, int] | None = None,
    ) -> None:
        super().__init__(NamedShape(ishape, oshape))
        known = by_dimension(self.name, sizes)
        for dim, size in known.items():
            if not isinstance(size, Integral) or size < 0:
                raise ValueError(
                    f"{self.name}: the size of {dim} must be an integer from 0, got {size!r}"
                )
        self._sizes = {dim: int(size) for dim, size in known.items() if dim in self.dims}

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, or None where the operator takes any."""
        return self._sizes.get(ND.infer(dim))

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return zeros of the output's shape, of the dtype and on the device of x."""
        return x.new_zeros(linop.output_sizes(x))

    adj_fn = fn  # the shape of the adjoint says the rest

    def output_sizes(self, x: Tensor) -> list[int]:
        """Return the sizes of the output for input ``x``."""
        hidden = x.ndim - (len(self.ishape) - 1)
        # The first "()" of the output is the first of the input, and so on.
        of_input: dict[NamedDimension, list[list[int]]] = {}
        sizes = list(x.shape)
        for dim in self.ishape:
            count = hidden if dim == ELLIPSES else 1
            of_input.setdefault(dim, []).append(sizes[:count])
            sizes = sizes[count:]
        lengths: list[int] = []
        for dim in self.oshape:
            if of_input.get(dim):
                lengths += of_input[dim].pop(0)
            elif dim in self._sizes:
                lengths.append(self._sizes[dim])
            else:
                raise ValueError(
                    f"{self.name}: the size of {dim} must be given in sizes, for {self.shape}"
                )
        return lengths

    def conj(self) -> NamedLinop:
        """Return the zero operator itself, which is real."""
        return self

    def own_normal(self) -> NamedLinop:
        """Return the zero operator of the input space, which may be sliced along all of it."""
        return Zero(self.ishape, sizes=self._sizes)

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the zero operator between the slices; see :meth:`NamedLinop.split`."""
        window = linop.own_window(tile)
        if not window:
            return linop  # type: ignore[no-any-return]
        other = linked(linop)
        cut = {dim: piece.stop - piece.start for dim, piece in window.items()}
        vars(other)["_sizes"] = {**linop._sizes, **cut}
        return other  # type: ignore[no-any-return]

    adj_split = split

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions."""
        other = super().renamed(names)
        if other is not self:
            vars(other)["_sizes"] = {names.get(dim, dim): n for dim, n in self._sizes.items()}
        return other
