r"""Line integrals of a pixel grid by Joseph's method, and their adjoint.

A ray is a line :math:`x_0 \cos \theta + x_1 \sin \theta = c`. It is followed along the axis to
which it is closer. In each row of pixels across that axis the image is interpolated linearly. Each
value is weighted by the length of the ray between two rows. With m the larger one of cosine and
sine

.. math:: p = \frac{1}{|m|} \sum_x h\left(\frac{x_0 \cos \theta + x_1 \sin \theta - c}{m}\right)
    f(x), \qquad h(t) = \max(0, 1 - |t|).

The adjoint gathers the same products from the rays next to a pixel. Neither of them scatters into
memory, so both give the same bits on every run.

B images, A angles, D detectors, N0 and N1 pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

from .._plain import is_plain

MOST_IMAGES = 16
"""Images computed at a time: they share the geometry of the rays, and each has a padded copy."""
_MANY = {torch.float32: 4, torch.float64: 16}
"""From this number of images on it is faster to sum the values of all images together."""


class Rays(NamedTuple):
    """The rays of some views in float64, (A, D), or (A, 1) for parallel rays."""

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
    """The rays of one view near R rows and C columns of pixels."""

    before: Tensor
    """The last detector whose ray is not behind the pixel, or the first or last one: (R, C)."""
    weight: Callable[[Tensor, Tensor], Tensor]
    """Returns h for one ray of each pixel, (R, C). Takes the numbers of the rays and their indices.

    The index of a detector is its number plus the reach. Where there is no detector, h is
    arbitrary.
    """


class Beam(Protocol):
    """The geometry of the rays of a scan."""

    @property
    def angles(self) -> Tensor:
        """Return the angles of the views, (A,)."""

    @property
    def n_detectors(self) -> int:
        """Return D."""

    def at_angles(self, angles: Tensor) -> Self:
        """Return the same beam at other angles."""

    def reach(self, sizes: Sequence[int]) -> int:
        """Return how many rays to each side are less than a pixel away from any pixel, at most."""

    def rays(self) -> Iterator[Rays]:
        """Yield the rays, of some views at a time."""

    def near(self, x0: Tensor, x1: Tensor, reach: int, dtype: torch.dtype) -> Iterator[Near]:
        """Yield the rays near pixels, of each view.

        Takes the coordinates of R rows and C columns of pixels, in float64.
        """


def line_integrals(x: Tensor, beam: Beam) -> Tensor:
    """Return the line integrals of real images (B, N0, N1), (B, A, D)."""
    if not x.numel():
        return x.new_zeros(len(x), len(beam.angles), beam.n_detectors)
    size0, size1 = x.shape[1:]
    longest = max(size0, size1)
    width = longest + 3
    whole = torch.int32 if 2 * longest * width < 2**31 else torch.int64
    row = torch.arange(longest, dtype=x.dtype, device=x.device)
    start = width * torch.arange(longest, dtype=whole, device=x.device)
    parts = []
    for images in x.split(MOST_IMAGES):
        # The rows of pixels along axis 0 and those along axis 1, with zeros about them.
        values = torch.stack([_padded(images.mT, longest), _padded(images, longest)], 1).flatten(1)
        are_many = len(images) >= _MANY[x.dtype] and is_constant(images, beam)
        values = values.T.contiguous() if are_many else values
        rays, along = (0, 1) if are_many else (1, 0)
        sums = [x.new_zeros(len(images), 0, beam.n_detectors)]
        for first, slope, length, is_turned in _paths(beam, size0, size1, x.dtype):
            first, slope, is_turned = (part.unsqueeze(along) for part in (first, slope, is_turned))
            at = torch.addcmul(first, row.unsqueeze(rays), slope).clamp(0, longest + 1)
            index = at.to(whole)
            index += start.unsqueeze(rays) + is_turned.to(whole) * (longest * width)
            weight = at.frac_()
            if are_many:
                left, right = _summed(values, index, 1 - weight), _summed(values[1:], index, weight)
                own = (left + right).T
            else:
                own = torch.stack([_interpolated(one, index, weight).sum(0) for one in values])
            sums.append((own * length).unsqueeze(1))
        parts.append(torch.cat(sums, 1))
    return torch.cat(parts)


def _paths(
    beam: Beam, size0: int, size1: int, dtype: torch.dtype
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Yield the positions of the rays of each view in row 0, in pixels from the padding.

    Also yield the step from one row to the next, the length of a ray between two rows, and whether
    the rows are those along axis 1.
    """
    for rays in beam.rays():
        is_turned, main = rays.is_turned(), rays.main()
        slope = -torch.where(is_turned, rays.cosine, rays.sine) / main
        n_pixels = torch.where(is_turned, size1, size0)
        n_rows = torch.where(is_turned, size0, size1)
        first = rays.offset / main - slope * ((n_rows - 1) / 2) + (n_pixels + 1) / 2
        # NaN cannot become an index; the lengths of these rays are NaN already.
        first, slope = (part.to(dtype).nan_to_num() for part in (first, slope))
        yield from zip(first, slope, (1 / main.abs()).to(dtype), is_turned, strict=True)


def back_projection(y: Tensor, beam: Beam, sizes: Sequence[int]) -> Tensor:
    """Return the adjoint of :func:`line_integrals` applied to (B, A, D): images (B, *sizes)."""
    if not y.numel():
        return y.new_zeros(len(y), *sizes)
    reach = beam.reach(sizes)
    lengths = torch.cat([1 / rays.main().abs() for rays in beam.rays()])
    parts = []
    for part in (y * lengths.to(y.dtype)).split(MOST_IMAGES):
        lines = pad(part, (reach, reach))
        if len(part) >= _MANY[y.dtype] and is_constant(part, beam):
            parts.append(_many_images(lines, beam, sizes, reach))
        else:
            parts.append(_few_images(lines, beam, sizes, reach))
    return torch.cat(parts)


def _few_images(lines: Tensor, beam: Beam, sizes: Sequence[int], reach: int) -> Tensor:
    """Return the back projection of values of rays, (B, A, reach + D + reach), for few images."""
    may_write = is_constant(lines, beam)
    images = [lines.new_zeros(*sizes) for _ in lines]
    x0, x1 = (centred(size, beam.angles.double()) for size in sizes)
    views = beam.near(x0, x1, reach, lines.dtype)
    for line, near in zip(lines.unbind(1), views, strict=True):
        for k in range(1, 2 * reach + 1):
            ray = near.before + k
            index = ray.int()
            weight = near.weight(ray, index)
            for number, own in enumerate(line):
                values = own.index_select(0, index.flatten()).view_as(weight)
                out = images[number] if may_write else None
                images[number] = torch.addcmul(images[number], values, weight, out=out)
    return torch.stack(images)


def _many_images(lines: Tensor, beam: Beam, sizes: Sequence[int], reach: int) -> Tensor:
    """Return the same for many images, whose values lie side by side."""
    images = lines.new_zeros(math.prod(sizes), len(lines))
    lines = lines.permute(1, 2, 0).contiguous()
    x0, x1 = (centred(size, beam.angles.double()) for size in sizes)
    pair = torch.arange(2, dtype=lines.dtype, device=lines.device).repeat(len(x1))
    views = beam.near(x0, x1.repeat_interleave(2), reach, lines.dtype)
    for line, near in zip(lines, views, strict=True):
        for k in range(1, 2 * reach + 1, 2):
            ray = near.before + (pair + k)
            index = ray.int()
            images += _summed(line, index.view(-1, 2), near.weight(ray, index).view(-1, 2))
    result: Tensor = images.T.unflatten(1, sizes)
    return result


def is_constant(images: Tensor, beam: Beam) -> bool:
    """Return whether neither autograd nor a transform records the images and the angles."""
    is_recorded = images.requires_grad or beam.angles.requires_grad
    return is_plain(images, beam.angles) and not (is_recorded and torch.is_grad_enabled())


def _summed(values: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Return the sums of values (n, B) at the columns of indices (m, .), with weights: (m, B)."""
    sums: Tensor = embedding_bag(index, values, mode="sum", per_sample_weights=weight)
    return sums


def _interpolated(values: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Return values (n,) between each index and the next one, of the shape of ``index``."""
    left, right = (part.index_select(0, index.flatten()) for part in (values, values[1:]))
    return torch.lerp(left.view_as(weight), right.view_as(weight), weight)


def hat(t: Tensor) -> Tensor:
    """Return h(t) = max(0, 1 - |t|)."""
    return t.abs().neg_().add_(1).relu_()


def centred(size: int, like: Tensor) -> Tensor:
    """Return 0, ..., size - 1 minus their mean."""
    return torch.arange(size, dtype=like.dtype, device=like.device) - (size - 1) / 2


def _padded(rows: Tensor, longest: int) -> Tensor:
    """Return rows (B, n, m) with a zero before and zeros behind, (B, longest, longest + 3)."""
    return pad(rows, (1, longest + 2 - rows.shape[2], 0, longest - rows.shape[1]))
