r"""Line integrals of a pixel grid by Joseph's method, and their adjoint.

A ray is a line :math:`x_0 \cos \theta + x_1 \sin \theta = c`. It is followed along the axis to
which it is closer: in each row of pixels across that, the image is interpolated linearly, and
counts with the length of the ray between two rows. So with the larger m of the cosine and the sine

.. math:: p = \frac{1}{|m|} \sum_x h\left(\frac{x_0 \cos \theta + x_1 \sin \theta - c}{m}\right)
    f(x), \qquad h(t) = \max(0, 1 - |t|).

The adjoint gathers the same products from the rays that are next to a pixel. Neither adds into
memory at random, so both give the same bits on every run.

B images, A angles, D detectors, N0 and N1 pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

_IMAGES = 16
"""So many at a time: they share what is computed of the rays, and have padded copies."""


class Rays(NamedTuple):
    """The rays of all views in float64, (A, D), or (A, 1) where those of a view are parallel."""

    cosine: Tensor
    sine: Tensor
    offset: Tensor
    """c, (A, D) or (1, D)."""

    def is_turned(self) -> Tensor:
        """Return whether the rows of pixels that are interpolated are those along axis 1."""
        return self.cosine.abs() < self.sine.abs()

    def main(self) -> Tensor:
        """Return m, with its sign."""
        return torch.where(self.is_turned(), self.sine, self.cosine)


class Near(NamedTuple):
    """The rays of one view near each pixel."""

    place: Tensor
    """The detector of the ray through the pixel, (N0, N1), from 0 and with a fraction."""
    weights: Callable[[Tensor, Tensor], Iterator[Tensor]]
    """Yields the weights of rays ``below`` + k, (N0, N1), for k = 1 - reach, ..., reach.

    Takes ``below``, the place rounded down to a detector that there is, and the same as an index.
    """


class Beam(Protocol):
    """Where the rays of a scan are."""

    @property
    def reach(self) -> int:
        """Return how many rays to each side are less than a pixel away, at most."""

    def rays(self) -> Rays:
        """Return all rays."""

    def near(self, sizes: Sequence[int], dtype: torch.dtype) -> Iterator[Near]:
        """Yield the rays near each pixel of an image, for each view."""


class ParallelRays(NamedTuple):
    """Rays ``spacing`` apart along (-sin, cos), the middle one of a view through the origin."""

    angles: Tensor
    n_detectors: int
    spacing: float

    @property
    def reach(self) -> int:
        """Return how many rays to each side are less than a pixel away, at most."""
        return min(math.ceil(1 / self.spacing), self.n_detectors)

    def rays(self) -> Rays:
        """Return all rays."""
        angles = self.angles.double().unsqueeze(1)
        offset = (centred(self.n_detectors, angles) * self.spacing).unsqueeze(0)
        return Rays(angles.cos(), angles.sin(), offset)

    def near(self, sizes: Sequence[int], dtype: torch.dtype) -> Iterator[Near]:
        """Yield the rays near each pixel of an image, for each view."""
        rays = self.rays()
        main, pixels = rays.main().abs(), (centred(size, rays.offset) for size in sizes)
        x0, x1 = (own * part for own, part in zip(pixels, (rays.cosine, rays.sine), strict=True))
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
            yield Near(place, partial(self._weights, s0.unsqueeze(1) + s1, step, length))

    def _weights(
        self, at: Tensor, step: Tensor, length: Tensor, below: Tensor, index: Tensor
    ) -> Iterator[Tensor]:
        # From the pixel, and not from its place, which has few digits where rays are far apart.
        away = torch.addcmul(at, below - (self.n_detectors - 1) / 2, step, value=-1)
        for k in range(1 - self.reach, self.reach + 1):
            yield torch.sub(length, (away - k * step).abs_()).relu_()


def projected(x: Tensor, beam: Beam) -> Tensor:
    """Return the line integrals of real images (B, N0, N1), (B, A, D)."""
    rays = beam.rays()
    size0, size1 = x.shape[1:]
    longest, (is_turned, main) = max(size0, size1), (rays.is_turned(), rays.main())
    slope = -torch.where(is_turned, rays.cosine, rays.sine) / main
    n_pixels, n_rows = torch.where(is_turned, size1, size0), torch.where(is_turned, size0, size1)
    # In row j, the ray is first + slope j pixels from the zero before the image.
    first = rays.offset / main - slope * ((n_rows - 1) / 2) + (n_pixels + 1) / 2
    # An angle that is NaN has no position; the length of its rays is NaN already.
    slope, first = (part.to(x.dtype).nan_to_num() for part in (slope, first))
    length = (1 / main.abs()).to(x.dtype)
    width = longest + 3
    whole = torch.int32 if 2 * longest * width < 2**31 else torch.int64
    row = torch.arange(longest, device=x.device).unsqueeze(1)
    starts = ((is_turned * longest).unsqueeze(1) + row).mul(width).to(whole)
    row = row.to(x.dtype)
    parts = [x.new_zeros(0, *first.shape)]
    for images in x.split(_IMAGES):
        # The rows of pixels along axis 0 and those along axis 1, with zeros about them.
        rows = torch.stack([_padded(images.mT, longest), _padded(images, longest)], 1).flatten(1)
        ends = [(one, one[1:]) for one in rows]
        sums = [x.new_zeros(0, first.shape[1])]
        for own_first, own_slope, start in zip(first, slope, starts, strict=True):
            at = torch.addcmul(own_first, row, own_slope).clamp(0, longest + 1)
            index = at.to(whole).add_(start).flatten()
            weight = at.frac_()
            for one in ends:
                left, right = (part.index_select(0, index).view_as(at) for part in one)
                sums.append(torch.lerp(left, right, weight).sum(0, keepdim=True))
        found = torch.cat(sums).view(len(first), len(images), first.shape[1])
        parts.append(found.movedim(1, 0) * length)
    return torch.cat(parts)


def back_projected(y: Tensor, beam: Beam, sizes: Sequence[int]) -> Tensor:
    """Return the adjoint of :func:`projected` applied to (B, A, D): images (B, *sizes)."""
    reach, n_detectors = beam.reach, y.shape[2]
    parts = [y.new_zeros(0, *sizes)]
    for part in y.split(_IMAGES):
        images = [part.new_zeros(*sizes) for _ in part]
        lines = pad(part, (reach, reach)).unbind(1)
        for line, near in zip(lines, beam.near(sizes, y.dtype), strict=True):
            below = near.place.detach().floor().clamp(0, n_detectors - 1)
            index = below.int().flatten()
            for k, weight in enumerate(near.weights(below, index), 1):
                for number, own in enumerate(line):
                    values = own[k:].index_select(0, index).view_as(weight)
                    images[number] = torch.addcmul(images[number], values, weight)
        parts += [image.unsqueeze(0) for image in images]
    return torch.cat(parts)


def centred(size: int, like: Tensor) -> Tensor:
    """Return 0, ..., size - 1 about their middle."""
    return torch.arange(size, dtype=like.dtype, device=like.device) - (size - 1) / 2


def _padded(rows: Tensor, longest: int) -> Tensor:
    """Return rows (B, n, m) with a zero before and zeros behind, (B, longest, longest + 3)."""
    return pad(rows, (1, longest + 2 - rows.shape[2], 0, longest - rows.shape[1]))
