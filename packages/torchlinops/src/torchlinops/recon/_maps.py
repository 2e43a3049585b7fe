"""Coil maps from the centre of k-space of a scan.

Shapes: C coils; B slices, frames and others; K samples; N pixels.
"""

from __future__ import annotations

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
    size = kspace.shape[-len(grid) :]
    measured = (kspace != 0).any(0).reshape(-1, *size)
    measured = measured[measured.flatten(1).any(1)]  # an empty slice has no maps

    def is_complete(n: int) -> bool:
        starts = [max(0, length // 2 - n // 2) for length in size]
        return bool(measured[:, *(slice(start, start + n) for start in starts)].all())

    regions = range(_MOST if len(measured) and min(size) >= _LEAST else 0, _LEAST - 1, -1)
    n = next((n for n in regions if is_complete(n)), 0)
    if not n:
        raise ValueError(
            f"{owner}: to make coil maps, the centre of k-space must be measured at {_LEAST} "
            "points along each axis or more; give maps"
        )
    rest = tuple([dim for dim in batch if dim not in shared])
    dims = (coil, *rest, *grid)
    # Patches of more than half of the region are too few to span their space: maps become zero.
    kernel = [min(_KERNEL, min(n, length) // 2) for length in size]
    return espirit(kspace, coil, grid, dims, n_calibration=n, kernel_size=kernel), dims
