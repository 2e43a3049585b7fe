"""Warnings of numbers that are clearly in other units."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from torch import Tensor

from linops_core.siblings import can_read_values

# Golden angles of half a circle and of a circle, and tiny ones, in degrees; see `golden_angles`.
_GOLDEN = (180 * (3 - math.sqrt(5)), *(180 / ((math.sqrt(5) - 1) / 2 + i) for i in range(1, 11)))


def warn_of_locations(owner: str, largest: Sequence[float], n: int, sizes: Sequence[int]) -> None:
    """Warn of ``n`` locations that are in radians or cycles per pixel.

    These fill a square of half width pi or 1/2 at the centre of k-space, whatever the size of the
    image, and far more densely than an image needs. A calibration region ends elsewhere.
    """
    for half, unit, remedy in ((math.pi, "radians", "N / (2 pi)"), (0.5, "cycles", "N")):
        n_cells = (2 * half + 1) ** len(sizes)
        fills = 0.96 * half <= max(largest) <= half * (1 + 1e-4) and min(largest) > 0.8 * half
        if fills and n > 4 * n_cells and min(sizes) > 4 * half + 4:
            warnings.warn(
                f"{owner}: the locations must be in cycles per field of view, from -N / 2 to N / 2 "
                f"for N of {tuple(sizes)}, got {n} locations up to {max(largest):.4g}, as if they "
                f"were in {unit} per pixel; multiply those by {remedy}",
                stacklevel=4,  # past the check and `owner`
            )


def warn_of_degrees(owner: str, angles: Tensor, *, stacklevel: int) -> None:
    """Warn of angles that are in degrees.

    Steps are equal and of golden angles, or divide 180 or 360; or all are whole numbers, some far
    beyond a circle in radians. Golden angles in radians may be as large.
    """
    if not angles.numel() or not can_read_values(angles) or not angles.isfinite().all():
        return
    at = angles.detach().double()
    is_whole = bool((at == at.round()).all()) and float(at.abs().max()) > 4 * math.pi
    steps = at.diff()
    step = _only_one(steps.abs())
    circles = [step * n for n in (len(at), len(at) - 1)]
    # Exact, because 150 steps of a golden angle in radians are 179.997.
    is_circle = any(math.isclose(c, turn, rel_tol=1e-6) for c in circles for turn in (180, 360))
    step = _only_one(steps.remainder(180))
    is_golden = any(math.isclose(step, golden, rel_tol=1e-4) for golden in _GOLDEN)
    if is_whole or is_circle or is_golden:
        warnings.warn(
            f"{owner}: angles must be in radians, got angles from {float(at.min()):.6g} to "
            f"{float(at.max()):.6g}, as if they were in degrees; convert those by torch.deg2rad",
            stacklevel=stacklevel,
        )


def _only_one(steps: Tensor) -> float:
    """Return the mean of two or more steps that are equal but for rounding, otherwise 0."""
    mean = float(steps.mean()) if len(steps) > 1 else 0.0
    return mean if mean and float((steps - mean).abs().max()) < 1e-3 * mean else 0.0
