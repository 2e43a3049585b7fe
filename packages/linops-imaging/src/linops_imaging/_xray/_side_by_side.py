"""Line integrals of many images and their adjoint, with the values of a pixel side by side.

The weights of a ray are computed once, and multiply one row of numbers for all images. Some rows of
pixels, and of these some rows or views at a time, are computed: few bytes, which stay in the cache.

B images, A angles, V views, D detectors, R rows and C columns of pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ._rays import Beam, paths

_BYTES = 2**18
"""Bytes of rows of images, in all poses, that a thread prepares at a time."""
_NUMBERS = 2**16
"""Weights that a thread computes at a time, at least those of one row and one view."""
_ON_GPU = 2**8
"""A GPU computes as much at a time as so many threads, because it waits for each step."""


class Images(Protocol):
    """Images whose rows are read some at a time."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return B, N0 and N1."""

    def rows(self, axis: int, part: slice) -> Iterator[Tensor]:
        """Yield pixels along ``axis``, of some places along the other axis, of each: (R, N)."""


def _n_threads(values: Tensor) -> int:
    return torch.get_num_threads() if values.is_cpu else _ON_GPU


def integrals_of_many(images: Images, beam: Beam, axes: Sequence[int], like: Tensor) -> Tensor:
    """Return the line integrals of images along rays that cross rows along ``axes``, (B, A, D)."""
    n_images, size0, size1 = images.shape
    longest = max(size0, size1)
    width = longest + 3
    sums, n_threads = like.new_zeros(len(beam.angles), beam.n_detectors, n_images), _n_threads(like)
    n_bytes, n_numbers = _BYTES * n_threads, _NUMBERS * n_threads
    views = [*paths(beam, size0, size1, like.dtype)]
    for part in blocks(longest, n_bytes // (len(axes) * n_images * width * like.itemsize)):
        values, n_rows = _side_by_side(images, axes, part, like), part.stop - part.start
        row = torch.arange(part.start, part.stop, dtype=like.dtype, device=like.device)
        start = width * torch.arange(n_rows, dtype=torch.int32, device=like.device)
        step, done = max(1, n_numbers // (n_rows * beam.n_detectors)), 0
        split = (zip(*[table.split(step) for table in own], strict=True) for own in views)
        for path in chain.from_iterable(split):
            first, slope, length, is_turned = (numbers.unsqueeze(2) for numbers in path)
            at = torch.addcmul(first, row, slope).clamp_(0, longest + 1)
            index = at.int()
            index += start
            if len(axes) == 2:
                index += is_turned.int() * (n_rows * width)
            right = at.frac_()
            found = _summed(values, index, 1 - right).add_(_summed(values[1:], index, right))
            sums[done : done + len(first)].addcmul_(found, length)
            done += len(first)
    return sums.permute(2, 0, 1).contiguous()


def onto_rows_of_many(
    lines: Tensor, beam: Beam, x0: Tensor, x1: Tensor, reach: int
) -> Iterator[tuple[slice, Tensor]]:
    """Yield rows and the back projection there of (B, A, reach + D + reach): (B, R, C).

    The next rows are written into the same memory.
    """
    n_images, n_views, _ = lines.shape
    values = lines.permute(1, 2, 0).contiguous().flatten(0, 1)
    del lines  # which has no other name
    tables = beam.tables(x0, x1, reach, values.dtype).views_last()
    n_columns, n_threads = len(x1), _n_threads(values)
    n_bytes, n_numbers = _BYTES * n_threads, _NUMBERS * n_threads
    views_at_once = max(1, n_numbers // n_columns)
    rows_at_once = n_numbers // (n_columns * min(n_views, views_at_once))
    parts = [*blocks(len(x0), n_bytes // (n_images * n_columns * values.itemsize))]
    memory = values.new_empty(parts[0].stop, n_columns, n_images)
    for part in parts:
        images = memory[: part.stop - part.start].zero_()
        for own in blocks(len(images), rows_at_once):
            rows = slice(part.start + own.start, part.start + own.stop)
            for views in blocks(n_views, views_at_once):
                near = beam.near(tables.part(rows, views), reach)
                for k in range(1, 2 * reach + 1):
                    images[own].add_(_summed(values[k:], near.before, near.weight(k)))
                del near  # before the next one is made
        yield part, images.permute(2, 0, 1)


def blocks(size: int, step: int) -> Iterator[slice]:
    """Yield parts of an axis of at least one place."""
    step = max(1, step)
    return (slice(at, min(at + step, size)) for at in range(0, size, step))


def _side_by_side(images: Images, axes: Sequence[int], part: slice, like: Tensor) -> Tensor:
    """Return rows with zeros about them, (n, B); those along axis 0 before those along axis 1."""
    n_images, *sizes = images.shape
    width, n_rows = max(sizes) + 3, part.stop - part.start
    values = like.new_zeros(len(axes), n_rows, width, n_images)
    for by_axis, axis in zip(values, axes, strict=True):
        for number, rows in enumerate(images.rows(axis, part)):
            by_axis[: len(rows), 1 : 1 + rows.shape[1], number] = rows
    return values.flatten(0, 2)


def _summed(values: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Return sums over the last axis of indices of values (n, B), with weights: (., ., B)."""
    bags, weights = index.flatten(0, 1), weight.flatten(0, 1)
    sums = embedding_bag(bags, values, mode="sum", per_sample_weights=weights)
    result: Tensor = sums.unflatten(0, index.shape[:2])
    return result
