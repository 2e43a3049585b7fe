"""The geometry of rays and pixels that a beam defines, for all views or some at a time.

V views, A angles, D detectors, R rows and C columns of pixels, N0 and N1 pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, Self, TypeAlias

import torch
from torch import Tensor

from linops_core.siblings import can_read_values

from ._plane_by_plane import is_constant

_VIEWS, _VIEWS_ON_GPU = 16, 256
"""Views computed at a time; each needs a float64 number for each ray."""
_NUMBERS_ON_GPU = 2**22
"""Numbers that a GPU computes at a time, because it waits for the start of each step."""

Number: TypeAlias = float | Tensor
"""A length; a tensor has no dimensions and may have a gradient."""


class Rays(NamedTuple):
    """The rays of some views in float64, (V, D), or (V, 1) for parallel rays."""

    cosine: Tensor
    sine: Tensor
    offset: Tensor
    """c, (V, D) or (1, D)."""

    def is_turned(self) -> Tensor:
        """Return whether the rows of pixels that are interpolated are those along axis 1."""
        return self.cosine.abs() < self.sine.abs()

    def main(self) -> Tensor:
        """Return m, with its sign."""
        return torch.where(self.is_turned(), self.sine, self.cosine)


class ViewTables(NamedTuple):
    """Numbers of views, of their rows and of their columns of pixels.

    They broadcast to (V, R, C), or to (R, C, V) after :meth:`views_last`.
    """

    numbers: tuple[Tensor, ...]
    start: Tensor | None
    """Index of the first ray of each view, or None for one view."""
    scales: Tensor | None = None
    """One number for each ray, view after view."""
    tangents: Tensor | None = None
    """Another number for each ray, where rays are not equally spaced on a line."""

    def of_views(self, views: slice) -> ViewTables:
        """Return the tables of some views, whose first ray has the index 0."""
        numbers = tuple([table[views] for table in self.numbers])
        n_views, n_views_of_part = len(self.numbers[0]), len(numbers[0])
        scales, tangents = (
            None if of_rays is None else of_rays.unflatten(0, (n_views, -1))[views].flatten()
            for of_rays in (self.scales, self.tangents)
        )
        start = None if n_views_of_part == 1 or self.start is None else self.start[:n_views_of_part]
        return ViewTables(numbers, start, scales, tangents)

    def of_rows(self, rows: slice) -> ViewTables:
        """Return the tables of some rows of pixels."""
        return self._replace(numbers=_parts(self.numbers, 1, rows))

    def views_last(self) -> ViewTables:
        """Return the tables with their first axis last.

        Numbers of views are repeated for all columns, because operations on long rows are faster.
        """
        assert self.start is not None
        n_columns = max(table.shape[2] for table in self.numbers)
        *numbers, start = [
            (table.expand(-1, -1, n_columns) if table.shape[1] == 1 else table)
            .movedim(0, 2)
            .contiguous()
            for table in (*self.numbers, self.start)
        ]
        return self._replace(numbers=tuple(numbers), start=start)

    def part(self, rows: slice, views: slice) -> ViewTables:
        """Return the tables of some rows and some views, which are last."""
        assert self.start is not None
        numbers = _parts(_parts(self.numbers, 0, rows), 2, views)
        return self._replace(numbers=numbers, start=self.start[..., views])


def _parts(tables: Sequence[Tensor], axis: int, part: slice) -> tuple[Tensor, ...]:
    """Return the part of an axis of each table that has this axis, and not this part alone."""
    n = part.stop - part.start
    return tuple([t if t.shape[axis] in (1, n) else t.narrow(axis, part.start, n) for t in tables])


class NearRays(NamedTuple):
    """The rays near pixels, of some views."""

    before: Tensor
    """Index of the ray before the first one near a pixel; add 1 to 2 reach to get the near ones.

    The index of a detector is its number plus the reach, plus the first index of its view.
    """
    weight: Callable[[int], Tensor]
    """Returns h for the ray k further, of the shape of ``before``; arbitrary without a detector."""


class Beam(Protocol):
    """The geometry of the rays of a scan."""

    @property
    def angles(self) -> Tensor:
        """Return the angles of the views, (A,)."""

    @property
    def n_detectors(self) -> int:
        """Return D."""

    @property
    def offset(self) -> Number:
        """Return the place of the middle of the detectors."""

    @property
    def origin(self) -> Sequence[Number]:
        """Return the index of the pixel at the origin, along both axes."""

    @property
    def spacing(self) -> Number:
        """Return the distance between neighbouring detectors."""

    def _replace(self, *, angles: Tensor) -> Self:
        """Return the same beam at other angles."""

    def reach(self, sizes: Sequence[int]) -> int:
        """Return how many rays to each side are less than a pixel away from any pixel, at most."""

    def rays(self) -> Iterator[Rays]:
        """Yield the rays, of some views at a time."""

    def tables(self, x0: Tensor, x1: Tensor, reach: int, dtype: torch.dtype) -> ViewTables:
        """Return the tables for pixels at coordinates x0 of rows and x1 of columns, in float64."""

    def near(self, tables: ViewTables, reach: int) -> NearRays:
        """Return the rays near pixels."""


def value_of(number: Number) -> float:
    """Return a length as a number without a gradient."""
    return float(number.detach() if isinstance(number, Tensor) else number)


def tables_at_once(values: Tensor) -> int:
    """Return for how many views to compute the numbers of all rays at a time."""
    return _VIEWS if values.is_cpu else _VIEWS_ON_GPU


def views_at_once(values: Tensor, n_numbers: int) -> int:
    """Return how many views, of ``n_numbers`` each, to compute at a time; one on a CPU."""
    return 1 if values.is_cpu else max(1, _NUMBERS_ON_GPU // n_numbers)


def paths(
    beam: Beam, dtype: torch.dtype, n_views: int
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Yield the positions of the rays of at most ``n_views`` in row 0, in pixels from the padding.

    Also yield the step from one row to the next, the length of a ray between two rows, and whether
    the rows are those along axis 1.
    """
    origin0, origin1 = beam.origin
    for rays in beam.rays():
        is_turned, main = rays.is_turned(), rays.main()
        slope = -torch.where(is_turned, rays.cosine, rays.sine) / main
        turned = is_turned.double()
        along = origin1 + turned * (origin0 - origin1)
        first = rays.offset / main - slope * along + (origin0 + origin1 - along + 1)
        # NaN cannot become an index; the lengths of these rays are NaN already.
        first, slope = (part.to(dtype).nan_to_num() for part in (first, slope))
        numbers = first, slope, (1 / main.abs()).to(dtype), is_turned
        # torch 2.15 does not compile a generator that ends with `yield from`.
        for path in zip(*[number.split(n_views) for number in numbers], strict=True):  # noqa: UP028
            yield path


def axes_of_rows(beam: Beam, otherwise: tuple[int, ...] = (0, 1)) -> tuple[int, ...]:
    """Return the axes of the rows of pixels that the rays cross: 0, 1, both or none.

    Without values, in memory planning, it is ``otherwise``.
    """
    turned = torch.cat([rays.is_turned().flatten() for rays in beam.rays()])
    return tuple(turned.int().unique().tolist()) if can_read_values(turned) else otherwise


def images_and_beam_are_fixed(images: Tensor, beam: Beam) -> bool:
    """Return whether neither autograd nor a transform records the images and the angles.

    During memory planning, tensors without data count like those that they represent.
    """
    numbers = (beam.angles, beam.spacing, beam.offset, *beam.origin)
    tensors = [images, *[number for number in numbers if isinstance(number, Tensor)]]
    return is_constant(*tensors)


def hat(t: Tensor) -> Tensor:
    """Return h(t) = max(0, 1 - |t|); t is overwritten."""
    return t.abs_().neg_().add_(1).relu_()


def centred(size: int, like: Tensor) -> Tensor:
    """Return 0, ..., size - 1 minus their mean."""
    return torch.arange(size, dtype=like.dtype, device=like.device) - (size - 1) / 2


def coordinates(beam: Beam, sizes: Sequence[int]) -> list[Tensor]:
    """Return the coordinates of the rows and of the columns of pixels, in float64."""
    device, dtype = beam.angles.device, torch.float64
    return [
        torch.arange(size, dtype=dtype, device=device) - origin
        for size, origin in zip(sizes, beam.origin, strict=True)
    ]
