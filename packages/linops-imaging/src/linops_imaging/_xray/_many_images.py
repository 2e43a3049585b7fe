"""Line integrals of many images and their adjoint, with the values of a pixel side by side.

The weights of a ray are computed once, and multiply one row of numbers for all images. Some rows of
pixels, and of these some rows or views at a time, are computed: few bytes, which stay in the cache.

B images, A angles, V views, D detectors, R rows and C columns of pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ._rays import Beam, paths

_BYTES = 2**17
"""Bytes of rows of images, in all poses, that a thread prepares at a time."""
_ROOM = 3 * 2**17
"""Bytes of weights and indices that a thread computes at a time, at least of one row and view."""
_ON_GPU = 2**8
"""A GPU computes as much at a time as so many threads, because it waits for each step."""


class Images(Protocol):
    """Images whose rows are read some at a time."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return B, N0 and N1."""

    def rows(self, axis: int, part: slice) -> Tensor | Iterator[Tensor]:
        """Return pixels along ``axis``, at some indices along the other axis, of each: (R, N)."""


def line_integrals_of_many(images: Images, beam: Beam, axes: Sequence[int], like: Tensor) -> Tensor:
    """Return the line integrals of images along rays that cross rows along ``axes``, (B, A, D)."""
    n_images, size0, size1 = images.shape
    n_views, n_detectors, longest = len(beam.angles), beam.n_detectors, max(size0, size1)
    width = longest + 3
    parts = _parts(longest, len(axes) * n_images * width, like)
    most = n_detectors * parts[0].stop
    n_numbers = _n_numbers(like, like.itemsize + 4, most, n_views * most)
    sums = like.new_zeros(n_views, n_detectors, n_images)
    step = n_numbers // most
    views = [*paths(beam, like.dtype, step)]
    for part in parts:
        n_rows = part.stop - part.start
        values = _side_by_side(images, axes, part, like, width)
        row = torch.arange(part.start, part.stop, dtype=like.dtype, device=like.device)
        start = width * torch.arange(n_rows, dtype=torch.int32, device=like.device)
        bags, done = _bags(step * n_detectors, n_rows, start), 0
        for path in views:
            first, slope, length, is_turned = (numbers.unsqueeze(2) for numbers in path)
            target = sums[done : done + len(first)]
            at = torch.addcmul(first, row, slope).clamp_(0, longest + 1)
            index = at.int().add_(start)
            if len(axes) == 2:
                index += is_turned.int() * (n_rows * width)
            fraction = at.frac_()  # of the pixel on the right
            sums_of_rows = _summed(values[1:], index, bags, fraction)
            sums_of_rows -= _summed(values, index, bags, fraction.sub_(1))
            target.addcmul_(sums_of_rows, length)
            done += len(first)
    return sums.permute(2, 0, 1).contiguous()


def back_projection_onto_rows_of_many(
    lines: Tensor, lengths: Tensor, beam: Beam, x0: Tensor, x1: Tensor, reach: int
) -> Iterator[tuple[slice, Tensor]]:
    """Yield rows and the back projection there of lines, (B, A, D), with lengths: (B, R, C)."""
    n_images, n_views, n_detectors = lines.shape
    n_columns, dtype = len(x1), lines.dtype
    tables = beam.tables(x0, x1, reach, dtype).views_last()
    start = tables.start
    assert start is not None
    n_bytes = 2 * dtype.itemsize + start.itemsize
    n_numbers = _n_numbers(lines, n_bytes, n_columns, n_views * n_columns * len(x0))
    padded = lines.new_zeros(n_views, n_detectors + 2 * reach, n_images)
    torch.mul(lines.permute(1, 2, 0), lengths.unsqueeze(2), out=padded[:, reach:-reach])
    values = padded.flatten(0, 1)
    del lines  # which has no other name
    views_at_once = min(n_views, n_numbers // n_columns)
    rows_at_once = n_numbers // (n_columns * views_at_once)
    parts = _parts(len(x0), n_images * n_columns, values)
    groups = [
        (views, _bags(rows_at_once * n_columns, views.stop - views.start, start))
        for views in blocks(n_views, views_at_once)
    ]
    for part in parts:
        images = values.new_zeros(part.stop - part.start, n_columns, n_images)
        for some in blocks(len(images), rows_at_once):
            rows, target = slice(part.start + some.start, part.start + some.stop), images[some]
            for views, bags in groups:
                near = beam.near(tables.part(rows, views), reach)
                for k in range(1, 2 * reach + 1):
                    target += _summed(values[k:], near.before, bags, near.weight(k))
        yield part, images.permute(2, 0, 1)


def blocks(size: int, step: int) -> Iterator[slice]:
    """Yield the parts of an axis; each part has at least one place."""
    step = max(1, step)
    return (slice(at, min(at + step, size)) for at in range(0, size, step))


def _parts(size: int, n_of_row: int, like: Tensor) -> list[slice]:
    """Return parts of the rows of images; each row has ``n_of_row`` numbers."""
    return [*blocks(size, _BYTES * _n_threads(like) // (n_of_row * like.itemsize))]


def _n_numbers(like: Tensor, n_bytes: int, least: int, most: int) -> int:
    """Return how many numbers, of ``n_bytes`` each, to compute at a time."""
    return max(least, min(most, _ROOM * _n_threads(like) // n_bytes))


def _n_threads(values: Tensor) -> int:
    return torch.get_num_threads() if values.is_cpu else _ON_GPU


def _side_by_side(
    images: Images, axes: Sequence[int], part: slice, like: Tensor, width: int
) -> Tensor:
    """Return rows with zeros about them, (n, B); those along axis 0 before those along axis 1."""
    values = like.new_zeros(len(axes), part.stop - part.start, width, images.shape[0])
    for by_axis, axis in zip(values, axes, strict=True):
        for number, rows in enumerate(images.rows(axis, part)):
            by_axis[: len(rows), 1 : 1 + rows.shape[1], number] = rows
    return values.flatten(0, 2)


def _bags(n_bags: int, size: int, like: Tensor) -> Tensor:
    """Return the index of the first element of each bag of elements."""
    return size * torch.arange(n_bags, dtype=like.dtype, device=like.device)


def _summed(values: Tensor, index: Tensor, bags: Tensor, weight: Tensor) -> Tensor:
    """Return sums over the last axis of indices of values (n, B), with weights: (., ., B)."""
    shape = index.shape[:2]
    sums = embedding_bag(
        index.view(-1),
        values,
        offsets=bags[: shape.numel()],
        mode="sum",
        per_sample_weights=weight.view(-1),
    )
    result: Tensor = sums.unflatten(0, shape)
    return result
