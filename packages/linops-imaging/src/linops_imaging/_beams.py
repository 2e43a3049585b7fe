"""Where the rays of a scan are: parallel ones, and those of a fan.

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

from ._joseph import Near, Rays, centred

_VIEWS = 16
"""So many have a table at a time, which has float64 for each ray."""


class ParallelRays(NamedTuple):
    """Rays ``spacing`` apart along (-sin, cos), the middle one of a view through the origin."""

    angles: Tensor
    n_detectors: int
    spacing: float

    @property
    def n_views(self) -> int:
        """Return A."""
        return len(self.angles)

    def reach(self, sizes: Sequence[int]) -> int:
        """Return how many rays to each side are less than a pixel away from any pixel, at most."""
        return min(math.ceil(1 / self.spacing), self.n_detectors)

    def rays(self) -> Iterator[Rays]:
        """Yield the rays, of some views at a time."""
        for angles in self.angles.double().unsqueeze(1).split(_VIEWS):
            offset = (centred(self.n_detectors, angles) * self.spacing).unsqueeze(0)
            yield Rays(angles.cos(), angles.sin(), offset)

    def near(self, sizes: Sequence[int], dtype: torch.dtype) -> Iterator[Near]:
        """Yield the rays near each pixel of an image, for each view."""
        angles, reach = self.angles.double().unsqueeze(1), self.reach(sizes)
        cosine, sine = angles.cos(), angles.sin()
        main = torch.maximum(cosine.abs(), sine.abs())
        x0, x1 = (centred(n, main) * own for n, own in zip(sizes, (cosine, sine), strict=True))
        # Distances are divided by m^2 before: the weights are max(0, 1 / |m| - distance / m^2).
        square = main.square()
        tables = (
            # An angle that is NaN has no place; the length of its rays is NaN already.
            (x0 / self.spacing).nan_to_num(),
            (x1 / self.spacing).nan_to_num() + (self.n_detectors - 1) / 2,
            x0 / square,
            x1 / square,
            self.spacing / square,
            1 / main,
        )
        for p0, p1, s0, s1, step, length in zip(
            *(table.to(dtype) for table in tables), strict=True
        ):
            place = p0.unsqueeze(1) + p1
            at = s0.unsqueeze(1) + s1
            yield Near(place, partial(self._weights, reach, at, step, length))

    def _weights(
        self, reach: int, at: Tensor, step: Tensor, length: Tensor, below: Tensor, index: Tensor
    ) -> Iterator[Tensor]:
        # From the pixel, and not from its place, which has few digits where rays are far apart.
        away = torch.addcmul(at, below - (self.n_detectors - 1) / 2, step, value=-1)
        for k in range(1 - reach, reach + 1):
            yield torch.sub(length, (away - k * step).abs_()).relu_()


class FanRays(NamedTuple):
    """Rays from a source at s = 0, t = -``source`` to flat detectors at t = ``detector``.

    The ray that makes the angle gamma with the middle one is parallel to that of another view:
    its normal is at angle - gamma, and its distance from the origin is source sin(gamma).
    """

    angles: Tensor
    n_detectors: int
    spacing: float
    source: float
    detector: float

    @property
    def n_views(self) -> int:
        """Return A."""
        return len(self.angles)

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
        self, sizes: Sequence[int], dtype: torch.dtype
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield s and the distance from the source along t of each pixel, for each view."""
        angles = self.angles.double().unsqueeze(1)
        x0, x1 = (centred(size, angles) for size in sizes)
        # An angle that is NaN has no place; the length of its rays is NaN already.
        cosine, sine = angles.cos().nan_to_num(), angles.sin().nan_to_num()
        tables = (x0 * cosine, x1 * sine, self.source - x0 * sine, x1 * cosine)
        for s0, s1, t0, t1 in zip(*(table.to(dtype) for table in tables), strict=True):
            yield s0.unsqueeze(1) + s1, t0.unsqueeze(1) + t1

    def place(self, s: Tensor, away: Tensor) -> Tensor:
        """Return the detector of the ray through a point, from 0 and with a fraction."""
        step = (self.source + self.detector) / self.spacing
        return s / away * step + (self.n_detectors - 1) / 2

    def near(self, sizes: Sequence[int], dtype: torch.dtype) -> Iterator[Near]:
        """Yield the rays near each pixel of an image, for each view."""
        reach, fan = self.reach(sizes), self.fan()
        for angle, (s, away) in zip(
            self.angles.double(), self.distances(sizes, dtype), strict=True
        ):
            main = torch.maximum((angle - fan).cos().abs(), (angle - fan).sin().abs())
            # The distance of a point from a ray, divided by m^2, is s cosine - away sine.
            tables = (1 / main, fan.cos() / main.square(), fan.sin() / main.square())
            rays = [pad(table.to(dtype), (reach, reach)) for table in tables]
            yield Near(self.place(s, away), partial(self._weights, reach, s, away, rays))

    def _weights(
        self, reach: int, s: Tensor, away: Tensor, rays: Sequence[Tensor], _: Tensor, index: Tensor
    ) -> Iterator[Tensor]:
        for k in range(1, 2 * reach + 1):
            length, cosine, sine = (table[k:].index_select(0, index).view_as(s) for table in rays)
            yield torch.sub(length, torch.addcmul(s * cosine, away, sine, value=-1).abs()).relu()
