r"""Line integrals of a voxel grid by Joseph's method, and their adjoint.

A ray is followed along the axis to which it is closest. In each plane of voxels across that axis
the volume is interpolated bilinearly, and each value is weighted by the length of the ray between
two planes. The adjoint adds the same products to the voxels.

B volumes, R rays, P planes; X Y Z voxels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import grid_sample, pad

from linops_core.siblings import can_read_values, is_plain, is_recorded

_AT_ONCE, _ON_GPU = 2**18, 2**22
"""Numbers of points in planes that are computed at a time."""


class RayLines(NamedTuple):
    """The lines of the rays of some views, in float64; index 0 is at the first voxel of an axis."""

    start: Tensor
    """Index of a point of each ray, (R, 3)."""
    step: Tensor
    """Direction of each ray, (R, 3), of any length."""


class AxisRays(NamedTuple):
    """Rays that are followed along one axis, in the dtype of the volume."""

    axis: int
    rays: Tensor | None
    """Numbers of the rays, or None for all."""
    first: Tensor
    """Place in plane 0 along the two other axes, the last one first, (R, 2), from -1 to 1."""
    step: Tensor
    """From one plane to the next, (R, 2)."""
    length: Tensor
    """Of a ray between two planes, (R,); 0 for rays that are closer to another axis."""


def rays_by_axis(lines: RayLines, sizes: Sequence[int], dtype: torch.dtype) -> Iterator[AxisRays]:
    """Yield the rays along each axis; those that cross the volume if their values are known."""
    start, step = (t.unbind(1) for t in lines)
    norm = torch.linalg.vector_norm(lines.step, dim=1)
    is_known = can_read_values(*lines) and is_constant(*lines)
    size_0, size_1, size_2 = (t.abs() for t in step)
    is_last = (size_2 > size_0) & (size_2 > size_1)
    is_second = (size_1 > size_0) & ~is_last
    for axis, is_along in enumerate((~(is_second | is_last), is_second, is_last)):
        rays, own_start, own_step, own_norm = None, start, step, norm
        if is_known:
            rays = is_along.nonzero().squeeze(1)
            if len(rays) < len(norm):
                *both, own_norm = (t.index_select(0, rays) for t in (*start, *step, norm))
                own_start, own_step = tuple(both[:3]), tuple(both[3:])
            along = own_step[axis]
        else:
            # Rays along other axes may not divide by zero.
            along, own_norm = torch.where(is_along, step[axis], 1), torch.where(is_along, norm, 0)
        inverse = 1 / along
        points, shifts, misses = [], [], []
        for other in (2, 1, 0):
            if other == axis:
                continue
            slope = own_step[other] * inverse
            first = torch.addcmul(own_start[other], own_start[axis], slope, value=-1)
            last = first + slope * (sizes[axis] - 1)
            low, high = torch.minimum(first, last), torch.maximum(first, last)
            # Comparisons with NaN are false: such a ray stays.
            misses.append((high <= -1) | (low >= sizes[other]))
            # NaN has no place among the voxels; the lengths of these rays are NaN already.
            scale = 2 / max(sizes[other], 1)
            points.append(((first + 0.5) * scale - 1).nan_to_num().to(dtype))
            shifts.append((slope * scale).nan_to_num().to(dtype))
        length = (own_norm * inverse.abs()).to(dtype)
        group = AxisRays(axis, rays, torch.stack(points, 1), torch.stack(shifts, 1), length)
        if rays is not None:
            crosses = (~(misses[0] | misses[1])).nonzero().squeeze(1)
            if not len(crosses):
                continue
            if len(crosses) < len(rays):
                group = AxisRays(axis, *(t.index_select(0, crosses) for t in (rays, *group[2:])))
        yield group


def _planes(group: AxisRays, size: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield some planes at a time, all in a graph, and the points of the rays there, (P, R, 2)."""
    most = _AT_ONCE if group.first.is_cpu else _ON_GPU
    n = size if torch.compiler.is_compiling() else max(1, most // (2 * len(group.first)))
    number = torch.arange(size, dtype=group.first.dtype, device=group.first.device)
    for at in range(0, size, n):
        part = number[at : at + n]
        points = torch.addcmul(group.first, part.view(-1, 1, 1), group.step)
        yield slice(at, at + len(part)), points


def volume_line_integrals(x: Tensor, lines: RayLines) -> Tensor:
    """Return the line integrals of volumes (B, X, Y, Z), (B, R)."""
    function = _interpolated if is_constant(x, *lines) else _interpolated_and_recorded
    result = x.new_zeros(len(x), len(lines.start))
    for group in rays_by_axis(lines, x.shape[1:], x.dtype):
        by_plane = x.movedim(group.axis + 1, 0)
        parts = [
            function(by_plane[planes], points).sum(0)
            for planes, points in _planes(group, len(by_plane))
        ]
        sums = reduce(torch.add, parts) * group.length
        result = result + sums if group.rays is None else result.index_add_(1, group.rays, sums)
    return result


def add_back_projection(volume: Tensor, y: Tensor, lines: RayLines) -> Tensor:
    """Return volumes (B, X, Y, Z) plus the back projection of values of rays (B, R)."""
    may_write = is_constant(volume, y, *lines)
    function = _spread if may_write else _spread_and_recorded
    for group in rays_by_axis(lines, volume.shape[1:], volume.dtype):
        values = (y if group.rays is None else y.index_select(1, group.rays)) * group.length
        sizes = [size for axis, size in enumerate(volume.shape[1:]) if axis != group.axis]
        for planes, points in _planes(group, volume.shape[group.axis + 1]):
            part = function(values.expand(len(points), -1, -1), points, sizes)
            part = part.movedim(0, group.axis + 1)
            n = planes.stop - planes.start
            if may_write:
                volume.narrow(group.axis + 1, planes.start, n).add_(part)
            else:
                after = volume.shape[group.axis + 1] - planes.stop
                ends = (0, 0) * (2 - group.axis) + (planes.start, after)
                volume = volume + pad(part, ends)
    return volume


def is_constant(*tensors: Tensor) -> bool:
    """Return whether neither autograd nor a transform records the tensors.

    During memory planning, tensors without data count like those that they represent.
    """
    return is_plain(*tensors) and not is_recorded(*tensors)


def _interpolated(x: Tensor, points: Tensor) -> Tensor:
    """Return images (P, B, H, W) at points (P, R, 2) from -1 to 1, with 0 outside: (P, B, R)."""
    return grid_sample(x, points.unsqueeze(1), align_corners=False).squeeze(2)


def _spread(y: Tensor, points: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the adjoint of :func:`_interpolated` applied to (P, B, R): (P, B, *sizes)."""
    x = y.new_zeros(()).expand(*y.shape[:2], *sizes)
    gradient = torch.ops.aten.grid_sampler_2d_backward
    wants = [True, False]
    result: Tensor = gradient(y.unsqueeze(2), x, points.unsqueeze(1), 0, 0, False, wants)[0]
    return result


# torch has no forward derivatives and no second derivatives of the functions above.


def _interpolated_and_recorded(x: Tensor, points: Tensor) -> Tensor:
    padded = pad(x, (1, 2, 1, 2)).flatten(2)
    parts = [
        padded.gather(2, index.expand(-1, x.shape[1], -1)) * weight
        for index, weight in _corners(points, x.shape[2:])
    ]
    return reduce(torch.add, parts)


def _spread_and_recorded(y: Tensor, points: Tensor, sizes: Sequence[int]) -> Tensor:
    height, width = sizes
    total: Tensor = y.new_zeros(*y.shape[:2], (height + 3) * (width + 3))
    for index, weight in _corners(points, sizes):
        total = total.scatter_add(2, index.expand_as(y), y * weight)
    images: Tensor = total.unflatten(2, (height + 3, width + 3))
    return images[:, :, 1:-2, 1:-2]


def _corners(points: Tensor, sizes: Sequence[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the indices of pixels around points, with zeros about the image, and their weights."""
    height, width = sizes
    numbers = points.new_tensor([width, height])
    at = torch.minimum((((points + 1) * numbers - 1) / 2).clamp(min=-1), numbers)
    low = at.detach().floor()
    fraction = (at - low).unsqueeze(1)
    column, row = (low + 1).long().unsqueeze(1).unbind(3)
    right, below = fraction.unbind(3)
    for down, of_row in ((0, 1 - below), (1, below)):
        for over, of_column in ((0, 1 - right), (1, right)):
            yield (row + down) * (width + 3) + column + over, of_row * of_column
