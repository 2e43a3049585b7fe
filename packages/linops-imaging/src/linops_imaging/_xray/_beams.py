"""The geometry of the rays of a scan: parallel beam and fan beam.

s is the coordinate along (cos, sin) of the angle of a view, t along (-sin, cos).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ._joseph import Near, Rays, centred, hat

_VIEWS = 16
"""Views computed at a time; each needs a float64 number for each ray."""


class ParallelRays(NamedTuple):
    """Rays ``spacing`` apart along (-sin, cos), the middle one of a view through the origin."""

    angles: Tensor
    n_detectors: int
    spacing: float

    def at_angles(self, angles: Tensor) -> ParallelRays:
        """Return the same beam at other angles."""
        return self._replace(angles=angles)

    def reach(self, sizes: Sequence[int]) -> int:
        """Return how many rays to each side are less than a pixel away from any pixel, at most."""
        return min(math.ceil(1 / self.spacing), self.n_detectors)

    def rays(self) -> Iterator[Rays]:
        """Yield the rays, of some views at a time."""
        for angles in self.angles.double().unsqueeze(1).split(_VIEWS):
            offset = (centred(self.n_detectors, angles) * self.spacing).unsqueeze(0)
            yield Rays(angles.cos(), angles.sin(), offset)

    def near(self, x0: Tensor, x1: Tensor, reach: int, dtype: torch.dtype) -> Iterator[Near]:
        """Yield the rays near pixels, of each view."""
        angles, middle = self.angles.double().unsqueeze(1), (self.n_detectors - 1) / 2
        cosine, sine = angles.cos(), angles.sin()
        main = torch.maximum(cosine.abs(), sine.abs())
        s0, s1 = x0 * cosine, x1 * sine
        tables = (
            # NaN cannot become an index; the lengths of these rays are NaN already.
            (s0 / self.spacing).nan_to_num(),
            (s1 / self.spacing).nan_to_num() + middle,
            s0 / main,
            s1 / main,
            self.spacing / main,
        )
        for p0, p1, t0, t1, step in zip(*(table.to(dtype) for table in tables), strict=True):
            before = _before(p0.unsqueeze(1) + p1, self.n_detectors)
            at = t0.unsqueeze(1) + t1
            yield Near(before, partial(self._weight, reach, at, step))

    def _weight(self, reach: int, at: Tensor, step: Tensor, ray: Tensor, _: Tensor) -> Tensor:
        # Not computed from the place, which has few digits where rays are far apart.
        number = ray - ((self.n_detectors - 1) / 2 + reach)
        return hat(torch.addcmul(at, number, step, value=-1))


class FanRays(NamedTuple):
    """Rays from a source at s = 0, t = -``source`` to flat detectors at t = ``detector``.

    A ray at the angle gamma to the middle ray has its normal at angle - gamma, and the distance
    source sin(gamma) from the origin.
    """

    angles: Tensor
    n_detectors: int
    spacing: float
    source: float
    detector: float

    def at_angles(self, angles: Tensor) -> FanRays:
        """Return the same beam at other angles."""
        return self._replace(angles=angles)

    def reach(self, sizes: Sequence[int]) -> int:
        """Return how many rays to each side are less than a pixel away from any pixel, at most.

        The place on the detectors moves by at most (source + detector) / (q cos(gamma)^2) for a
        step of 1 at the distance q from the source. Steps end in a disc about the image.
        """
        radius = math.hypot(*(size - 1 for size in sizes)) / 2 + 1
        square = 1 - (radius / self.source) ** 2
        most = (self.source + self.detector) / ((self.source - radius) * square * self.spacing)
        return min(math.ceil(most), self.n_detectors)

    def fan(self) -> Tensor:
        """Return gamma, (D,)."""
        at = centred(self.n_detectors, self.angles.double()) * self.spacing
        return (at / (self.source + self.detector)).atan()

    def rays(self) -> Iterator[Rays]:
        """Yield the rays, of some views at a time."""
        fan = self.fan()
        for angles in self.angles.double().unsqueeze(1).split(_VIEWS):
            theta = angles - fan
            yield Rays(theta.cos(), theta.sin(), (self.source * fan.sin()).unsqueeze(0))

    def distances(
        self, x0: Tensor, x1: Tensor, dtype: torch.dtype
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield s and the distance from the source along t of each pixel, for each view."""
        angles = self.angles.double().unsqueeze(1)
        # NaN cannot become an index; the lengths of these rays are NaN already.
        cosine, sine = angles.cos().nan_to_num(), angles.sin().nan_to_num()
        tables = (x0 * cosine, x1 * sine, self.source - x0 * sine, x1 * cosine)
        for s0, s1, t0, t1 in zip(*(table.to(dtype) for table in tables), strict=True):
            yield s0.unsqueeze(1) + s1, t0.unsqueeze(1) + t1

    def place(self, s: Tensor, away: Tensor) -> Tensor:
        """Return the detector of the ray through a point, from 0 and with a fraction."""
        step = (self.source + self.detector) / self.spacing
        return s / away * step + (self.n_detectors - 1) / 2

    def near(self, x0: Tensor, x1: Tensor, reach: int, dtype: torch.dtype) -> Iterator[Near]:
        """Yield the rays near pixels, of each view."""
        fan, angles = self.fan(), self.angles.double().unsqueeze(1)
        main = torch.maximum((angles - fan).cos().abs(), (angles - fan).sin().abs())
        shares = pad((fan.cos() / main).to(dtype), (reach, reach))
        views = self.distances(x0, x1, dtype)
        for share, (s, away) in zip(shares, views, strict=True):
            before = _before(self.place(s, away), self.n_detectors)
            yield Near(before, partial(self._weight, reach, share, s, away))

    def _weight(
        self, reach: int, share: Tensor, s: Tensor, away: Tensor, ray: Tensor, index: Tensor
    ) -> Tensor:
        # Along s, the ray is away * tangent from the middle one.
        step = self.spacing / (self.source + self.detector)
        tangent = (ray - ((self.n_detectors - 1) / 2 + reach)) * step
        across = torch.addcmul(s, away, tangent, value=-1)
        return hat(across * share.index_select(0, index.flatten()).view_as(s))


def _before(place: Tensor, n_detectors: int) -> Tensor:
    """Return a place among the detectors, rounded down and clamped to an existing detector."""
    return place.detach().clamp(0, n_detectors - 1).floor_()
