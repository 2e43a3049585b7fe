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
_BYTES = 2**21
"""Bytes of rows that are computed at a time, even if the images have fewer: less takes longer."""
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


class Images(Protocol):
    """Images whose rows are read some at a time."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return B, N0 and N1."""

    def rows(self, axis: int, part: slice) -> Iterator[Tensor]:
        """Yield pixels along ``axis``, of some places along the other axis, of each: (R, N)."""


class Whole(NamedTuple):
    """Images as they are, (B, N0, N1)."""

    images: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return B, N0 and N1."""
        n_images, size0, size1 = self.images.shape
        return n_images, size0, size1

    def rows(self, axis: int, part: slice) -> Iterator[Tensor]:
        """Yield pixels along ``axis``, of some places along the other axis, of each: (R, N)."""
        yield from (self.images if axis else self.images.mT)[:, part]


def line_integrals(x: Tensor, beam: Beam) -> Tensor:
    """Return the line integrals of real images (B, N0, N1), (B, A, D)."""
    if not x.numel():
        return x.new_zeros(len(x), len(beam.angles), beam.n_detectors)
    parts = [of_rows(Whole(part), beam, part) for part in x.split(MOST_IMAGES)]
    return torch.cat(parts)


def of_rows(images: Images, beam: Beam, like: Tensor) -> Tensor:
    """Return the line integrals of at most MOST_IMAGES images, from some rows of pixels at a time.

    ``like`` has the dtype and device of the images, and what records them. The rows at a time have
    about twice as many numbers.
    """
    n_images, size0, size1 = images.shape
    longest = max(size0, size1)
    width = longest + 3
    is_known = is_constant(like, beam)
    axes = _followed(beam) if is_known else (0, 1)
    if not axes:
        return like.new_zeros(n_images, 0, beam.n_detectors)
    n_rows = rows_at_once(2 * like.numel(), len(axes) * n_images * width, like.dtype)
    are_many = is_known and n_images >= _MANY[like.dtype]
    rays, along = (0, 1) if are_many else (1, 0)
    row = torch.arange(longest, dtype=like.dtype, device=like.device).unsqueeze(rays)
    sums: list[Tensor] = []
    for part in (slice(at, min(at + n_rows, longest)) for at in range(0, longest, n_rows)):
        n_own = part.stop - part.start
        start = width * torch.arange(n_own, dtype=torch.int32, device=like.device).unsqueeze(rays)
        values = (_side_by_side if are_many else _in_turn)(images, axes, part, like)
        for view, path in enumerate(_paths(beam, size0, size1, like.dtype)):
            first, slope, length, is_turned = (numbers.unsqueeze(along) for numbers in path)
            own_row = row[:, part] if are_many else row[part]
            at = torch.addcmul(first, own_row, slope).clamp(0, longest + 1)
            index = at.int()
            index += start
            if len(axes) == 2:
                index += is_turned.int() * (n_own * width)
            weight = at.frac_()
            if are_many:
                left, right = _summed(values, index, 1 - weight), _summed(values[1:], index, weight)
                own = (left + right).mul_(length).T
            else:
                found = [_interpolated(one, index, weight).sum(0) for one in values]
                own = torch.stack(found) * length
            if part.start:
                sums[view] = sums[view] + own
            else:
                sums.append(own)
    return torch.stack(sums, 1)


def _followed(beam: Beam) -> tuple[int, ...]:
    """Return the axes of the rows of pixels that the rays cross: 0, 1, both or none."""
    turned = torch.cat([rays.is_turned().flatten() for rays in beam.rays()])
    return tuple(turned.int().unique().tolist())


def _side_by_side(images: Images, axes: Sequence[int], part: slice, like: Tensor) -> Tensor:
    """Return rows with zeros about them, (n, B); those along axis 0 before those along axis 1."""
    n_images, *sizes = images.shape
    width, n_rows = max(sizes) + 3, part.stop - part.start
    values = like.new_zeros(len(axes), n_rows, width, n_images)
    for by_axis, axis in zip(values, axes, strict=True):
        for number, rows in enumerate(images.rows(axis, part)):
            by_axis[: len(rows), 1 : 1 + rows.shape[1], number] = rows
    return values.flatten(0, 2)


def _in_turn(images: Images, axes: Sequence[int], part: slice, like: Tensor) -> Tensor:
    """Return the same, (B, n)."""
    width, n_rows = max(images.shape[1:]) + 3, part.stop - part.start
    by_axis = [torch.stack([*images.rows(axis, part)]) for axis in axes]
    padded = [
        pad(rows, (1, width - 1 - rows.shape[2], 0, n_rows - rows.shape[1])) for rows in by_axis
    ]
    return torch.stack(padded, 1).flatten(1)


def rows_at_once(n_numbers: int, n_of_row: int, dtype: torch.dtype) -> int:
    """Return how many rows to take at a time, to have about so many numbers or a few bytes.

    At most 2^30 numbers, because indices of 32 bits count them.
    """
    return max(1, min(max(_BYTES // dtype.itemsize, n_numbers), 2**30) // n_of_row)


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
    parts = [
        torch.cat([rows for _, rows in onto_rows(part, beam, sizes, len(part))], 1)
        for part in y.split(MOST_IMAGES)
    ]
    return torch.cat(parts)


def onto_rows(
    y: Tensor, beam: Beam, sizes: Sequence[int], n_at_once: int
) -> Iterator[tuple[slice, Tensor]]:
    """Yield places along axis 0 and the back projection there, (B, R, N1).

    For at most MOST_IMAGES images. About ``n_at_once`` images are in memory at a time.
    """
    reach = beam.reach(sizes)
    lengths = torch.cat([1 / rays.main().abs() for rays in beam.rays()])
    lines = pad(y * lengths.to(y.dtype), (reach, reach))
    are_many = len(y) >= _MANY[y.dtype] and is_constant(y, beam)
    n_rows = rows_at_once(n_at_once * math.prod(sizes), len(y) * sizes[1], y.dtype)
    x0, x1 = (centred(size, beam.angles.double()) for size in sizes)
    if are_many:
        lines = lines.permute(1, 2, 0).contiguous()
    for start in range(0, sizes[0], n_rows):
        rows = slice(start, min(start + n_rows, sizes[0]))
        onto = _many_images if are_many else _few_images
        yield rows, onto(lines, beam, x0[rows], x1, reach)


def _few_images(lines: Tensor, beam: Beam, x0: Tensor, x1: Tensor, reach: int) -> Tensor:
    """Return the back projection of values of rays, (B, A, reach + D + reach), for few images."""
    may_write = is_constant(lines, beam)
    images = [lines.new_zeros(len(x0), len(x1)) for _ in lines]
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


def _many_images(lines: Tensor, beam: Beam, x0: Tensor, x1: Tensor, reach: int) -> Tensor:
    """Return the same for many images, whose values lie side by side: (A, reach + D + reach, B)."""
    images = lines.new_zeros(len(x0) * len(x1), lines.shape[2])
    pair = torch.arange(2, dtype=lines.dtype, device=lines.device).repeat(len(x1))
    views = beam.near(x0, x1.repeat_interleave(2), reach, lines.dtype)
    for line, near in zip(lines, views, strict=True):
        for k in range(1, 2 * reach + 1, 2):
            ray = near.before + (pair + k)
            index = ray.int()
            images += _summed(line, index.view(-1, 2), near.weight(ray, index).view(-1, 2))
    result: Tensor = images.T.unflatten(1, (len(x0), len(x1)))
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
