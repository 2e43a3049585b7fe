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

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

_IMAGES = 16
"""So many at a time: they share what is computed of the rays, and have padded copies."""


class Rays(NamedTuple):
    """The rays of some views in float64, (A, D), or (A, 1) where those of a view are parallel."""

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
    def n_views(self) -> int:
        """Return A."""

    @property
    def n_detectors(self) -> int:
        """Return D."""

    def reach(self, sizes: Sequence[int]) -> int:
        """Return how many rays to each side are less than a pixel away from any pixel, at most."""

    def rays(self) -> Iterator[Rays]:
        """Yield the rays, of some views at a time."""

    def near(self, sizes: Sequence[int], dtype: torch.dtype) -> Iterator[Near]:
        """Yield the rays near each pixel of an image, for each view."""


def projected(x: Tensor, beam: Beam) -> Tensor:
    """Return the line integrals of real images (B, N0, N1), (B, A, D)."""
    size0, size1 = x.shape[1:]
    longest = max(size0, size1)
    width = longest + 3
    whole = torch.int32 if 2 * longest * width < 2**31 else torch.int64
    row = torch.arange(longest, dtype=x.dtype, device=x.device).unsqueeze(1)
    start = width * torch.arange(longest, dtype=whole, device=x.device).unsqueeze(1)
    parts = []
    for images in x.split(_IMAGES):
        # The rows of pixels along axis 0 and those along axis 1, with zeros about them.
        rows = torch.stack([_padded(images.mT, longest), _padded(images, longest)], 1).flatten(1)
        ends = [(one, one[1:]) for one in rows]
        sums = [x.new_zeros(len(images), 0, beam.n_detectors)]
        for first, slope, length, is_turned in _paths(beam, size0, size1, x.dtype):
            at = torch.addcmul(first, row, slope).clamp(0, longest + 1)
            index = at.to(whole).add_(start + is_turned.to(whole) * (longest * width)).flatten()
            weight = at.frac_()
            own = []
            for one in ends:
                left, right = (part.index_select(0, index).view_as(at) for part in one)
                own.append(torch.lerp(left, right, weight).sum(0) * length)
            sums.append(torch.stack(own).unsqueeze(1))
        parts.append(torch.cat(sums, 1))
    return torch.cat(parts) if parts else x.new_zeros(0, beam.n_views, beam.n_detectors)


def _paths(
    beam: Beam, size0: int, size1: int, dtype: torch.dtype
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Yield where the rays of each view are in row 0, in pixels from the zero before the image.

    With that come how much farther they are in each next row, their length between two rows, and
    whether these are the rows along axis 1.
    """
    for rays in beam.rays():
        is_turned, main = rays.is_turned(), rays.main()
        slope = -torch.where(is_turned, rays.cosine, rays.sine) / main
        n_pixels = torch.where(is_turned, size1, size0)
        n_rows = torch.where(is_turned, size0, size1)
        first = rays.offset / main - slope * ((n_rows - 1) / 2) + (n_pixels + 1) / 2
        # An angle that is NaN has no position; the length of its rays is NaN already.
        first, slope = (part.to(dtype).nan_to_num() for part in (first, slope))
        yield from zip(first, slope, (1 / main.abs()).to(dtype), is_turned, strict=True)


def back_projected(y: Tensor, beam: Beam, sizes: Sequence[int]) -> Tensor:
    """Return the adjoint of :func:`projected` applied to (B, A, D): images (B, *sizes)."""
    reach, n_detectors = beam.reach(sizes), y.shape[2]
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
