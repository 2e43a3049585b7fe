"""Orthonormal wavelet transforms, with the filters of ``wavelet_filters.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from linops_core import GridNames, GridOperator, Identity, NamedLinop, linear_function
from linops_core.siblings import MixedAxis, check_integer
from nameddim import NamedDimension, as_dims

from ._checks import sizes_of_grid
from ._filter_bank import Filter, analysis, synthesis

WaveletStep: TypeAlias = Callable[[Tensor, int, Filter], Tensor]


class Wavelet(GridOperator[MixedAxis]):
    r"""The orthonormal wavelet transform of a periodic grid.

    Each level filters and halves the grid along each axis into approximations and details. The next
    level transforms the approximations. The coefficients are packed into an array of the size of
    the grid, approximations first along each axis. This is the layout of PyWavelets'
    ``coeffs_to_array`` for ``wavedecn(..., mode="periodization")``. The adjoint is the inverse, and
    the normal operator is the identity.

    Zeros are appended to the grid up to multiples of ``2**n_levels``, the ``padded_size``, which is
    the size of the coefficients. ``W.H(W(x))`` is still x, and the energy of the coefficients that
    of x. But if zeros were appended, there are more coefficients than points: ``W.H.N`` is then a
    projection and not the identity, and :func:`linops_solvers.in_basis` refuses W. If you need a
    unitary W, give ``n_levels`` for which ``2**n_levels`` divides the sizes.

    Parameters
    ----------
    wavelet : str
        "haar", "db1" to "db38" (Daubechies), "sym2" to "sym20" (least asymmetric) or "coif1" to
        "coif17" (coiflets).
    dims : sequence of dimensions
        Dimensions of the grid, the last ones of the input. They cannot be sliced.
    sizes : sequence of int
        Sizes of the grid.
    n_levels : int, optional
        At least 0. By default at least 1: the largest number for which at most an eighth of each
        size is appended and the last level filters at least about 2 (L - 1) points along each axis,
        PyWavelets' ``dwt_max_level``. L is the length of the filter: 2 n for "dbn" and "symn", 6 n
        for "coifn".
    out_dims : sequence of dimensions, optional
        Dimensions of the coefficients; by default ``dims`` with the next index (Nx -> Nx1).
    batch_shape : sequence of dimensions, optional
        Dimensions before the grid; they can be sliced. Any dimensions by default.

    Raises
    ------
    TypeError
        If n_levels is not an integer.
    ValueError
        If there is no such wavelet, the sizes do not fit the dimensions, or a size is too small for
        the levels, or for one level by default.

    Notes
    -----
    Real and complex input of any floating dtype is transformed in that dtype, integers in the
    default dtype. ``dmey`` of PyWavelets is left out, because its filter of 62 taps is orthonormal
    to 2e-3 only.

    References
    ----------
    I. Daubechies, "Ten lectures on wavelets", SIAM (1992), sections 6.4 and 8.1; "Orthonormal bases
    of compactly supported wavelets II", SIAM Journal on Mathematical Analysis 24 (1993).

    Examples
    --------
    >>> import torch
    >>> W = Wavelet("haar", ("N",), [4], n_levels=1)
    >>> W(torch.tensor([1.0, 1.0, 3.0, 1.0]))
    tensor([1.4142, 2.8284, 0.0000, 1.4142])
    >>> W.N
    Identity (..., N) -> (..., N)
    """

    is_real = True
    grid_keys = ("grid", "coefficients")
    why_mixed = "a wavelet transform mixes all of the grid"

    def __init__(
        self,
        wavelet: str,
        dims: Sequence[NamedDimension | str],
        sizes: Sequence[int],
        n_levels: int | None = None,
        out_dims: Sequence[NamedDimension | str] | None = None,
        batch_shape: Sequence[NamedDimension | str] | None = None,
    ) -> None:
        filters = lowpass_filters()
        if wavelet not in [*filters]:
            raise ValueError(
                'Wavelet: wavelet must be "haar", "db1" to "db38", "sym2" to "sym20" or "coif1" to '
                f'"coif17", got {wavelet!r}'
            )
        grid = as_dims(dims)
        grid_size = sizes_of_grid("Wavelet", sizes, len(grid), name="sizes")
        of_grid, of_result = ("dims", grid, grid), ("out_dims", out_dims, None)
        why = f"a grid of {grid_size}"
        names = GridNames.of("Wavelet", (None,) * 3, batch_shape, of_grid, of_result, why)
        n_taps = len(filters[wavelet])
        if n_levels is None:
            levels = [(size // (n_taps - 1)).bit_length() - 1 for size in grid_size]
            for dim, size, most in zip(grid, grid_size, levels, strict=True):
                if most < 1:
                    raise ValueError(
                        f"Wavelet: {dim} must have at least {2 * (n_taps - 1)} points for "
                        f"{wavelet!r}, got {size}; leave it out of dims, choose a shorter wavelet, "
                        "or give n_levels"
                    )
            n_levels = next(
                n
                for n in range(min(levels), 0, -1)
                if n == 1 or all(8 * (-size % 2**n) <= size for size in grid_size)
            )
        check_integer("Wavelet", "n_levels", n_levels, 0)
        for dim, size in zip(grid, grid_size, strict=True):
            if n_levels > (size - 1).bit_length():
                raise ValueError(
                    f"Wavelet: {dim} must have more than 2**{n_levels - 1} points for {n_levels} "
                    f"levels, got {size}; give fewer levels"
                )
        padded_size = tuple([size + -size % 2**n_levels for size in grid_size])
        shape = names.shape(grid=names.grid, coefficients=names.result)
        super().__init__(shape, map(MixedAxis, grid_size, padded_size))
        self.wavelet, self.n_levels = wavelet, n_levels
        self.grid_size, self.padded_size = grid_size, padded_size
        self._lowpass = filters[wavelet]

    @staticmethod
    def fn(linop: Wavelet, x: Tensor, /) -> Tensor:
        """Return the coefficients."""
        return linear_function(linop._analyzed, linop._synthesized, _floating(x))

    @staticmethod
    def adj_fn(linop: Wavelet, x: Tensor, /) -> Tensor:
        """Return the grid that has these coefficients."""
        return linear_function(linop._synthesized, linop._analyzed, _floating(x))

    def _analyzed(self, x: Tensor) -> Tensor:
        if self.padded_size != self.grid_size:
            pairs = zip(self.grid_size, self.padded_size, strict=True)
            after = [larger - size for size, larger in pairs]
            x = pad(x, [n for more in reversed(after) for n in (0, more)])
        return self._at_levels(analysis, x, range(self.n_levels))

    def _synthesized(self, x: Tensor) -> Tensor:
        levels = range(self.n_levels)[::-1]
        # All levels but the last write into the clone, which has no other name.
        x = self._at_levels(synthesis, x.clone() if self.n_levels > 1 else x, levels)
        if self.padded_size == self.grid_size:
            return x
        for axis, size in enumerate(self.grid_size, x.ndim - len(self.grid_size)):
            x = x.narrow(axis, 0, size)
        return x.contiguous()

    def _at_levels(self, step: WaveletStep, x: Tensor, levels: Iterable[int]) -> Tensor:
        """Return x after a step along each axis, at each of the levels."""
        result, n_axes, is_complex = _real(x), x.ndim, x.is_complex()
        first = n_axes - len(self.grid_size)
        del x
        for level in levels:
            part = block = self._corner(result, first, level)
            if not level:
                del result, block  # before the last axis is done
            for axis in range(first, n_axes):
                part = step(part, axis, self._lowpass)
            if level:
                block.copy_(part)
            else:
                result = part
        return torch.view_as_complex(result) if is_complex else result

    def _corner(self, x: Tensor, first: int, level: int) -> Tensor:
        """Return the approximations before level ``level``, a view."""
        for axis, size in enumerate(self.padded_size, first):
            x = x.narrow(axis, 0, size >> level)
        return x

    def own_normal(self) -> NamedLinop:
        """Return the identity, but for the adjoint of a transform that appends zeros."""
        is_projection = self.is_adjoint and self.padded_size != self.grid_size
        return super().own_normal() if is_projection else Identity.on_input_of(self)


@cache
def lowpass_filters() -> Mapping[str, Sequence[float]]:
    """Return the synthesis lowpass filter of each wavelet."""
    text = files(__package__).joinpath("wavelet_filters.json").read_text("utf-8")
    filters: dict[str, Sequence[float]] = json.loads(text)
    return {"haar": filters["db1"], **filters}


def _floating(x: Tensor) -> Tensor:
    is_number = x.is_floating_point() or x.is_complex()
    return x if is_number else x.to(torch.get_default_dtype())


def _real(x: Tensor) -> Tensor:
    """Return x; of a complex x, the real and imaginary parts along a new last axis."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
