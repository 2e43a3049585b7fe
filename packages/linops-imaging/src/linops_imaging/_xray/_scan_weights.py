"""Weights of the views of a scan in filtered back projection: each line through the image counts 1.

A angles, D detectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ._beams import FanRays, ParallelRays, radius_of
from ._rays import centred, value_of


def scan_weights(
    beam: ParallelRays | FanRays, sizes: Sequence[int], allow_gaps: bool
) -> tuple[Tensor, int]:
    """Return the weights, (A, D) or (A, 1) in float64, and how many detectors are missing.

    Negative numbers are missing before the first one. A weight is the step of the angle times the
    fraction of a ray in its line, which other views may see as well. The fractions of a short scan
    are those of F. Noo et al. (2002) with a window as wide as the scan, those of detectors that see
    one side of the object are those of G. Wang (2002); see :func:`fbp`.
    """
    angles = beam.angles.double()
    radius = radius_of(sizes, beam.origin)
    if isinstance(beam, FanRays):
        across, needed = beam.fan(), math.asin(radius / beam.source)
    else:
        across = centred(beam.n_detectors, angles) * beam.spacing + beam.offset
        needed = radius
    turned, order = angles.remainder(2 * math.pi).sort()
    gaps = turned.diff(append=turned[:1] + 2 * math.pi).detach()
    is_whole = float(gaps.max()) <= _allowed(2 * math.pi, len(angles))
    fraction = _of_one_side(across.detach(), needed, is_whole or allow_gaps)
    if is_whole and fraction is not None:
        # A positive offset moves the detectors forward: those before the first are missing.
        n_missing = -round(2 * value_of(beam.offset) / value_of(beam.spacing))
        return _steps_of_circle(angles, 2 * math.pi, allow_gaps)[:, None] * fraction, n_missing
    if isinstance(beam, ParallelRays):
        return _steps_of_circle(angles, math.pi, allow_gaps)[:, None], 0
    if is_whole:
        return _steps_of_circle(angles, 2 * math.pi, allow_gaps)[:, None] / 2, 0
    enough = math.pi + 2 * min(value_of(across.abs().max()), needed)
    # A short scan begins after the largest gap.
    first = int(gaps.argmax()) + 1
    ordered = (turned.roll(-first) - turned[first % len(turned)]).remainder(2 * math.pi)
    between = ordered.diff()
    has_gaps = not len(between) or value_of(between.max()) > _allowed(enough, len(angles))
    covered = ordered[-1] if has_gaps else ordered[-1] + (between[0] + between[-1]) / 2
    if has_gaps or (value_of(covered) < enough * (1 - 1e-6) and not allow_gaps):
        short = f", or {math.degrees(enough):.1f} degrees of a short scan,"
        return _steps_of_circle(angles, 2 * math.pi, allow_gaps, short)[:, None] / 2, 0
    steps = torch.cat([between[:1], between, between[-1:]])
    at = (ordered + between[0] / 2).unsqueeze(1)
    taper, other = (_taper(b, covered) for b in (at, at + math.pi - 2 * across))
    weights = ((steps[1:] + steps[:-1]) / 2).unsqueeze(1) * taper / (taper + other)
    return torch.empty_like(weights).index_copy(0, order.roll(-first), weights), 0


def _taper(at: Tensor, size: Tensor) -> Tensor:
    """Return a smooth function that is positive within a range of angles, and 0 elsewhere."""
    at = at.remainder(2 * math.pi)
    return torch.where(at < size, (at * (math.pi / size)).sin().square(), 0.0)


def _of_one_side(across: Tensor, needed: float, is_whole: bool) -> Tensor | None:
    """Return the fractions of rays if one side of the detectors sees less of the image, else None.

    Raises
    ------
    ValueError
        If no ray passes on one side of the origin, or few do and the circle is not whole.
    """
    least, most = -float(across[0]), float(across[-1])
    less = min(least, most)
    if math.isclose(least, most, rel_tol=1e-9, abs_tol=1e-12) or less >= needed:
        return None
    if less <= 0:
        raise ValueError(
            "fbp: rays must pass on both sides of the axis of rotation, got a detector_offset "
            "that moves all of them to one side"
        )
    if 2 * less < needed and not is_whole:
        raise ValueError(
            "fbp: angles must cover 360 degrees without gaps if one side of the detectors sees "
            "less than half of the image, got fewer; find the image by a solver, such as "
            "linops_solvers.conjugate_gradients, or set allow_gaps=True"
        )
    sign = 1 if most > least else -1
    return (math.pi / 4 * (1 + (sign * across / less).clamp(-1, 1))).sin().square()


def _allowed(period: float, n: int) -> float:
    """Return the largest distance between neighbours that is not a gap."""
    return min(max(math.radians(5), 3 * period / n), 0.51 * period)


def _steps_of_circle(angles: Tensor, period: float, allow_gaps: bool, short: str = "") -> Tensor:
    """Return half the distance between the two neighbours of each angle, modulo the period."""
    turned, order = angles.remainder(period).sort()
    gaps = turned.diff(append=turned[:1] + period)
    largest = float(gaps.max())
    if not allow_gaps and largest > _allowed(period, len(angles)):
        raise ValueError(
            f"fbp: the angles must cover {math.degrees(period):.0f} degrees{short} without gaps, "
            f"got a gap of {math.degrees(largest):.1f} degrees; find the image by a solver, such "
            "as linops_solvers.conjugate_gradients, or set allow_gaps=True"
        )
    return torch.empty_like(gaps).index_copy(0, order, (gaps + gaps.roll(1)) / 2)
