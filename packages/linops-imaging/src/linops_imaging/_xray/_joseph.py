r"""Line integrals of a pixel grid by Joseph's method, and their adjoint.

A ray is a line :math:`x_0 \cos \theta + x_1 \sin \theta = c`. It is followed along the axis to
which it is closer. In each row of pixels across that axis the image is interpolated linearly. Each
value is weighted by the length of the ray between two rows. With m the larger one of cosine and
sine

.. math:: p = \frac{1}{|m|} \sum_x h\left(\frac{x_0 \cos \theta + x_1 \sin \theta - c}{m}\right)
    f(x), \qquad h(t) = \max(0, 1 - |t|).

The adjoint gathers the same products from the rays next to a pixel. Neither of them scatters into
memory, so both give the same bits on every run with as many threads.

B images, A angles, V views, D detectors, R rows and C columns of pixels, N0 and N1 pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ._many_images import Images, back_projection_onto_rows_of_many, blocks, line_integrals_of_many
from ._rays import (
    Beam,
    ViewTables,
    axes_of_rows,
    coordinates,
    images_and_beam_are_fixed,
    paths,
    views_at_once,
)

MOST_IMAGES = 16
"""Images computed at a time: they share the geometry of the rays, and each has a padded copy."""
_BYTES = 2**21
"""Bytes of rows that are computed at a time, even if the images have fewer: less takes longer."""


class WholeImages(NamedTuple):
    """Images as they are, (B, N0, N1)."""

    images: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return B, N0 and N1."""
        n_images, size0, size1 = self.images.shape
        return n_images, size0, size1

    def rows(self, axis: int, part: slice) -> Tensor:
        """Return pixels along ``axis``, at some indices along the other axis, of all: (B, R, N)."""
        return (self.images if axis else self.images.mT)[:, part]


def line_integrals(x: Tensor, beam: Beam) -> Tensor:
    """Return the line integrals of real images (B, N0, N1), (B, A, D)."""
    if not x.numel():
        return x.new_zeros(len(x), len(beam.angles), beam.n_detectors)
    if not images_and_beam_are_fixed(x, beam):
        return line_integrals_of_rows(WholeImages(x), beam, x)
    parts = [line_integrals_of_rows(WholeImages(part), beam, part) for part in x.split(MOST_IMAGES)]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def line_integrals_of_rows(
    images: Images, beam: Beam, like: Tensor, planned_axes: tuple[int, ...] = (0, 1)
) -> Tensor:
    """Return the line integrals of at most MOST_IMAGES images, from some rows of pixels at a time.

    ``like`` has the dtype and device of the images, and what records them. The rows at a time have
    about twice as many numbers as ``like``, for any number of poses. What records them records all
    rows at a time, and any number of images: exported programs leave it open.
    """
    n_images, size0, size1 = images.shape
    longest = max(size0, size1)
    width = longest + 3
    is_known = images_and_beam_are_fixed(like, beam)
    axes = axes_of_rows(beam, planned_axes) if is_known else (0, 1)
    if not axes:
        return like.new_zeros(n_images, 0, beam.n_detectors)
    if is_known and like.is_cpu and _are_many(like, n_images):
        return line_integrals_of_many(images, beam, axes, like)
    n_rows = longest
    if is_known:
        n_numbers = 2 * len(like) * (size0 + 3) * (size1 + 3)
        n_rows = min(longest, rows_at_once(n_numbers, len(axes) * n_images * width, like.dtype))
    n_views = views_at_once(like, n_rows * beam.n_detectors)
    row = torch.arange(longest, dtype=like.dtype, device=like.device).unsqueeze(1)
    # Small results that are kept view by view would pin the heap above the large temporaries.
    result = like.new_zeros(n_images, len(beam.angles), beam.n_detectors) if is_known else None
    sums: list[Tensor] = []
    for part in blocks(longest, n_rows):
        done = 0
        height = part.stop - part.start
        start = width * torch.arange(height, dtype=torch.int32, device=like.device).unsqueeze(1)
        values = _in_turn(images, axes, part, like)
        for first, slope, length, is_turned in paths(beam, like.dtype, n_views):
            at = torch.addcmul(first.unsqueeze(1), row[part], slope.unsqueeze(1))
            at = at.clamp(0, longest + 1)
            index = at.int()
            index += start
            if len(axes) == 2:
                index += is_turned.unsqueeze(1).int() * (height * width)
            weight = at.frac_()
            if result is not None:
                sums_of_rows = torch.stack([_interpolated(one, index, weight) for one in values])
                result[:, done : done + len(length)] += sums_of_rows * length
                done += len(length)
            else:
                sums.append(_interpolated(values, index, weight) * length)
    return torch.cat(sums, 1) if result is None else result


def _are_many(values: Tensor, n_images: int) -> bool:
    """Return whether it is faster to sum the values of all images together.

    Threads share these sums; operations on one view of one image are too small to be shared. Torch
    sums more slowly in double precision. A GPU computes line integrals faster image by image.
    """
    if values.dtype == torch.float64:
        return n_images >= 16
    return n_images * (torch.get_num_threads() if values.is_cpu else 1) >= 4


def _in_turn(images: Images, axes: Sequence[int], part: slice, like: Tensor) -> Tensor:
    """Return rows with zeros about them, (B, n); those along axis 0 before those along axis 1."""
    width, n_rows = max(images.shape[1:]) + 3, part.stop - part.start
    of_axes = [images.rows(axis, part) for axis in axes]
    by_axis = [rows if isinstance(rows, Tensor) else torch.stack([*rows]) for rows in of_axes]
    padded = [
        pad(rows, (1, width - 1 - rows.shape[2], 0, n_rows - rows.shape[1])) for rows in by_axis
    ]
    return torch.stack(padded, 1).flatten(1)


def rows_at_once(n_numbers: int, n_of_row: int, dtype: torch.dtype) -> int:
    """Return how many rows to take at a time, to have about so many numbers or a few bytes.

    At most 2^30 numbers, because indices of 32 bits count them.
    """
    return max(1, min(max(_BYTES // dtype.itemsize, n_numbers), 2**30) // n_of_row)


def back_projection(y: Tensor, beam: Beam, sizes: Sequence[int]) -> Tensor:
    """Return the adjoint of :func:`line_integrals` applied to (B, A, D): images (B, *sizes)."""
    if not y.numel():
        return y.new_zeros(len(y), *sizes)
    if not images_and_beam_are_fixed(y, beam):
        ((_, images),) = back_projection_onto_rows(y, beam, sizes, 1)
        return images
    result = y.new_empty(len(y), *sizes)
    for some, images in zip(y.split(MOST_IMAGES), result.split(MOST_IMAGES), strict=True):
        for rows, part in back_projection_onto_rows(some, beam, sizes, len(some)):
            images[:, rows] = part
    return result


def back_projection_onto_rows(
    y: Tensor, beam: Beam, sizes: Sequence[int], n_at_once: int
) -> Iterator[tuple[slice, Tensor]]:
    """Return indices along axis 0 and the back projection there, (B, R, N1), one after the other.

    For at most MOST_IMAGES images. About ``n_at_once`` images are in memory at a time. If autograd
    or a transform records them, all rows of any number of images are one part.
    """
    reach = beam.reach(sizes)
    lengths = torch.cat([1 / rays.main().abs() for rays in beam.rays()])
    x0, x1 = coordinates(beam, sizes)
    is_known = images_and_beam_are_fixed(y, beam)
    if is_known and _are_many(y, len(y)):
        return back_projection_onto_rows_of_many(y, lengths.to(y.dtype), beam, x0, x1, reach)
    lines = pad(y * lengths.to(y.dtype), (reach, reach))
    n_rows = sizes[0]
    if is_known:
        n_rows = rows_at_once(n_at_once * math.prod(sizes), len(y) * sizes[1], y.dtype)
    tables = beam.tables(x0, x1, reach, y.dtype)
    return (
        (rows, _onto_few(lines, beam, tables.of_rows(rows), (rows.stop - rows.start, sizes[1])))
        for rows in blocks(sizes[0], n_rows)
    )


def _onto_few(lines: Tensor, beam: Beam, tables: ViewTables, shape: Sequence[int]) -> Tensor:
    """Return the back projection of values of rays, (B, A, reach + D + reach), for few images."""
    reach = (lines.shape[2] - beam.n_detectors) // 2
    may_write = images_and_beam_are_fixed(lines, beam)
    total = lines.new_zeros(lines.shape[0], *shape)
    for views in blocks(lines.shape[1], views_at_once(lines, math.prod(shape))):
        near = beam.near(tables.of_views(views), reach)
        index = near.before.flatten()
        weighted = lines[:, views].reshape(lines.shape[0], -1)
        for k in range(1, 2 * reach + 1):
            weight = near.weight(k)
            if may_write:
                for values, image in zip(weighted, total.split(1), strict=True):
                    _add_products(image, values[k:].index_select(0, index).view_as(weight), weight)
            else:
                values = weighted[:, k:].index_select(1, index).view(-1, *weight.shape)
                total = total + (values * weight).sum(1)
    return total


def _add_products(x: Tensor, a: Tensor, b: Tensor) -> None:
    """Add the products of a and b, (V, R, C), summed over V, to x, (1, R, C)."""
    if len(a) == 1:
        x.addcmul_(a, b)
    else:
        x += (a * b).sum(0, keepdim=True)


def _interpolated(values: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Return sums over rows, (..., V, D), of values (..., n) between each index and the next one.

    Index and weight are (V, R, D).
    """
    flat = index.flatten()
    left, right = (
        part.index_select(-1, flat).view(*part.shape[:-1], *weight.shape)
        for part in (values, values[..., 1:])
    )
    sums: Tensor = torch.lerp(left, right, weight).sum(-2)
    return sums
