"""Density compensation of a trajectory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from linops_core import Interpolate

from .._checks import check_number, sizes_of_grid
from ._nufft import check_locations

# Width of the kernel in grid points, and grid points for each cycle per field of view.
_WIDTH, _FINER = 5.0, 2

# The transform of this Kaiser-Bessel kernel is zero at one field of view. So the density of a
# Cartesian grid, the sum of kernels around its points, is flat.
_BETA = math.pi * math.sqrt((_WIDTH / _FINER) ** 2 - 1)


def density_compensation(locs: Tensor, grid_size: Sequence[int], n_iterations: int = 20) -> Tensor:
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
        Real, (..., D), as in :class:`NUFFT`. They are one trajectory: call the function once for
        each frame.
    grid_size : sequence of int
        D numbers, 1 to 3: the size of the image.
    n_iterations : int
        At least 0.

    Returns
    -------
    Tensor
        Positive, (...), in the precision of the locations. No gradient passes through.

    Raises
    ------
    TypeError
        If the locations are not real numbers, or n_iterations is not an integer.
    ValueError
        If locations are not finite or out of range, or ``n_iterations`` is negative.

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
    check_number("density_compensation", "n_iterations", n_iterations, 0)
    with torch.no_grad():
        # Values spread beyond the edge of k-space must not wrap around.
        padded = [_FINER * size + 2 * math.ceil(_WIDTH) + 2 for size in sizes]
        middle = torch.tensor([size // 2 for size in padded], dtype=locs.dtype, device=locs.device)
        weights = torch.ones(locs.shape[:-1], dtype=locs.dtype, device=locs.device)
        if not weights.numel():
            return weights
        G = _spreading(_FINER * locs + middle, padded)
        first, last = (f(locs.flatten(0, -2), 0).round() for f in (torch.amin, torch.amax))
        density = torch.ones((), dtype=locs.dtype, device=locs.device)
        for axis, size in enumerate(sizes):
            at = torch.arange(-(size // 2) - 1, size // 2 + 2, device=locs.device)
            inside = ((first[axis] <= at) & (at <= last[axis])).to(locs.dtype)
            nodes = (_FINER * at + middle[axis]).unsqueeze(-1)
            own = _spreading(nodes, padded[axis : axis + 1]).H(inside)
            density = density.unsqueeze(-1) * own
        target = G(density)
        for _ in range(n_iterations):
            weights = weights * target / G(G.H(weights))
    return weights


def _spreading(nodes: Tensor, padded: Sequence[int]) -> Interpolate:
    """Return the operator whose adjoint spreads weights at ``nodes`` onto a grid."""
    return Interpolate(nodes, padded, (), width=_WIDTH, kernel_params={"beta": _BETA})
