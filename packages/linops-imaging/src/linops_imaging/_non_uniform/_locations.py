"""Checks of locations in k-space."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from linops_core.siblings import writing_is_safe

from .._checks import check_real_tensor
from .._units import warn_of_locations


def check_locations(owner: str, locs: Tensor, sizes: tuple[int, ...]) -> None:
    """Refuse locations that are not in the k-space of images of these sizes."""
    check_real_tensor(owner, "the locations", locs)
    if locs.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"{owner}: the locations must be of torch.float32 or torch.float64, got {locs.dtype}, "
            "which has too few digits; convert them by locs.float()"
        )
    if locs.shape[-1:] != (len(sizes),):
        raise ValueError(
            f"{owner}: the last dimension of the locations must have size {len(sizes)} for images "
            f"of {sizes}, got shape {tuple(locs.shape)}"
        )
    if locs.is_meta or not locs.numel() or not writing_is_safe():
        return  # there are no values to look at
    first, last = locs.detach().flatten(0, -2).aminmax(dim=0)
    largest = torch.maximum(-first, last).tolist()
    if not all(map(math.isfinite, largest)):
        raise ValueError(
            f"{owner}: the locations must be finite, got some that are not; leave these points out"
        )
    # Allow for rounding of N / 2.
    if any(far > size / 2 * (1 + 1e-4) for far, size in zip(largest, sizes, strict=True)):
        raise ValueError(
            f"{owner}: the locations must be in [-N / 2, N / 2] cycles per field of view for N of "
            f"{sizes}, got absolute values up to {largest}; either their unit is another one "
            "(multiply radians per pixel by N / (2 pi), and 1 / m by the field of view in m), or "
            "they are of a larger grid: then give its grid_size, or leave out what is outside"
        )
    warn_of_locations(owner, largest, locs.numel() // len(sizes), sizes)
