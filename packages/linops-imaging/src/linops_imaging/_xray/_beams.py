"""The geometries of the rays through an image, each a `Beam`: parallel beam and fan beam.

s is the coordinate along (cos, sin) of the angle of a view, t along (-sin, cos).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ._rays import NearRays, Number, Rays, ViewTables, centred, hat, tables_at_once, value_of


class ParallelRays(NamedTuple):
    """Rays ``spacing`` apart along (-sin, cos), the middle one of a view at s = ``offset``."""

    angles: Tensor
    n_detectors: int
    spacing: Number
    offset: Number
    origin: Sequence[Number]

    def reach(self, sizes: Sequence[int]) -> int:
        """Return how many rays to each side are less than a pixel away from any pixel, at most."""
        return min(math.ceil(1 / value_of(self.spacing)), self.n_detectors)

    def rays(self) -> Iterator[Rays]:
        """Yield the rays, of some views at a time."""
        for angles in self.angles.double().unsqueeze(1).split(tables_at_once(self.angles)):
            offset = centred(self.n_detectors, angles) * self.spacing + self.offset
            yield Rays(angles.cos(), angles.sin(), offset.unsqueeze(0))

    def tables(self, x0: Tensor, x1: Tensor, reach: int, dtype: torch.dtype) -> ViewTables:
        """Return the positions among the detectors and across the rays, and their step."""
        angles, middle = self.angles.double().unsqueeze(1), (self.n_detectors - 1) / 2
        cosine, sine = angles.cos(), angles.sin()
        main = torch.maximum(cosine.abs(), sine.abs())
        s0, s1 = x0 * cosine, x1 * sine - self.offset
        numbers = (
            # NaN cannot become an index; the lengths of these rays are NaN already.
            (s0 / self.spacing).nan_to_num(),
            (s1 / self.spacing).nan_to_num() + middle,
            s0 / main,
            s1 / main,
            self.spacing / main,
        )
        start = first_rays(angles, self.n_detectors + 2 * reach)
        return ViewTables(by_pixel(numbers, dtype), start)

    def near(self, tables: ViewTables, reach: int) -> NearRays:
        """Return the rays near pixels."""
        p0, p1, t0, t1, step = tables.numbers
        before = _before(p0 + p1, self.n_detectors)
        index = _index(before, tables)
        # Not computed from the position, which has few digits where rays are far apart.
        number = before.sub_((self.n_detectors - 1) / 2)
        at = torch.addcmul(t0 + t1, number, step, value=-1)

        def weight(k: int) -> Tensor:
            return hat(torch.add(at, step, alpha=reach - k))

        return NearRays(index, weight)


class FanRays(NamedTuple):
    """Rays from a source at s = 0, t = -``source`` to detectors that cross s = 0 at ``detector``.

    The detectors are on a line along s, or on a circle about the source. A ray at the angle gamma
    to the one along t has its normal at angle - gamma, and the distance source sin(gamma) from the
    origin.
    """

    angles: Tensor
    n_detectors: int
    spacing: Number
    offset: Number
    origin: Sequence[Number]
    source: float
    detector: float
    is_curved: bool

    def reach(self, sizes: Sequence[int]) -> int:
        """Return how many rays to each side are less than a pixel away from any pixel, at most.

        The position on the detectors moves by at most (source + detector) / (q cos(gamma)^2) for a
        step of 1 at the distance q from the source, on a circle by (source + detector) / q. Steps
        end in a disc about the image.
        """
        radius = radius_of(sizes, self.origin) + 1
        square = 1 if self.is_curved else 1 - (radius / self.source) ** 2
        least = (self.source - radius) * square * value_of(self.spacing)
        return min(math.ceil((self.source + self.detector) / least), self.n_detectors)

    def fan(self) -> Tensor:
        """Return gamma, (D,)."""
        at = centred(self.n_detectors, self.angles.double()) * self.spacing + self.offset
        at = at / (self.source + self.detector)
        return at if self.is_curved else at.atan()

    def rays(self) -> Iterator[Rays]:
        """Yield the rays, of some views at a time."""
        fan = self.fan()
        for angles in self.angles.double().unsqueeze(1).split(tables_at_once(self.angles)):
            theta = angles - fan
            yield Rays(theta.cos(), theta.sin(), (self.source * fan.sin()).unsqueeze(0))

    def nearness(self, s: Tensor, away: Tensor) -> Tensor:
        """Return the weight of filtered back projection of a point."""
        if self.is_curved:
            return self.source**2 / (s.square() + away.square())
        return (self.source / away).square()

    def distances(
        self, x0: Tensor, x1: Tensor, dtype: torch.dtype
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield s and the distance from the source along t of each pixel, for each view."""
        tables = self.tables(x0, x1, 0, dtype)
        for view in range(len(self.angles)):
            s0, s1, t0, t1 = tables.of_views(slice(view, view + 1)).numbers
            yield (s0 + s1)[0], (t0 + t1)[0]

    def detector_at(self, s: Tensor, away: Tensor) -> Tensor:
        """Return the detector of the ray through a point, from 0 and with a fraction."""
        step = (self.source + self.detector) / self.spacing
        tangent = s / away
        at = tangent.atan() if self.is_curved else tangent
        return at * step + ((self.n_detectors - 1) / 2 - self.offset / self.spacing)

    def tables(self, x0: Tensor, x1: Tensor, reach: int, dtype: torch.dtype) -> ViewTables:
        """Return s and the distance from the source along t, and a scale of each ray."""
        fan, angles = self.fan(), self.angles.double().unsqueeze(1)
        main = torch.maximum((angles - fan).cos().abs(), (angles - fan).sin().abs())
        scales = pad((fan.cos() / main).to(dtype), (reach, reach))
        # Where there is no detector, the scale is 0.
        tangents = pad(fan.tan().to(dtype), (reach, reach)).expand_as(scales)
        # NaN cannot become an index; the lengths of these rays are NaN already.
        cosine, sine = angles.cos().nan_to_num(), angles.sin().nan_to_num()
        numbers = (x0 * cosine, x1 * sine, self.source - x0 * sine, x1 * cosine)
        start = first_rays(angles, scales.shape[1])
        others = tangents.flatten() if self.is_curved else None
        return ViewTables(by_pixel(numbers, dtype), start, scales.flatten(), others)

    def near(self, tables: ViewTables, reach: int) -> NearRays:
        """Return the rays near pixels."""
        s0, s1, t0, t1 = tables.numbers
        s, away, scales = s0 + s1, t0 + t1, tables.scales
        assert scales is not None
        before = _before(self.detector_at(s, away), self.n_detectors)
        index = _index(before, tables)
        number = before.sub_((self.n_detectors - 1) / 2)
        step, middle = (
            length / (self.source + self.detector) for length in (self.spacing, self.offset)
        )
        tangents = tables.tangents

        def weight(k: int) -> Tensor:
            # Along s, the ray is away * tangent from the middle one.
            if tangents is None:
                tangent = (number + (k - reach)) * step + middle
            else:
                tangent = tangents[k:].index_select(0, index.flatten()).view_as(s)
            across = torch.addcmul(s, away, tangent, value=-1)
            return hat(across * scales[k:].index_select(0, index.flatten()).view_as(s))

        return NearRays(index, weight)


def radius_of(sizes: Sequence[int], origin: Sequence[Number]) -> float:
    """Return the distance from the origin to the pixel that is farthest away."""
    at = [value_of(number) for number in origin]
    return math.hypot(*(max(o, n - 1 - o) for o, n in zip(at, sizes, strict=True)))


def by_pixel(numbers: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Return numbers of rows and columns in turn, (V, N), and of views, so that they broadcast."""
    return tuple([x.to(dtype).unsqueeze(1 + (i + 1) % 2) for i, x in enumerate(numbers)])


def first_rays(angles: Tensor, n_rays: int) -> Tensor:
    """Return the index of the first ray of each view, (V, 1, 1)."""
    n_views = len(angles)
    dtype = torch.int32 if n_views * n_rays < 2**31 else torch.int64
    return n_rays * torch.arange(n_views, dtype=dtype, device=angles.device).view(-1, 1, 1)


def _before(position: Tensor, n_detectors: int) -> Tensor:
    """Return a position among the detectors, rounded down and clamped to an existing detector."""
    return torch.clamp(position.detach(), 0, n_detectors - 1).floor_()


def _index(before: Tensor, tables: ViewTables) -> Tensor:
    """Return the index of the last detector whose ray is not behind a pixel, less the reach."""
    index = before.int()
    return index if tables.start is None else index + tables.start
