"""The axes of a scan by their meaning: coils, k-space, pixels, and others such as slices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from linops_core.siblings import check_integer
from nameddim import K2N, NamedDimension, as_dims, get_nd_shape, is_wildcard

from ._arrays import Dims, Name


@dataclass(frozen=True)
class ScanAxes:
    """The names of all axes. Inside, they are in this order: coils, batch, grid or points."""

    owner: str
    given: Dims
    """The axes of k-space in the order of the user."""
    coil: NamedDimension
    batch: Dims
    """Slices, frames and others."""
    points: Dims
    """Of k-space."""
    grid: Dims
    """Pixels."""
    of_maps: Dims
    """The axes of the image and the coils in the order of the user."""
    sizes: Mapping[NamedDimension, int]

    @property
    def grid_size(self) -> tuple[int, ...]:
        """The size of an image."""
        return tuple([self.sizes[dim] for dim in self.grid])

    @property
    def of_samples(self) -> Dims:
        """The axes of samples: those of k-space without the coils, in the order of the user."""
        return tuple([dim for dim in self.given if dim != self.coil])

    def in_order(self, name: str, x: Tensor, axes: Dims) -> tuple[Tensor, Dims]:
        """Return x with its first axes in the order inside, and their names."""
        shape = tuple([self.sizes[dim] for dim in axes])
        if x.shape[: len(axes)] != shape:
            raise ValueError(
                f"{self.owner}: {name} must have the axes ({', '.join(map(str, axes))}) of the "
                f"sizes {shape}, got the shape {tuple(x.shape)}"
            )
        order = (self.coil, *self.batch, *self.grid, *self.points)
        wanted = tuple([dim for dim in order if dim in axes])
        return x.permute(*map(axes.index, wanted), *range(len(axes), x.ndim)), wanted


def axes_of(
    owner: str,
    shape: Sequence[int],
    dims: Sequence[Name],
    coil_dim: Name,
    grid_size: Sequence[int] | None,
    *,
    has_locs: bool,
) -> ScanAxes:
    """Return the axes of k-space of a shape, whose names are ``dims``."""
    names, (coil,) = as_dims(dims), as_dims((coil_dim,))
    points = tuple([dim for dim in names if dim.name.startswith("K") and dim != coil])
    batch = tuple([dim for dim in names if dim not in (coil, *points)])
    is_named = len({*names}) == len(names) == len(shape) and not any(map(is_wildcard, names))
    if not is_named or coil not in names or not points:
        raise ValueError(
            f"{owner}: dims must name the {len(shape)} axes of kspace, each once: the coils "
            f"{coil}, or the name in coil_dim, k-space by names that begin with K, and others such "
            f"as slices; got ({', '.join(map(str, names))}) for the shape {tuple(shape)}"
        )
    sizes = dict(zip(names, shape, strict=True))
    if has_locs:
        pixels = _sizes_of_grid(owner, grid_size)
        grid, at = get_nd_shape(len(pixels)), names.index(points[0])
        full = (*names[:at], *grid, *names[at:])
    else:
        pixels, grid = [sizes[dim] for dim in points], K2N(points)
        if grid_size is not None or len(pixels) not in (2, 3):
            raise ValueError(
                f"{owner}: k-space on a grid must have two or three axes with names that begin "
                f"with K, and no grid_size, got {points} and grid_size={grid_size}; give locs for "
                "a trajectory"
            )
        pixel_of = dict(zip(points, grid, strict=True))
        full = tuple([pixel_of.get(dim, dim) for dim in names])
    if taken := [dim for dim in names if dim in grid]:
        raise ValueError(
            f"{owner}: dims must not have the names of the pixels {grid}, got {taken[0]} in "
            f"{names}; give this axis another name, such as B"
        )
    of_maps = tuple([dim for dim in full if dim not in points])
    sizes |= dict(zip(grid, pixels, strict=True))
    return ScanAxes(owner, names, coil, batch, points, grid, of_maps, sizes)


def _sizes_of_grid(owner: str, grid_size: Sequence[int] | None) -> list[int]:
    if grid_size is None:
        raise ValueError(f"{owner}: grid_size must be given with locs, got None")
    if not isinstance(grid_size, Iterable):
        raise TypeError(f"{owner}: grid_size must be a sequence of ints, got {grid_size!r}")
    sizes = [check_integer(owner, "each number of grid_size", size, 1) for size in grid_size]
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{owner}: grid_size must be one to three numbers, got {grid_size!r}")
    return sizes
