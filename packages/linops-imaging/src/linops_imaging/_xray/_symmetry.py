r"""Views that are mirror images of each other share their rays and weights.

With T the turn of an image by 90 degrees, and M its mirror image along axis 0, a view at the angle
:math:`\theta` of a square image x is

.. math:: p_{\theta + \pi / 2}(x) = p_\theta(T x), \qquad
    p_{-\theta}(x)_d = p_\theta(M x)_{D - 1 - d}.

So each view is a view of the image in one of 8 poses, at an angle between 0 and 45 degrees. (For
images that are not square: 4 poses, and 90 degrees. If the middle of the detectors is not on the
middle ray: half as many poses, and twice the angle.) Equally spaced angles need few such views, and
one view of several images takes less time than several views of one image.

A views of D detectors, S shared views, P poses, B images.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from linops_core.siblings import can_read_values

from ._joseph import (
    MOST_IMAGES,
    back_projection,
    back_projection_onto_rows,
    line_integrals,
    line_integrals_of_rows,
)
from ._many_images import blocks
from ._rays import Beam, axes_of_rows, images_and_beam_are_fixed, tables_at_once, value_of

# Bytes of the images, in all poses, that are computed at a time.
_BYTES = 2**24


def line_integrals_by_symmetry(x: Tensor, beam: Beam, known: SharedViews | None = None) -> Tensor:
    """Return the line integrals of real images (B, N0, N1), (B, A, D).

    ``known`` is used if the angles have no values: how their views are grouped.
    """
    shared = _shared_views(beam, x, x.shape[1:], known)
    if shared is None:
        return line_integrals(x, beam)
    few = beam._replace(angles=shared.angles)
    parts = []
    for images in x.split(shared.n_images):
        posed = PosedImages(images, shared.poses)
        of_poses = line_integrals_of_rows(posed, few, images, shared.planned_axes)
        of_poses = of_poses.unflatten(0, (len(images), -1)).flatten(1, 2)
        part = of_poses.new_empty(len(images), len(shared.number), beam.n_detectors)
        for views in blocks(len(shared.number), tables_at_once(of_poses)):
            some, is_mirrored = (
                of_poses.index_select(1, shared.number[views]),
                shared.is_mirrored[views],
            )
            torch.where(is_mirrored, some.flip(2), some, out=part[:, views])
        parts.append(part)
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def back_projection_by_symmetry(
    y: Tensor, beam: Beam, sizes: Sequence[int], known: SharedViews | None = None
) -> Tensor:
    """Return the adjoint of :func:`line_integrals_by_symmetry`: images (B, *sizes)."""
    shared = _shared_views(beam, y, sizes, known)
    if shared is None:
        return back_projection(y, beam, sizes)
    few, n_poses = beam._replace(angles=shared.angles), len(shared.poses)
    result = y.new_zeros(len(y), *sizes)
    for lines, images in zip(y.split(shared.n_images), result.split(shared.n_images), strict=True):
        for rows, posed in back_projection_onto_rows(
            _by_pose(lines, shared), few, sizes, len(lines)
        ):
            owns = posed.unflatten(0, (-1, n_poses)).unbind(1)
            for pose, turned in zip(shared.poses, owns, strict=True):
                pose.at(images, 0, rows).add_(pose.back(turned))
    return result


def _by_pose(lines: Tensor, shared: SharedViews) -> Tensor:
    """Return lines (B, A, D) as lines of the shared views of each pose, (B P, S, D)."""
    n_views = len(shared.angles)
    result = lines.new_zeros(len(lines), len(shared.poses) * n_views, lines.shape[2])
    for views in blocks(len(shared.number), tables_at_once(result)):
        some, is_mirrored = lines[:, views], shared.is_mirrored[views]
        result.index_add_(1, shared.number[views], torch.where(is_mirrored, some.flip(2), some))
    return result.view(-1, n_views, lines.shape[2])


class Pose(NamedTuple):
    """A turn of images by quarters, after which they may be mirrored."""

    n_quarters: int
    is_mirrored: bool

    def of(self, images: Tensor) -> Tensor:
        """Return images (B, N0, N1) in this pose."""
        turned = images.rot90(-self.n_quarters, (1, 2))
        return turned.flip(1) if self.is_mirrored else turned

    def back(self, images: Tensor) -> Tensor:
        """Return images as they were before they were brought into this pose."""
        upright = images.flip(1) if self.is_mirrored else images
        return upright.rot90(self.n_quarters, (1, 2))

    def at(self, images: Tensor, axis: int, part: slice) -> Tensor:
        """Return the view of images (B, N0, N1) that is at ``part`` of an axis in this pose."""
        image_axis = (axis + self.n_quarters) % 2 + 1
        is_reversed = self.n_quarters in ((2, 3) if axis == 0 else (1, 2))
        is_reversed ^= self.is_mirrored and axis == 0
        size = images.shape[image_axis]
        start, stop, _ = part.indices(size)
        return images.narrow(image_axis, size - stop if is_reversed else start, stop - start)


class PosedImages(NamedTuple):
    """Images (B, N0, N1) in each of some poses, the poses of an image in turn."""

    images: Tensor
    poses: Sequence[Pose]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return B P, N0 and N1; poses do not change the sizes."""
        n_images, size0, size1 = self.images.shape
        return n_images * len(self.poses), size0, size1

    def rows(self, axis: int, part: slice) -> Iterator[Tensor]:
        """Yield the lines along ``axis`` at a part of the other axis, image by image: (R, N)."""
        for image in self.images.split(1):
            for pose in self.poses:
                (posed,) = pose.of(pose.at(image, 1 - axis, part))
                yield posed if axis else posed.mT


class SharedViews(NamedTuple):
    """The views that are computed, and for each view of a beam its number among them."""

    angles: Tensor
    """(S,), float64."""
    poses: Sequence[Pose]
    number: Tensor
    """Number of the pose, times S, plus the number of the shared view, (A,)."""
    is_mirrored: Tensor
    """(A, 1)."""
    n_images: int = 0
    """How many images to take at a time."""
    planned_axes: tuple[int, ...] = (0, 1)
    """The axes of rows that the shared rays cross, for a beam without values."""


def _shared_views(
    beam: Beam, values: Tensor, sizes: Sequence[int], known: SharedViews | None = None
) -> SharedViews | None:
    """Return the views that are shared, or None where that does not save time."""
    if not images_and_beam_are_fixed(values, beam) or not len(values):
        return None
    can_read = can_read_values(beam.angles)
    shared = _views_alike(beam, sizes, values.dtype) if can_read else known
    if shared is None or len(shared.number) != len(beam.angles):
        return None
    n_angles, n_poses, n_images = len(beam.angles), len(shared.poses), len(values)
    most = min(MOST_IMAGES, _BYTES // (math.prod(sizes) * values.itemsize))
    # Each step computes the rays of one view, for this number of images at most.
    n_at_once = most // n_poses
    if not n_at_once:
        return None
    n_steps = len(shared.angles) * math.ceil(n_images / n_at_once)
    if n_steps >= n_angles * math.ceil(n_images / MOST_IMAGES):
        return None
    angles, number, is_mirrored = (
        t.to(values.device) if can_read else values.new_empty(t.shape, dtype=t.dtype)
        for t in (shared.angles, shared.number, shared.is_mirrored)
    )
    return SharedViews(angles, shared.poses, number, is_mirrored, n_at_once, shared.planned_axes)


def planned_views(beam: Beam, sizes: Sequence[int]) -> SharedViews | None:
    """Return what memory planning must know of the angles of a beam with values."""
    is_fixed = images_and_beam_are_fixed(beam.angles, beam)
    shared = _views_alike(beam, sizes, torch.float32) if is_fixed else None
    if shared is None:
        return None
    axes = axes_of_rows(beam._replace(angles=shared.angles.to(beam.angles.device)))
    return shared._replace(planned_axes=axes)


def _views_alike(beam: Beam, sizes: Sequence[int], dtype: torch.dtype) -> SharedViews | None:
    """Return the groups of views that are alike, or None where that is not known."""
    if any(value_of(at) != (n - 1) / 2 for at, n in zip(beam.origin, sizes, strict=True)):
        return None  # a turn about the middle of the image is not one about the origin
    is_square, may_mirror = sizes[0] == sizes[1], value_of(beam.offset) == 0
    return _grouped(beam.angles, is_square, may_mirror, torch.finfo(dtype).eps)


def _grouped(
    angles: Tensor, is_square: bool, may_mirror: bool, accuracy: float
) -> SharedViews | None:
    """Return the shared angles, the poses, and the number and mirroring of each view.

    None where an angle is not finite, or so large that its remainder has few digits.
    """
    theta, digits = angles.detach().double().cpu(), torch.finfo(torch.float64).eps
    closest = 4 * (accuracy + digits)
    if not len(theta) or not theta.abs().max() * digits <= closest:
        return None
    n_quarters = 1 if is_square else 2
    quarters = theta / (n_quarters * math.pi / 2)
    # Angles just below a turn belong to it, too.
    turns = quarters.round() if may_mirror else (quarters + 1e-3).floor()
    rest = theta - turns * (n_quarters * math.pi / 2)
    is_mirrored = (rest < 0) & may_mirror
    # Angles that differ by rounding only are replaced by their mean.
    ordered, order = torch.where(is_mirrored, -rest, rest).sort()
    group = (ordered.diff(prepend=ordered[:1]) > closest).cumsum(0)
    n = int(group[-1]) + 1
    means = theta.new_zeros(n).index_add_(0, group, ordered) / group.bincount()
    if (ordered - means[group]).abs().max() > closest:
        return None
    view = torch.empty_like(order).index_copy_(0, order, group)
    codes, pose = (turns.long() * n_quarters % 4 * 2 + is_mirrored).unique(return_inverse=True)
    poses = [Pose(code // 2, bool(code % 2)) for code in codes.tolist()]
    return SharedViews(means, poses, pose * n + view, is_mirrored.unsqueeze(1))
