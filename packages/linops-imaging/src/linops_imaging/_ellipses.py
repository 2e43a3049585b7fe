"""The ellipses of the head of Shepp and Logan, and their Fourier transform."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ._unit_balls import ball, disc


class Ellipse(NamedTuple):
    """An ellipse or ellipsoid; lengths are in halves of the field of view, the angle in degrees."""

    intensity: float
    half_axes: tuple[float, float, float]
    centre: tuple[float, float, float]
    angle: float
    """Rotation in the plane of the first two axes, from the first to the second."""


# The head of Shepp and Logan with the contrast of Toft (1996), table B.3, and the extension of its
# ellipses to a third dimension that M. Schabel's phantom3d (2006) made common.
HEAD = (
    Ellipse(1.0, (0.69, 0.92, 0.81), (0.0, 0.0, 0.0), 0.0),
    Ellipse(-0.8, (0.6624, 0.874, 0.78), (0.0, -0.0184, 0.0), 0.0),
    Ellipse(-0.2, (0.11, 0.31, 0.22), (0.22, 0.0, 0.0), -18.0),
    Ellipse(-0.2, (0.16, 0.41, 0.28), (-0.22, 0.0, 0.0), 18.0),
    Ellipse(0.1, (0.21, 0.25, 0.41), (0.0, 0.35, -0.15), 0.0),
    Ellipse(0.1, (0.046, 0.046, 0.05), (0.0, 0.1, 0.25), 0.0),
    Ellipse(0.1, (0.046, 0.046, 0.05), (0.0, -0.1, 0.25), 0.0),
    Ellipse(0.1, (0.046, 0.023, 0.05), (-0.08, -0.605, 0.0), 0.0),
    Ellipse(0.1, (0.023, 0.023, 0.02), (0.0, -0.606, 0.0), 0.0),
    Ellipse(0.1, (0.023, 0.046, 0.02), (0.06, -0.605, 0.0), 0.0),
)


def unit_radius(ellipse: Ellipse, at: Tensor) -> Tensor:
    """Return the distance of positions (..., D) to the centre, 1 on the ellipse."""
    ndim = at.shape[-1]
    away = at - torch.tensor(ellipse.centre[:ndim], dtype=at.dtype)
    half_axes = torch.tensor(ellipse.half_axes[:ndim], dtype=at.dtype)
    radius: Tensor = torch.linalg.vector_norm(in_axes_of_ellipse(ellipse, away) / half_axes, dim=-1)
    return radius


def in_axes_of_ellipse(ellipse: Ellipse, vectors: Tensor) -> Tensor:
    """Return vectors (..., D) in the directions of the ellipse's axes."""
    angle = math.radians(ellipse.angle)
    first, second, *others = vectors.unbind(-1)
    along = math.cos(angle) * first + math.sin(angle) * second
    across = math.cos(angle) * second - math.sin(angle) * first
    return torch.stack([along, across, *others], -1)


def transform(locs: Tensor) -> Tensor:
    r"""Return :math:`\int x(u) e^{-2 \pi i l u} du` of the head at locations (..., D)."""
    ndim = locs.shape[-1]
    total = torch.zeros(locs.shape[:-1], dtype=torch.complex128, device=locs.device)
    for ellipse in HEAD:
        # Half axes and centres in fields of view.
        half_axes = locs.new_tensor(ellipse.half_axes[:ndim]) / 2
        centre = locs.new_tensor(ellipse.centre[:ndim]) / 2
        q = (
            2
            * math.pi
            * torch.linalg.vector_norm(in_axes_of_ellipse(ellipse, locs) * half_axes, dim=-1)
        )
        volume = half_axes.prod() * (math.pi if ndim == 2 else 4 / 3 * math.pi)
        shape = disc(q) if ndim == 2 else ball(q)
        phase = -2 * math.pi * (locs * centre).sum(-1)
        total += ellipse.intensity * volume * torch.polar(shape, phase)
    return total
