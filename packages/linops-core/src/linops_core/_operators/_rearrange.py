"""Permuting, merging and splitting of dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from torch import Tensor

from nameddim import ELLIPSES, NamedDimension, NamedShape

from .._algebra._identity import Identity
from .._base._copying import linked_copy
from .._base._dimensions import SIDES, Side, dims_of, size_of_side
from .._base._grid_questions import without_fftshift
from .._base._linop import NamedLinop
from .._base._sliceable import SliceableLinop, only_passes_on
from .._base._tile import Window
from .._kernels._pattern import RUN, Item, names_of, parsed_pattern, rearranged
from .._numbers import is_size
from ._grid_names import Dims


class Rearrange(SliceableLinop):
    r"""Permutes, merges and splits dimensions.

    The patterns are those of einops: one axis name for each dimension. ``(a b)`` is one dimension
    made of two axes, the last one fastest; ``1`` is a dimension of size 1; ``...`` is any number of
    dimensions. Axis names are independent of the dimensions in ``ishape`` and ``oshape``. The
    adjoint is the inverse. The result is a view if torch can make one, and always if nothing is
    merged.

    A dimension can be sliced if it is one axis and has the same name in the input and the output.

    Parameters
    ----------
    ipattern, opattern : str
        Patterns of the input and of the output, with the same axes.
    ishape, oshape : sequence of dimensions
        One dimension for each item of the patterns, and ``...`` where the pattern has it.
    axes_lengths : mapping of axis name to int, optional
        Lengths of axes. If a dimension is split, by the operator or its adjoint, give all of its
        lengths but one.

    Raises
    ------
    ValueError
        If a pattern is malformed, the patterns have different axes or do not fit the shapes, or a
        length is not for an axis. When called, if a length is missing or does not fit.

    References
    ----------
    A. Rogozhnikov, "Einops: clear and reliable tensor manipulations with Einstein-like notation",
    International Conference on Learning Representations (2022).

    Examples
    --------
    >>> import torch
    >>> A = Rearrange("(a b)", "b a", ("N",), ("B", "A"), {"a": 2})
    >>> A(torch.arange(6))
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    >>> A.H(A(torch.arange(6)))
    tensor([0, 1, 2, 3, 4, 5])
    """

    is_real = True
    takes_any_batch = True

    def __init__(
        self,
        ipattern: str,
        opattern: str,
        ishape: Dims,
        oshape: Dims,
        axes_lengths: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(NamedShape(ishape, oshape))
        self._sides = parsed_pattern(ipattern), parsed_pattern(opattern)
        if axes_lengths is not None and not isinstance(axes_lengths, Mapping):
            raise TypeError(
                f"{self.name}: axes_lengths must be a mapping of axis to length, "
                f"got {type(axes_lengths)}"
            )
        self._lengths = {str(name): length for name, length in (axes_lengths or {}).items()}
        axes = set(names_of(self._sides[0]))
        if axes != set(names_of(self._sides[1])):
            raise ValueError(
                f"{self.name}: both patterns must have the same axes, "
                f"got {ipattern!r} -> {opattern!r}"
            )
        for pattern, items, names in zip(
            (ipattern, opattern), self._sides, (self.ishape, self.oshape), strict=True
        ):
            if [item == RUN for item in items] != [dim == ELLIPSES for dim in names]:
                raise ValueError(
                    f"{self.name}: a pattern must have one item for each dimension and '...' "
                    f"where the shape has it, got {pattern!r} for ({', '.join(map(str, names))})"
                )
        for name, length in self._lengths.items():
            if name not in axes - set(RUN) or not is_size(length):
                raise ValueError(
                    f"{self.name}: axes_lengths must be positive integers for axes of the "
                    f"pattern, got {name}: {length!r} for {ipattern!r}"
                )

    @staticmethod
    def fn(linop: Rearrange, x: Tensor, /) -> Tensor:
        """Return x rearranged from the input's pattern to the output's."""
        return rearranged(x, linop._sides[0], linop._sides[1], linop._lengths)

    @staticmethod
    def adj_fn(linop: Rearrange, x: Tensor, /) -> Tensor:
        """Return x rearranged from the output's pattern to the input's."""
        return rearranged(x, linop._sides[1], linop._sides[0], linop._lengths)

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``; further dimensions in front are a run."""
        sides = self._sides
        if RUN not in sides[0] and len(shape.ishape) > len(sides[0]):
            sides = (RUN, *sides[0]), (RUN, *sides[1])
        return linked_copy(self, shape, _sides=sides)

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the operator with further dimensions in front, unless its pattern has a run."""
        return None if RUN in self._sides[0] else super().fitted_to(dims)

    def own_normal(self) -> NamedLinop:
        """Return the identity."""
        return Identity.on_input_of(self)

    def _items(self, dim: NamedDimension | str) -> list[Item]:
        """Return the axes of ``dim`` in the input, if it is there, and in the output."""
        return [
            self._items_of(side)[names.index(dim)]
            for side in SIDES
            if dim in (names := dims_of(self.shape, side))
        ]

    def _items_of(self, side: Side) -> list[Item]:
        """Return the axes of each dimension of one side."""
        is_output = (side == "output") != self.is_adjoint
        items, n_names = self._sides[is_output], len(dims_of(self.shape, side))
        # The names of the run may have been added to the shape.
        runs = [[item] if item != RUN else [RUN] * (n_names - len(items) + 1) for item in items]
        return [item for run in runs for item in run]

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, or None if ``axes_lengths`` does not have it."""
        return size_of_side(self, dim)

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the lengths in ``axes_lengths``."""
        return tuple(
            [
                prod([self._lengths[name] for name in item])
                if self._lengths.keys() >= set(item)
                else None
                for item in self._items_of(side)
            ]
        )

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it is merged, split, or not on both sides."""
        items = self._items(dim)
        if not any(items) or (len(items) == 2 and items[0] == items[1] and len(items[0]) == 1):
            return None
        if len(items) == 2 and items[0] != items[1]:
            return "its axes differ in the input and in the output"
        if len(items[0]) > 1:
            return f"it is made of the axes ({' '.join(items[0])})"
        return "it is merged with others or has another name on the other side"

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the operator between the slices of each window."""
        tiles = []
        for window in windows:
            lengths = dict(self._lengths)
            for dim, piece in window.items():
                names = [name for item in self._items(dim) for name in item if name in lengths]
                lengths.update(dict.fromkeys(names, piece.stop - piece.start))
            tiles.append(self if lengths == self._lengths else linked_copy(self, _lengths=lengths))
        return tiles


@without_fftshift.register(Rearrange)
def _if_it_passes_on(linop: Rearrange, dims: Iterable[NamedDimension]) -> NamedLinop | None:
    return linop if only_passes_on(linop, dims) else None
