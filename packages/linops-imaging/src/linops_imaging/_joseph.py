r"""Line integrals of a pixel grid by Joseph's method, and their adjoint.

A ray is followed along the axis to which it is closer, the main axis: in each row of pixels across
it the image is interpolated linearly, and counts with the length of the ray between two rows,

.. math:: p = \frac{1}{|m|} \sum_j \sum_i h(u_j - i) \, x_{ij}, \qquad h(t) = \max(0, 1 - |t|),

for the cosine m of the angle between ray and main axis, and the position :math:`u_j` in row j.
The adjoint gathers the same products from the rays: as many of them are next to a pixel as the hat
h covers. Neither adds into memory at random, so both give the same bits on every run.

B images, A angles, D detectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad


class View(NamedTuple):
    """Parallel rays of one direction, as the rows of pixels across the main axis see them.

    Scalars, but in tensors, so that no value has to come from another device.
    """

    across: Tensor
    """The axis across the main one, (0,) or (1,)."""
    main: Tensor
    """Cosine of the angle between the rays and the main axis, with a sign."""
    cross: Tensor
    """The cosine to the other axis."""

    def of(self, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the number of pixels of a row, and of rows, in images of these sizes."""
        one, other = sizes
        is_turned = self.across > 0
        return torch.where(is_turned, other, one), torch.where(is_turned, one, other)


def views(angles: Tensor) -> Iterator[View]:
    """Yield the view of each angle: detectors along (cos, sin), rays along (-sin, cos)."""
    cosine, sine = angles.double().cos(), angles.double().sin()
    turned = cosine.abs() < sine.abs()
    main, cross = torch.where(turned, sine, cosine), torch.where(turned, cosine, sine)
    return map(View, turned.long().unsqueeze(1).unbind(), main.unbind(), cross.unbind())


def projected(x: Tensor, angles: Tensor, n_detectors: int, spacing: float) -> Tensor:
    """Return the line integrals of real images (B, N0, N1), (B, A, D)."""
    sizes, longest = x.shape[1:], max(x.shape[1:])
    # The rows of pixels across axis 1 and across axis 0, with zeros about them.
    rows = torch.stack([_padded(x.mT, longest), _padded(x, longest)])
    detector, row = _numbers(n_detectors, x), _numbers(longest, x)
    detector = (detector - (n_detectors - 1) / 2) * spacing
    result = [x.new_zeros(x.shape[0], 0, n_detectors)]
    for view in views(angles):
        n_pixels, n_rows = view.of(sizes)
        first = detector / view.main + ((n_pixels - 1) / 2 + 1)
        shift = (row - (n_rows - 1) / 2) * (-view.cross / view.main)
        left, weight = _neighbours(shift, first, longest + 1, x)
        left, own = left.expand(x.shape[0], -1, -1), rows.index_select(0, view.across)[0]
        values = torch.lerp(own.gather(2, left), own[..., 1:].gather(2, left), weight)
        result.append((values.sum(1) / view.main.abs().to(x.dtype)).unsqueeze(1))
    return torch.cat(result, 1)


def back_projected(y: Tensor, angles: Tensor, sizes: Sequence[int], spacing: float) -> Tensor:
    """Return the adjoint of :func:`projected` applied to (B, A, D): images (B, *sizes)."""
    n_detectors, longest = y.shape[2], max(sizes)
    # So many rays to each side are less than a pixel away, at most; and there are no more.
    reach = min(math.ceil(1 / spacing), max(n_detectors, 1))
    lines = pad(y, (reach, reach))
    middle = (n_detectors - 1) / 2 + reach
    number = _numbers(longest, y)
    total: Tensor | None = None
    for line, view in zip(lines.unbind(1), views(angles), strict=True):
        n_pixels, n_rows = view.of(sizes)
        # Where on the line of detectors the ray through the centre of a pixel would end.
        centre = (number - (n_pixels - 1) / 2) * view.main
        shift = (number - (n_rows - 1) / 2) * view.cross
        ends = centre / spacing + middle
        below, _ = _neighbours(shift / spacing, ends, n_detectors + 2 * reach - 1, y)
        below = below.clamp(reach, reach + n_detectors - 1)
        # In pixels along a row. Counted in rays it would lose its digits where few cross the image.
        centre, shift = (part / view.main.abs() for part in (centre, shift))
        step = spacing / view.main.abs()  # from one ray to the next
        ray = (below - middle).to(y.dtype) * step.to(y.dtype)
        beyond = shift.to(y.dtype).unsqueeze(1) + centre.to(y.dtype) - ray
        line = line / view.main.abs().to(y.dtype)
        below = below.flatten().expand(y.shape[0], -1)
        image: Tensor | None = None
        for k in range(1 - reach, reach + 1):
            hat = (1 - (beyond - (k * step).to(y.dtype)).abs()).clamp(min=0)
            values = line.gather(1, below + k).unflatten(1, hat.shape) * hat
            image = values if image is None else image + values
        assert image is not None
        if total is None:
            total = torch.zeros_like(torch.stack([image, image]))
        total = total.index_add(0, view.across, image.unsqueeze(0))
    if total is None:
        return y.new_zeros(y.shape[0], *sizes)
    first, second = total.unbind()
    images: Tensor = first[:, : sizes[1], : sizes[0]].mT + second[:, : sizes[0], : sizes[1]]
    return images


def _padded(rows: Tensor, longest: int) -> Tensor:
    """Return rows (B, n, m) with one zero before and zeros behind, (B, longest, longest + 3)."""
    return pad(rows, (1, longest + 2 - rows.shape[2], 0, longest - rows.shape[1]))


def _numbers(size: int, like: Tensor) -> Tensor:
    return torch.arange(size, dtype=torch.float64, device=like.device)


def _neighbours(
    shifts: Tensor, positions: Tensor, last: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the integer below each position in each row, and how far it is beyond that.

    Positions are held within 0 and ``last``, where what is next to them is zero. Those of an angle
    that is NaN are finite: an index has no NaN, and the length of the ray already has it.
    """
    shifts, positions = (part.to(like.dtype).nan_to_num() for part in (shifts, positions))
    at = (shifts.unsqueeze(1) + positions).clamp(0, last)
    below = at.detach().long()
    return below, at - below
