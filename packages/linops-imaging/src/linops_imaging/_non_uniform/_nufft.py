"""The non-uniform Fourier transform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import cast

import torch
from torch import Tensor

from linops_core import Interpolate, NamedLinop, Wrapper, linear_function
from linops_core.siblings import (
    Memo,
    check_flags,
    check_real,
    concatenate,
    finds_grid_by_name,
    is_recorded,
    method_of,
    steps_that_differ,
    writing_is_safe,
)
from nameddim import ELLIPSES, NamedDimension, NamedShape

from .._checks import sizes_of_grid
from .._some_at_a_time import applied_in_pieces
from ._kaiser_bessel import LEAST_OVERSAMPLING, Gridding
from ._locations import check_locations
from ._method import NufftRequest, interpolate_of
from ._methods import METHODS, made
from ._names import names_of_transform
from ._toeplitz_normal import ToeplitzNormal, check_device

# The default of tol.
_TOL = 1e-3

# Bytes of the oversampled grids that are computed at a time; one slice may have more.
_STEP = 2**25

# The same for the grids of one coil, of frames that are computed at a time. On a CPU, frames share
# nothing, so that cutting costs only the time of Python; a GPU waits for each step. The number does
# not depend on the number of coils, so that there is one set of tables.
_FRAMES, _FRAMES_ON_GPU = 2**18, 2**28


class NUFFT(Wrapper):
    r"""The non-uniform Fourier transform of an image,

    .. math:: y_j = \frac{1}{\sqrt{\prod_d N_d}} \sum_r
              x_r \, e^{-2 \pi i \sum_d l_{jd} (r_d - \lfloor N_d / 2 \rfloor) / N_d} .

    - Scale: with the points of the grid as locations, the operator is ``FFT(centered=True)``.
    - Sign: minus in the exponent, plus in the adjoint.
    - Order: coordinate d of a location belongs to axis d of the image.
    - Units: cycles per field of view, in :math:`[-N_d / 2, N_d / 2]`.

    Parameters
    ----------
    locs : Tensor
        Real, (..., D) for images of D dimensions, 1 to 3. Gradients reach it. A Parameter stays a
        Parameter.
    grid_size : sequence of int
        D numbers, N: the size of the image.
    output_shape : sequence of dimensions, optional
        Dimensions of the locations without the last axis: frames, then points; K, K1 and so on by
        default. A dimension that is also in ``batch_shape`` is a frame, with its own locations; the
        output has it where ``batch_shape`` has it. The points take the place of the image. Both can
        be sliced.
    input_shape : sequence of dimensions, optional
        Dimensions of the image; Nx, Ny, Nz by default. They cannot be sliced.
    input_kshape : sequence of dimensions, optional
        Dimensions of the oversampled grid inside; Kx, Ky, Kz or the next unused names by default,
        and with ``dims`` but without ``shape`` Grid, Grid1, Grid2.
    batch_shape : sequence of dimensions, optional
        Dimensions before the image (coils, frames). They can be sliced. Any dimensions by default.
    oversamp, width : float, optional
        Instead of ``tol``: the size of the grid inside, relative to that of the image, at least
        1.125, and the width of the Kaiser-Bessel kernel on it, at least 2. They are 1.25 and 4 if
        only the other one is given.
    tol : float, optional
        The largest error of an entry of the matrix, relative to its absolute value; 1e-3 by
        default. Where single precision does not keep it, the transform is in double precision
        inside. ``repr`` has the largest error of an entry.
    method : {"auto", "table", "interpolate", "finufft"}
        All keep ``tol``. "table" keeps the interpolation weights, ceil(width) ** D for each
        location, and raises an error if they exceed ``table_budget`` or if locations require
        gradients. "interpolate" computes the weights in each call. "finufft" uses that library on
        a CPU and cufinufft on a CUDA device (the extra ``cufinufft``), and takes neither
        ``oversamp`` nor ``width``. "auto" takes what is fastest in many calls: on a CPU a table for
        coils in one or two dimensions, if ``tol`` is at least 1e-5, ``batch_shape`` names a
        dimension beside frames, and ``toeplitz`` is False; otherwise finufft. ``A.method`` and
        ``repr`` say which it is.
    toeplitz : bool
        If True, the normal operator ``A.N``, and ``A.normal(D)`` for density weights D, is a
        convolution: two Fourier transforms of twice the size, for any number of locations. Its
        kernel has an error below 2e-5 (single precision) or 1e-11 (double precision). If locations
        or weights require gradients, A and A.H are applied instead. With a Dense that makes frames
        of few coefficients, ``(A @ Dense(basis, ...)).N`` convolves coefficients; that Dense must
        be next to the NUFFT: ``A @ basis @ maps``, not ``A @ maps @ basis``.
    table_budget : int, optional
        Largest size of the table, in bytes; 2**28 by default.
    dims : sequence of dimensions, optional
        Dimensions of the image, at any place; instead of ``output_shape``, ``input_shape`` and
        ``batch_shape``. A stack of stars is ``FFT(dims=("Nz",)) @ NUFFT(locs, sizes, dims=("Nx",
        "Ny"), to=("Spoke", "Readout"))``. In this order the normal operator needs no FFT along z.
    shape : sequence of dimensions, optional
        With ``dims``: all dimensions of the input, in order. By default ``("...", *dims)``; in a
        composition, the dimensions that the neighbouring operator returns. Frames must be in it.
    to : sequence of dimensions
        With ``dims``: frames, then points, as ``output_shape``. If there are as many points as
        ``dims``, each takes the place of one; else all are at the place of the first of them in
        ``shape``.

    Raises
    ------
    TypeError
        If the locations are not real numbers of single or double precision.
    ValueError
        If locations are not finite or out of range, a number is out of range, there is a wrong
        number of dimensions, or ``tol`` is smaller than double precision allows.

    Notes
    -----
    The result has the precision of the input, at least single precision, for locations of any
    dtype; gradients to the locations have their dtype. With "finufft" they are those of the exact
    sum. If you change the locations in place later, they are not checked again. Outside of the
    range the result follows the same formula. It is NaN for a location that is NaN.

    Names and scale are those of torch-named-linops. A program of ``torch.export`` with "finufft"
    needs ``import linops_imaging`` where it is loaded.

    References
    ----------
    J. A. Fessler and B. P. Sutton, "Nonuniform fast Fourier transforms using min-max
    interpolation", IEEE Transactions on Signal Processing 51 (2003).

    P. J. Beatty, D. G. Nishimura and J. M. Pauly, "Rapid gridding reconstruction with a minimal
    oversampling ratio", IEEE Transactions on Medical Imaging 24 (2005).

    Examples
    --------
    >>> locs = torch.tensor([[0.0, 0.0], [0.5, -1.0], [2.0, 1.25]])
    >>> A = NUFFT(locs, (4, 4), ("K",), tol=1e-3)
    >>> impulse = torch.zeros(4, 4)
    >>> impulse[3, 2] = 4.0  # one to the right of the middle, (2, 2)
    >>> torch.view_as_real(A(impulse)).round(decimals=2).abs()
    tensor([[1.0000, 0.0000],
            [0.7100, 0.7100],
            [1.0000, 0.0000]])
    """

    def __init__(
        self,
        locs: Tensor,
        grid_size: Sequence[int],
        output_shape: Sequence[NamedDimension | str] | None = None,
        input_shape: Sequence[NamedDimension | str] | None = None,
        input_kshape: Sequence[NamedDimension | str] | None = None,
        batch_shape: Sequence[NamedDimension | str] | None = None,
        oversamp: float | None = None,
        width: float | None = None,
        *,
        tol: float | None = None,
        method: str = "auto",
        toeplitz: bool = False,
        table_budget: int | None = None,
        dims: Sequence[NamedDimension | str] | None = None,
        shape: Sequence[NamedDimension | str] | None = None,
        to: Sequence[NamedDimension | str] | None = None,
    ) -> None:
        check_flags("NUFFT", toeplitz=toeplitz)
        sizes = sizes_of_grid("NUFFT", grid_size, 1, 2, 3)
        check_locations("NUFFT", locs, sizes)
        if method not in ("auto", *METHODS):
            allowed = "auto", *METHODS
            raise ValueError(f"NUFFT: method must be one of {allowed}, got {method!r}")
        gridding = None
        if (oversamp, width) != (None, None):
            if tol is not None:
                raise ValueError(
                    "NUFFT: tol must be given without oversamp and width, which it chooses, got "
                    f"{tol=}, {oversamp=}, {width=}"
                )
            if method != "auto" and METHODS[method].chooses_grid:
                raise ValueError(
                    f'NUFFT: method="{method}" must be given without oversamp and width, which it '
                    f"chooses by tol, got {oversamp=}, {width=}"
                )
            oversamp = 1.25 if oversamp is None else oversamp
            width = 4.0 if width is None else width
            check_real("NUFFT", "oversamp", oversamp, LEAST_OVERSAMPLING)
            check_real("NUFFT", "width", width, 2)
            gridding = Gridding.given(sizes, oversamp, width)
            tol = gridding.error(sizes, torch.float64)
        last, placed = (output_shape, input_shape, batch_shape), (dims, shape, to)
        points, names = names_of_transform(locs.shape, last, placed, input_kshape)
        is_for_coils = not toeplitz and not {*names.batch} <= {ELLIPSES, *points}
        tol = _TOL if tol is None else check_real("NUFFT", "tol", tol, above=0)
        request = NufftRequest(
            locs, sizes, tol, gridding, points, names, table_budget, is_for_coils
        )
        way, operand = made(method, request)
        super().__init__(operand, NamedShape(operand.ishape, operand.oshape))
        self.grid_size, self.toeplitz, self._error = sizes, toeplitz, tol
        self._method, self._needs_double = way.name, way.needs_double(request)

    @staticmethod
    def fn(linop: NUFFT, x: Tensor, /) -> Tensor:
        """Return the values at the locations; for the adjoint, the image."""
        locs = linop.locs
        check_device(linop.name, x, locs)
        dtype = torch.promote_types(x.dtype, torch.complex64)  # half precision has no transforms
        if METHODS[linop._method].cuts_batches:
            return linop.linop(x.to(dtype))
        x = x.to(torch.complex128 if linop._needs_double else dtype)
        if not writing_is_safe() or is_recorded(locs):
            return linop.linop(x).to(dtype)
        forth, back = (partial(linop._in_pieces, is_back) for is_back in (False, True))
        return linear_function(forth, back, x, locs).to(dtype)

    conj, own_normal = NamedLinop.conj, NamedLinop.own_normal
    _check_vector = NamedLinop._check_vector  # the parts would name themselves

    def normal(self, inner: NamedLinop | None = None) -> NamedLinop:
        """Return A^H A, or A^H inner A, as a convolution if ``toeplitz`` is set.

        For a convolution, ``inner`` must be a :class:`linops_core.Diagonal` of real weights of
        points and frames, or the normal of a Diagonal, as in ``(W @ A).N``. With any other
        ``inner`` the three operators are applied one after the other.
        """
        chain = super().normal(inner)
        return ToeplitzNormal.of(chain) if self.toeplitz and not self.is_adjoint else chain

    def extra_repr(self) -> str:
        """Return the text of ``repr``: the method, and the largest error of an entry if known."""
        notes = [f"error of entries up to {self._error:.1e}"] if self._error < 1 else []
        return ", ".join([self.method, *notes])

    @property
    def method(self) -> str:
        """How it is computed: "table", "interpolate" or "finufft"; see ``method`` above."""
        return METHODS[self._method].note(self.interpolate)

    @property
    def is_adjoint(self) -> bool:
        """Whether this is the adjoint: from the locations to an image."""
        return self.interpolate.is_adjoint

    @property
    def locs(self) -> Tensor:
        """The current locations; a tile has its own."""
        return self.interpolate.weight_part("locs")

    @property
    def interpolate(self) -> Interpolate:
        """The interpolation, or its adjoint; it holds the locations."""
        return interpolate_of(self.linop)

    def _in_pieces(self, is_back: bool, x: Tensor) -> Tensor:
        """Return A x for the operand A or its adjoint, some slices of the batch at a time."""
        linop, interpolate = self.linop.H if is_back else self.linop, self.interpolate
        frames = interpolate.shape.other_shapes["frames"]
        is_image = is_back == self.is_adjoint
        old, new = self.grid_axes if is_image else self.grid_axes[::-1]
        ins, outs = others_of(x.ndim, old), others_of(x.ndim - len(old) + len(new), new)
        frame_axes, _ = interpolate.frame_axes(len(ins))
        of_frame = math.prod(interpolate.grid_size) * x.element_size()
        of_coil = of_frame * math.prod([x.shape[ins[number]] for number in frame_axes])
        for dim, number in zip(frames, frame_axes, strict=True):
            n = x.shape[ins[number]]
            step = max(1, n * (_FRAMES if x.is_cpu else _FRAMES_ON_GPU) // max(1, of_coil))
            if step < n and (tiles := self._frames(dim, n, step)):
                pieces = zip(tiles, x.split(step, ins[number]), strict=True)
                parts = (
                    tile._in_pieces(is_back, piece)
                    for tile, piece in steps_that_differ(x, pieces, itemgetter(1))
                )
                return concatenate(parts, outs[number], n)
        axes = [
            (at, to)
            for number, (at, to) in enumerate(zip(ins, outs, strict=True))
            if x.shape[at] > 1 and number not in frame_axes
        ]
        nbytes = of_frame * math.prod([x.shape[at] for at in ins])
        return applied_in_pieces(linop, x, axes, nbytes, _STEP)

    @property
    def grid_axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Axes of the image on its side, and axes of the points on theirs."""
        parts = self.linop.flatten()[:: -1 if self.is_adjoint else 1]
        return cast(Interpolate, parts[0]).grid_axes[0], cast(Interpolate, parts[-1]).grid_axes[1]

    def _frames(self, dim: NamedDimension, n: int, step: int) -> Sequence[NUFFT]:
        """Return tiles of some frames, or none if they would have no table, unlike the whole."""
        how, interpolate = (dim, n, step, self.locs.shape), self.interpolate
        key, tiles = FRAMES.get(self) or (None, ())
        if key != how:
            pieces = [slice(start, min(start + step, n)) for start in range(0, n, step)]
            tiles = cast(Sequence[NUFFT], self.tiles_along(dim, pieces))
            if interpolate.table_nbytes and not all(t.interpolate.table_nbytes for t in tiles):
                tiles = ()
            FRAMES.keep(self, (how, tiles))
        return tiles


FRAMES = Memo[tuple[object, Sequence[NUFFT]]]()
"""For a dimension, its length, a step and a shape of locations: the tiles of some frames."""


@finds_grid_by_name.register(NUFFT)
def _as_its_interpolation(linop: NUFFT) -> bool | None:
    return finds_grid_by_name(linop.interpolate)


method_of.register(NUFFT)(attrgetter("method"))


def others_of(ndim: int, axes: Sequence[int]) -> list[int]:
    """Return the axes among ``ndim`` that are not in ``axes``."""
    return sorted({*range(ndim)} - {axis % ndim for axis in axes})
