"""An MRI scan as an operator and its samples.

Shapes: C coils; B slices, frames and others; K samples; N pixels. Inside, axes are in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from linops_core import FFT, Dense, Diagonal, NamedLinop
from linops_imaging import NUFFT, density_compensation
from linops_multigpu import batched
from linops_split import plan_batches
from nameddim import K2N, as_dims, get_nd_shape, is_wildcard

from ._arrays import AnyArray, Array, Dims, Name, in_order, is_all_finite, tensor_of
from ._maps import maps_of


@dataclass(frozen=True)
class Scan:
    """The operator A from images (B, N) to samples (C, B, K), and the samples y."""

    A: NamedLinop
    y: Tensor
    grid: Dims
    grid_size: tuple[int, ...]
    image: Dims
    """The axes of an image that the user gets."""

    def weight(self, relative: float) -> float:
        """Return a weight times the largest pixel of A^H y."""
        return relative * largest(self.A.H(self.y.detach()))

    def given_back(self, x: Tensor, kspace: AnyArray) -> AnyArray:
        """Return an image (B, N) with the axes that the user gets, as an array like k-space."""
        x = x.permute([self.A.ishape.index(dim) for dim in self.image])
        return x if isinstance(kspace, Tensor) else x.numpy(force=True)


def largest(x: Tensor) -> float:
    """Return the largest magnitude; 0 of nothing, such as no slices."""
    return float(x.abs().max()) if x.numel() else 0.0


def norm(x: Tensor) -> float:
    """Return the norm, in double precision: squares of large or small numbers leave the range."""
    return float(torch.linalg.vector_norm(x, dtype=torch.complex128))


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
    y, names, (coil,) = tensor_of(owner, "kspace", kspace), as_dims(dims), as_dims((coil_dim,))
    if y.dtype not in (torch.complex64, torch.complex128):
        raise TypeError(f"{owner}: kspace must be of complex64 or complex128, got {y.dtype}")
    points = tuple([dim for dim in names if dim.name.startswith("K") and dim != coil])
    batch = tuple([dim for dim in names if dim not in (coil, *points)])
    is_named = len({*names}) == len(names) == y.ndim and not any(map(is_wildcard, names))
    if not is_named or coil not in names or not points:
        raise ValueError(
            f"{owner}: dims must name the {y.ndim} axes of kspace, each once: the coils {coil}, or "
            "the name in coil_dim, k-space by names that begin with K, and others such as slices; "
            f"got ({', '.join(map(str, names))}) for the shape {tuple(y.shape)}"
        )
    if not {*frames} <= {*batch}:
        raise ValueError(f"{owner}: time_dim must be in dims {names}, got {frames[0]}")
    if locs is None:
        size, grid = [y.shape[names.index(dim)] for dim in points], K2N(points)
        pixels = dict(zip(points, grid, strict=True))
        full = tuple([pixels.get(dim, dim) for dim in names])
        if grid_size is not None or len(size) not in (2, 3):
            raise ValueError(
                f"{owner}: k-space on a grid must have two or three axes with names that begin "
                f"with K, and no grid_size, got {points} and grid_size={grid_size}; give locs for "
                "a trajectory"
            )
    elif grid_size is None:
        raise ValueError(f"{owner}: grid_size must be given with locs, got None")
    else:
        if not isinstance(grid_size, Sequence):
            raise TypeError(f"{owner}: grid_size must be a sequence of ints, got {grid_size!r}")
        size, grid = [*grid_size], get_nd_shape(len(grid_size))
        at = names.index(points[0])
        full = tuple([dim for dim in (*names[:at], *grid, *names[at:]) if dim not in points])
    if taken := [dim for dim in names if dim in grid]:
        raise ValueError(
            f"{owner}: dims must not have the names of the pixels {grid}, got {taken[0]} in "
            f"{names}; give this axis another name, such as B"
        )
    image = (*batch, *grid)
    sizes = dict(zip((*names, *grid), (*y.shape, *size), strict=True))
    order = partial(in_order, owner, order=(coil, *image, *points), sizes=sizes)
    without_coils = [dim for dim in names if dim != coil]
    y, _ = order("kspace", y, names)

    # From coil images to samples.
    if locs is None:
        F: NamedLinop = FFT(len(grid), (coil, *batch), (grid, points), centered=True)
    else:
        where = tensor_of(owner, "locs", locs, y.device)
        where, encoding = order(
            "locs", where, points if where.ndim - 1 == len(points) else without_coils
        )
        F = NUFFT(where, size, encoding, grid, batch_shape=(coil, *batch), toeplitz=True)

    # The weights of squared errors.
    if weights is not None:
        w = tensor_of(owner, "weights", weights, y.device)
        if w.is_complex():
            raise TypeError(f"{owner}: weights must be bool or real, got {w.dtype}")
        w = w.to(y.real.dtype)
        w, of_w = order("weights", w, points if w.ndim == len(points) else without_coils)
        if not ((w >= 0) & w.isfinite()).all():
            raise ValueError(
                f"{owner}: weights must be finite and not negative, got values from "
                f"{float(w.min())} to {float(w.max())}"
            )
        y = torch.where(w > 0, y, 0)
    elif locs is None:
        w, of_w = (y != 0).any(0).to(y.real.dtype), (*batch, *points)
    else:
        density = density_compensation(where, size, n_frame_axes=len(encoding) - len(points))
        w, of_w = density.to(y.real.dtype), encoding
    if not is_all_finite(y):
        raise ArithmeticError(f"{owner}: kspace must be finite, got NaN or infinity")
    W = Diagonal.from_weight(w.sqrt(), of_w, (coil, *batch, *points))

    # From the image to coil images.
    if maps is None:
        on_grid = y if locs is None else FFT(len(size), centered=True)(F.H(w * y))
        s, of_s = maps_of(owner, on_grid, coil, batch, grid, frames)
    else:
        s = tensor_of(owner, "maps", maps, y.device).to(y.dtype)
        if not is_all_finite(s):
            raise ValueError(f"{owner}: maps must be finite, got values that are not")
        of_s = full if s.ndim == len(full) else tuple([dim for dim in full if dim not in batch])
        s, of_s = order("maps", s, of_s)
    S = Dense(s, of_s, image, (coil, *image))

    A = W @ F @ S
    if memory is not None:
        lengths = {dim: sizes[dim] for dim in image}
        plan = plan_batches(A, memory, work="normal", sizes=lengths, dtype=y.dtype)
        A = batched(A, plan, sizes=lengths)
    y = W(y)
    of_image = tuple([dim for dim in full if dim != coil])
    return Scan(A, y, grid, tuple(size), of_image)
