"""Which method of a NUFFT is the fastest: a kept table of weights, or plans of finufft."""

from __future__ import annotations

import math

import torch

from linops_core import Interpolate
from nameddim import ELLIPSES

from ._finufft_plan import is_installed, way_for
from ._kaiser_bessel import padded_size

# Images that are assumed in a call if the batch has dimensions of its own, such as coils.
_IMAGES = 8

# Nanoseconds of one thread for an image and back in single precision, measured by
# `benchmarks/bench_nufft.py`: for each point of the finer grid and each weight. A table is read
# once for all images of a call.
_TABLE_NODE, _TABLE_WEIGHT, _TABLE_READ = 20.0, 0.6, 3.2
_PLAN_NODE, _PLAN_WEIGHT = 15.0, 2.2


def fastest_method(
    sizes: tuple[int, ...], tol: float, interpolate: Interpolate, device_type: str
) -> str:
    """Return the method that takes the least time in many calls, "finufft" or another one.

    Parameters
    ----------
    sizes : tuple of int
        Sizes of the image.
    tol : float
        The error that all methods keep.
    interpolate : Interpolate
        The interpolation of the finer grid that keeps it without finufft.
    device_type : str
        On a GPU, of which few measurements are known, a table is taken if there is one.
    """
    has_table, shapes = interpolate.table_nbytes > 0, interpolate.shape.other_shapes
    gridding = "table" if has_table else "interpolate"
    if not is_installed(device_type) or (has_table and device_type != "cpu"):
        return gridding
    way = way_for(tol, sizes, torch.complex64)
    if len(sizes) == 3 or not has_table or way.dtype != torch.complex64:
        return "finufft"  # data that need a small tol are in double precision
    frames = shapes["frames"]
    has_coils = {*shapes["batch_shape"]} - {ELLIPSES, *frames}
    n_points = interpolate.locs.shape[len(frames) : -1].numel()
    nodes = math.prod([padded_size(size, way.upsampling) for size in sizes])
    of_plans = _PLAN_NODE * nodes + _PLAN_WEIGHT * n_points * way.width ** len(sizes)
    of_weight = _TABLE_WEIGHT + _TABLE_READ / (_IMAGES if has_coils else 1)
    n_weights = n_points * math.ceil(interpolate.width) ** len(sizes)
    of_table = _TABLE_NODE * math.prod(interpolate.grid_size) + of_weight * n_weights
    return "finufft" if of_plans < of_table else gridding
