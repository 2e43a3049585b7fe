"""Which method of a NUFFT is the fastest: a kept table of weights, or plans of finufft."""

from __future__ import annotations

import math

import torch

from linops_core import Interpolate

from ._finufft_plan import is_installed, way_for
from ._kaiser_bessel import padded_size

# Nanoseconds of one thread for an image of 8 coils and back in single precision, measured by
# `benchmarks/bench_nufft.py`: for each point of the finer grid and each weight.
_TABLE_NODE, _TABLE_WEIGHT = 20.0, 1.0
_PLAN_NODE, _PLAN_WEIGHT = 15.0, 2.2


def plans_are_faster(sizes: tuple[int, ...], device_type: str, *, is_for_coils: bool) -> bool:
    """Return whether plans of finufft take less time than any table, or about as much.

    A table gains time where many calls read it, each for several images (``is_for_coils``).
    """
    is_table_slow = len(sizes) == 3 or not is_for_coils
    return is_table_slow and device_type == "cpu" and is_installed(device_type)


def fastest_method(
    sizes: tuple[int, ...], tol: float, interpolate: Interpolate, device_type: str
) -> str:
    """Return the method that takes the least time in many calls for coils, "finufft" or another.

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
    has_table = interpolate.table_nbytes > 0
    gridding = "table" if has_table else "interpolate"
    if not is_installed(device_type) or (has_table and device_type != "cpu"):
        return gridding
    way = way_for(tol, sizes, torch.complex64)
    if not has_table or way.dtype != torch.complex64:
        return "finufft"  # data that need a small tol are in double precision
    n_frame_axes = len(interpolate.shape.other_shapes["frames"])
    n_points = interpolate.locs.shape[n_frame_axes:-1].numel()
    nodes = math.prod([padded_size(size, way.upsampling) for size in sizes])
    of_plans = _PLAN_NODE * nodes + _PLAN_WEIGHT * n_points * way.width ** len(sizes)
    n_weights = n_points * math.ceil(interpolate.width) ** len(sizes)
    of_table = _TABLE_NODE * math.prod(interpolate.grid_size) + _TABLE_WEIGHT * n_weights
    return "finufft" if of_plans < of_table else gridding
