"""Coil maps from the centre of k-space of a scan.

Shapes: C coils; B slices, frames and others; K samples; N pixels.
"""

from __future__ import annotations

import warnings
from itertools import product

import torch
from torch import Tensor

from linops_imaging import espirit
from nameddim import NamedDimension

from ._arrays import Dims

_MOST, _LEAST = 24, 6  # points of a calibration region along each axis
_KERNEL = 6  # as in espirit


def maps_of(
    owner: str, kspace: Tensor, coil: NamedDimension, batch: Dims, grid: Dims, shared: Dims
) -> tuple[Tensor, Dims]:
    """Return maps by ESPIRiT and their axes, from k-space (C, B, N) with zeros.

    Those of the ``shared`` axes of B are made from the mean of what was measured.
    """
    axes = [1 + batch.index(dim) for dim in shared]
    if axes:
        count = (kspace != 0).any(0, keepdim=True).sum(axes)
        kspace = kspace.sum(axes) / count.clamp(min=1)
    rest = tuple([dim for dim in batch if dim not in shared])
    maps = torch.zeros_like(kspace)
    of_slices, maps_of_slices = (x.movedim(0, len(rest)) for x in (kspace, maps))
    size = kspace.shape[-len(grid) :]
    slices = [*product(*map(range, kspace.shape[1 : 1 + len(rest)]))]
    measured = {number: (of_slices[number] != 0).any(0) for number in slices}
    # An empty slice has no maps, and its image is zero.
    regions = {number: _region(one) for number, one in measured.items() if one.any()}
    if slices and not all(regions.values() or [0]):
        raise ValueError(
            f"{owner}: to make coil maps, the centre of k-space must be measured at {_LEAST} "
            "points along each axis or more; give maps"
        )
    refused = dict[tuple[int, ...], ValueError]()
    for number, n in regions.items():
        # Patches of more than half of the region are too few to span their space: maps become zero.
        kernel = [min(_KERNEL, min(n, length) // 2) for length in size]
        one = of_slices[number]
        try:
            maps_of_slices[number] = espirit(
                *(one, coil, grid, (coil, *grid)), n_calibration=n, kernel_size=kernel
            )
        except ValueError as error:
            refused[number] = error
    if refused:
        first, reason = next(iter(refused.items()))
        if len(refused) == len(regions):
            raise ValueError(f"{owner}: coil maps cannot be made; give maps: {reason}") from reason
        warnings.warn(
            f"{owner}: {len(refused)} of {len(slices)} slices have no coil maps, and their images "
            f"are zero, such as {first}; give maps: {reason}",
            stacklevel=5,  # past `_sensitivities`, `scan_operator` and the function of the user
        )
    return maps, (coil, *rest, *grid)


def _region(measured: Tensor) -> int:
    """Return the size of the region around the centre in which all is measured; 0 if too small."""

    def is_complete(n: int) -> bool:
        starts = [max(0, length // 2 - n // 2) for length in measured.shape]
        return bool(measured[tuple([slice(start, start + n) for start in starts])].all())

    sizes = range(_MOST if min(measured.shape) >= _LEAST else 0, _LEAST - 1, -1)
    return next((n for n in sizes if is_complete(n)), 0)
