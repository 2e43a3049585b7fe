"""An MRI scan as an operator and its samples.

Shapes: C coils; B slices, frames and others; K samples; N pixels. Inside, axes are in this order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from linops_core import FFT, Dense, Diagonal, NamedLinop, SplitError
from linops_imaging import NUFFT, density_compensation
from linops_multigpu import batched
from linops_split import plan_batches

from ._arrays import AnyArray, Array, Dims, Name, is_all_finite, tensor_of
from ._axes import ScanAxes, axes_of
from ._maps import maps_of
from ._messages import in_name_of


@dataclass(frozen=True)
class Scan:
    """The operator A from images (B, N) to samples (C, B, K), and the samples y."""

    A: NamedLinop
    y: Tensor
    grid: Dims
    grid_size: tuple[int, ...]
    image: Dims
    """The axes of an image that the user gets."""
    unit: Tensor | None = None
    """The unit of each image; None if there is none."""

    @property
    def pixels(self) -> tuple[int, ...]:
        """The axes of the grid in an image."""
        return tuple(range(-len(self.grid), 0))

    def batch_dims(self, x: Tensor) -> int:
        """Return how many first axes number images; 0 of one image, whose steps are then faster."""
        images = x.shape[: -len(self.grid)]
        return len(images) if images.numel() > 1 else 0

    def balanced(
        self, axes: tuple[int, ...], size: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Scan, float]:
        """Return the scan in units in which all images are alike, and their size.

        Each image has these ``axes``, the others number images. ``size`` returns the sizes of A^H y
        that shall be equal, with axes of size 1; by default its largest pixels. With them, a
        penalty has one weight, and no image is finished before the others because it is dark.
        """
        A, y, n_grid = self.A, self.y, len(self.grid)
        with torch.no_grad():
            seen = A.H(y)
            if not seen.numel():
                return self, 0.0
            sizes = (size or largest(*axes))(seen)
            if sizes.numel() == 1:
                return self, float(sizes)
            unit = _equal_gains(A, seen, axes)
            if unit is not None:
                A = A @ Diagonal(unit, A.ishape, [A.ishape[axis] for axis in axes])
                sizes = sizes * unit
            # The smallest normal number, because a quotient of zero would be no unit.
            bright = (sizes / sizes.max()).clamp(min=torch.finfo(sizes.dtype).tiny)
            bright = torch.where(sizes > 0, bright, 1)
        of_samples = (1,) * (y.ndim - 1 - (bright.ndim - n_grid))
        y = y / bright.flatten(-n_grid).unflatten(-1, of_samples)
        unit = bright if unit is None else unit * bright
        return replace(self, A=A, y=y, unit=unit), float(sizes.max())

    def given_back(self, x: Tensor, kspace: AnyArray) -> AnyArray:
        """Return an image (B, N) with the axes that the user gets, as an array like k-space."""
        x = x if self.unit is None else x * self.unit
        x = x.permute([self.A.ishape.index(dim) for dim in self.image])
        return x if isinstance(kspace, Tensor) else x.numpy(force=True)


def _equal_gains(A: NamedLinop, seen: Tensor, axes: tuple[int, ...]) -> Tensor | None:
    """Return factors of images with which A^H A has about the same norm for each of them.

    A step size fits all images only then. None if the norms are about the same without factors.
    """
    norms = partial(torch.linalg.vector_norm, dim=axes, keepdim=True, dtype=torch.complex128)
    gains = norms(A.N(seen)) / norms(seen)
    most = gains.nan_to_num(0).max()
    gains = torch.where(gains > 0, gains, most)  # of images without a signal
    return None if most <= 2 * gains.min() else (most / gains).sqrt().to(seen.real.dtype)


def largest(*axes: int) -> Callable[[Tensor], Tensor]:
    """Return the function of the largest magnitude along these axes, which stay with size 1."""
    return lambda x: torch.linalg.vector_norm(x, math.inf, axes, keepdim=True)


def norm(x: Tensor) -> float:
    """Return the norm, in double precision: squares of large or small numbers leave the range."""
    return float(torch.linalg.vector_norm(x.detach(), dtype=torch.complex128))


def scan_operator(
    owner: str,
    kspace: Array,
    dims: Sequence[Name],
    maps: Array | None,
    coil_dim: Name,
    weights: Array | None,
    locs: Array | None,
    grid_size: Sequence[int] | None,
    memory: float | str | None,
    frames: Dims = (),
) -> Scan:
    """Return the operator W F S of a scan and its samples; see :mod:`torchlinops.recon`."""
    with in_name_of(owner):
        y = tensor_of(owner, "kspace", kspace)
        if y.dtype not in (torch.complex64, torch.complex128):
            raise TypeError(f"{owner}: kspace must be of complex64 or complex128, got {y.dtype}")
        axes = axes_of(owner, y.shape, dims, coil_dim, grid_size, has_locs=locs is not None)
        if not {*frames} <= {*axes.batch}:
            raise ValueError(f"{owner}: time_dim must be in dims {axes.given}, got {frames[0]}")
        y, _ = axes.in_order("kspace", y, axes.given)
        where = None if locs is None else _locations(axes, locs, y.device)
        F = _transform(axes, where)
        y, W = _weighting(axes, y, weights, where)
        S = _sensitivities(axes, y, maps, W, F, frames)
        A = W @ F @ S
        if memory is not None:
            A = _in_tiles(axes, A, memory, y.dtype)
    image = tuple([dim for dim in axes.of_maps if dim != axes.coil])
    return Scan(A, W(y), axes.grid, axes.grid_size, image)


Located = tuple[Tensor, Dims]
"""Locations along a trajectory and their axes."""


def _locations(axes: ScanAxes, locs: Array, device: torch.device) -> Located:
    """Return the locations of all slices and frames, or of each."""
    where = tensor_of(axes.owner, "locs", locs, device)
    is_shared = where.ndim - 1 == len(axes.points)
    return axes.in_order("locs", where, axes.points if is_shared else axes.of_samples)


def _transform(axes: ScanAxes, where: Located | None) -> NamedLinop:
    """Return the transform F from coil images to samples."""
    others = (axes.coil, *axes.batch)
    if where is None:
        return FFT(len(axes.grid), others, (axes.grid, axes.points), centered=True)
    locs, of_locs = where
    return NUFFT(locs, axes.grid_size, of_locs, axes.grid, batch_shape=others, toeplitz=True)


def _weighting(
    axes: ScanAxes, y: Tensor, weights: Array | None, where: Located | None
) -> tuple[Tensor, Diagonal]:
    """Return the samples that count, and the roots W of the weights of their squared errors."""
    owner, real = axes.owner, y.dtype.to_real()
    if weights is not None:
        w = tensor_of(owner, "weights", weights, y.device)
        if w.is_complex():
            raise TypeError(f"{owner}: weights must be bool or real, got {w.dtype}")
        is_shared = w.ndim == len(axes.points)
        of_w = axes.points if is_shared else axes.of_samples
        w, of_w = axes.in_order("weights", w.to(real), of_w)
        if not ((w >= 0) & w.isfinite()).all():
            raise ValueError(
                f"{owner}: weights must be finite and not negative, got values from "
                f"{float(w.min())} to {float(w.max())}"
            )
        y = torch.where(w > 0, y, 0)
    elif where is None:
        w, of_w = (y != 0).any(0).to(real), (*axes.batch, *axes.points)
    else:
        locs, of_w = where
        n_frame_axes = len(of_w) - len(axes.points)
        w = density_compensation(locs, axes.grid_size, n_frame_axes=n_frame_axes).to(real)
    if not is_all_finite(y):
        raise ArithmeticError(f"{owner}: kspace must be finite, got NaN or infinity")
    return y, Diagonal.from_weight(w.sqrt(), of_w, (axes.coil, *axes.batch, *axes.points))


def _sensitivities(
    axes: ScanAxes, y: Tensor, maps: Array | None, W: Diagonal, F: NamedLinop, frames: Dims
) -> Dense:
    """Return the operator S from the image to coil images."""
    coil, batch, grid = axes.coil, axes.batch, axes.grid
    if maps is None:
        is_on_grid = isinstance(F, FFT)
        on_grid = y if is_on_grid else FFT(len(grid), centered=True)((W @ F).H(W(y)))
        s, of_s = maps_of(axes.owner, on_grid, coil, batch, grid, frames)
    else:
        s = tensor_of(axes.owner, "maps", maps, y.device).to(y.dtype)
        if not is_all_finite(s):
            raise ValueError(f"{axes.owner}: maps must be finite, got values that are not")
        is_own = s.ndim == len(axes.of_maps)
        of_s = tuple([dim for dim in axes.of_maps if is_own or dim not in batch])
        s, of_s = axes.in_order("maps", s, of_s)
    return Dense(s, of_s, (*batch, *grid), (coil, *batch, *grid))


def _in_tiles(axes: ScanAxes, A: NamedLinop, memory: float | str, dtype: torch.dtype) -> NamedLinop:
    """Return A in tiles of coils and slices that stay within a budget."""
    sizes = {dim: axes.sizes[dim] for dim in A.ishape}
    try:
        plan = plan_batches(A, memory, work="normal", sizes=sizes, dtype=dtype)
    except SplitError as error:
        needs = str(error).partition(": the ")[2].replace(" for normal", "")
        raise SplitError(
            f"{axes.owner}: {needs}; give more memory, or fewer slices or frames at once"
        ) from error
    return batched(A, plan, sizes=sizes)
