"""Density compensation of a trajectory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import product

import torch
from torch import Tensor

from linops_core import Interpolate
from linops_core.siblings import check_integer

from .._checks import sizes_of_grid
from ._locations import check_locations

# Width of the kernel in grid points, and grid points for each cycle per field of view.
_WIDTH, _FINER = 3.0, 1.2

# The transform of this Kaiser-Bessel kernel is zero at one field of view. So the density of a
# Cartesian grid, the sum of kernels around its points, is flat.
_BETA = math.pi * math.sqrt((_WIDTH / _FINER) ** 2 - 1)


def density_compensation(
    locs: Tensor,
    grid_size: Sequence[int],
    n_iterations: int = 20,
    *,
    n_frame_axes: int | None = None,
) -> Tensor:
    r"""Return density compensation weights w by the iteration of Pipe and Menon:

    .. math:: w \leftarrow w \, t \, / \, C w, \quad (C w)_j = \sum_i k(l_j - l_i) w_i , \quad
              t_j = \sum_g k(l_j - g) ,

    starting with w = 1. The kernel k is about one cycle per field of view wide: the weights are
    spread onto a grid by a Kaiser-Bessel kernel and interpolated from it. The sum over g is that of
    a Cartesian grid between the smallest and the largest locations; t is constant but for its
    edges. Pipe and Menon have 1 in its place. Each weight is the area (2-D) or volume of k-space
    that belongs to its location, in cycles per field of view: 1 for a Cartesian grid. If the
    locations fill k-space, ``A.H(w * y)`` approximates the image.

    Parameters
    ----------
    locs : Tensor
        Real, (..., D), as in :class:`NUFFT`: axes of frames, then axes of points.
    grid_size : sequence of int
        D numbers, 1 to 3: the size of the image.
    n_iterations : int
        At least 0.
    n_frame_axes : int, optional
        Number of leading axes that count frames. Each frame is a trajectory of its own, as in
        :class:`NUFFT` with these dimensions in ``batch_shape``. It must be given if the locations
        have more than two axes without the last; otherwise it is 0.

    Returns
    -------
    Tensor
        Positive, (...), in torch's default dtype for locations of any dtype. No gradient passes.

    Raises
    ------
    TypeError
        If the locations are not real numbers, or a number is not an integer.
    ValueError
        If locations are not finite or out of range, a number is out of range, or it is not known
        which axes count frames.

    References
    ----------
    J. G. Pipe and P. Menon, "Sampling density compensation in MRI: rationale and an iterative
    numerical solution", Magnetic Resonance in Medicine 41 (1999).

    Examples
    --------
    >>> locs = torch.arange(-8.0, 8.0).unsqueeze(-1)
    >>> twice = torch.cat([locs, locs[8:9]])  # the middle of k-space is sampled again
    >>> density_compensation(twice, (16,))[[4, 8, 16]].round(decimals=1)
    tensor([1.0000, 0.5000, 0.5000])
    """
    sizes = sizes_of_grid("density_compensation", grid_size, 1, 2, 3)
    check_locations("density_compensation", locs, sizes)
    check_integer("density_compensation", "n_iterations", n_iterations, 0)
    if n_frame_axes is None and locs.ndim > 3:
        raise ValueError(
            "density_compensation: n_frame_axes must say which axes count frames if there are more "
            f"than two axes of points, got locations of shape {tuple(locs.shape)}; pass 1 if the "
            "first axis counts frames, 0 for one trajectory"
        )
    n_frames = 0 if n_frame_axes is None else n_frame_axes
    n_frames = check_integer("density_compensation", "n_frame_axes", n_frames, 0)
    if n_frames > locs.ndim - 2 and n_frames:
        raise ValueError(
            f"density_compensation: n_frame_axes must be at most {locs.ndim - 2} for locations of "
            f"shape {tuple(locs.shape)}, got {n_frames}"
        )
    weights = torch.empty(locs.shape[:-1], device=locs.device)
    for frame in product(*map(range, locs.shape[:n_frames])):
        weights[frame] = _of_one_trajectory(locs[frame], sizes, n_iterations)
    return weights


@torch.no_grad()
def _of_one_trajectory(locs: Tensor, sizes: Sequence[int], n_iterations: int) -> Tensor:
    # Values spread beyond the edge of k-space must not wrap around.
    padded = [math.ceil(_FINER * size) + 2 * math.ceil(_WIDTH) + 2 for size in sizes]
    middle = torch.tensor([size // 2 for size in padded], device=locs.device)
    nodes = (_FINER * locs + middle).flatten(0, -2)
    weights = torch.ones(len(nodes), device=locs.device)
    if not weights.numel():
        return weights.view(locs.shape[:-1])
    order = _order_of_cells(nodes, padded)
    G = _spreading(nodes[order], padded)
    first, last = (f(locs.flatten(0, -2), 0).round() for f in (torch.amin, torch.amax))
    density = torch.ones((), device=locs.device)
    for axis, size in enumerate(sizes):
        at = torch.arange(-(size // 2) - 1, size // 2 + 2, device=locs.device)
        inside = ((first[axis] <= at) & (at <= last[axis])).to(weights.dtype)
        spread = _spreading((_FINER * at + middle[axis]).unsqueeze(-1), padded[axis : axis + 1])
        density = density.unsqueeze(-1) * spread.H(inside)
    target = G(density)
    for _ in range(n_iterations):
        weights = weights * target / G(G.H(weights))
    return torch.empty_like(weights).index_copy_(0, order, weights).view(locs.shape[:-1])


def _order_of_cells(nodes: Tensor, padded: Sequence[int]) -> Tensor:
    """Return an order in which points of one place follow each other: it stays in the cache."""
    cells = nodes.long().unbind(-1)
    return reduce(lambda total, cell: total * max(padded) + cell, cells).argsort()


def _spreading(nodes: Tensor, padded: Sequence[int]) -> Interpolate:
    """Return the operator whose adjoint spreads weights at ``nodes`` onto a grid."""
    return Interpolate(nodes, padded, (), width=_WIDTH, kernel_params={"beta": _BETA})
