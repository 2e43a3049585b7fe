"""The normal operator of a sampling: multiplication by how often each point is sampled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from nameddim import NamedDimension, NamedShape

from .._algebra._normal import Normal
from .._base._linop import NamedLinop
from .._base._sides import Side, dims_of
from .._base._tile import Window
from .._kernels._dtype import summable

if TYPE_CHECKING:
    from ._sampling import Sampling


class SampleCounts(Normal):
    """Multiplication by the number of times that each point of a grid is sampled.

    It is a diagonal, and so it can be sliced along the grid, which the sampling itself cannot.
    The counts are made when it is called, of the indices as they are then.

    Parameters
    ----------
    sampling : Sampling
    """

    def __init__(self, sampling: Sampling) -> None:
        super().__init__(sampling, NamedShape(sampling.ishape))
        self._window: Window = {}

    @property
    def sampling(self) -> Sampling:
        """The sampling whose points are counted."""
        return cast("Sampling", self.linop)

    @property
    def _grid(self) -> tuple[NamedDimension, ...]:
        return self.ishape[len(self.ishape) - len(self.sampling.input_size) :]

    def own_length(self, side: Side, position: int) -> int | None:
        """Return the length of what a tile has of the grid."""
        piece = self._window.get(dims_of(self.shape, side)[position])
        return None if piece is None else int(piece.stop - piece.start)

    def _check_input(self, x: Tensor) -> None:
        self._check_rank(x)
        NamedLinop._check_sizes(self, x.shape)

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return x times the number of samples at each point."""
        x = summable(x)
        counts = linop.sampling.counts(x.real.dtype)
        cut = tuple(linop._window.get(dim, slice(None)) for dim in linop._grid)
        return x * counts[cut]  # type: ignore[no-any-return]

    adj_fn = fn

    def conj(self) -> SampleCounts:
        """Return the operator itself, which is real."""
        return self

    def without_fftshift(self, dims: Iterable[NamedDimension]) -> SampleCounts | None:
        """Return the counts in the order of such data; see :meth:`NamedLinop.without_fftshift`."""
        names = dict(zip(self.ishape, self.sampling.ishape, strict=True))
        sampling = self.sampling.without_fftshift([names.get(dim, dim) for dim in dims])
        if sampling is None or self._window:
            return None
        return self.with_operands([sampling], self.shape)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced."""
        return None if dim in self._grid else super().why_opaque(dim)

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> SampleCounts:
        """Return the counts of a part of the grid; see :meth:`NamedLinop.split`."""
        window = dict(linop.own_window(tile))
        cut = {dim: window.pop(dim) for dim in linop._grid if dim in window}
        sampling = linop.sampling.split(linop.sampling, window)
        other = linop.with_operands([sampling])
        vars(other)["_window"] = {**linop._window, **_within(linop._window, cut)}
        return other  # type: ignore[no-any-return]

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> SampleCounts:
        """Return the operator with other names for its dimensions."""
        other = super().renamed(names)
        if other is not self:
            window = {names.get(dim, dim): piece for dim, piece in self._window.items()}
            vars(other)["_window"] = window
        return cast("SampleCounts", other)


def _within(outer: Window, inner: Window) -> Window:
    """Return the slices of ``inner``, counted in those of ``outer``, as slices of the whole."""
    starts = {dim: outer[dim].start if dim in outer else 0 for dim in inner}
    return {dim: slice(starts[dim] + p.start, starts[dim] + p.stop) for dim, p in inner.items()}
