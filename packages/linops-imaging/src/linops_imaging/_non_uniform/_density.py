"""Density compensation of a trajectory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from linops_core import Interpolate

from .._checks import check_number, sizes_of_grid
from ._kaiser_bessel import beatty_beta
from ._nufft import check_locations

# Width of the kernel in grid points, and grid points for each cycle per field of view.
_WIDTH, _FINER = 4.0, 2


def density_compensation(locs: Tensor, grid_size: Sequence[int], n_iterations: int = 20) -> Tensor:
    r"""Return density compensation weights w by the iteration of Pipe and Menon:

    .. math:: w \leftarrow w \, / \, C w, \qquad (C w)_j = \sum_i k(l_j - l_i) w_i ,

    starting with w = 1. The kernel k has integral 1 and is about one cycle per field of view wide:
    the weights are spread onto a grid by a Kaiser-Bessel kernel and interpolated from it. Each
    weight is the area (2-D) or volume of k-space that belongs to its location, in cycles per field
    of view. If the locations fill k-space, ``A.H(w * y)`` approximates the image.

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
        beta = beatty_beta(_WIDTH, _FINER)
        params = {"beta": beta}
        G = Interpolate(_FINER * locs + middle, padded, (), width=_WIDTH, kernel_params=params)
        integral = (_WIDTH * math.sinh(beta) / beta) ** 2 / _FINER
        weights = torch.ones(locs.shape[:-1], dtype=locs.dtype, device=locs.device)
        for _ in range(n_iterations):
            weights = weights * integral ** len(sizes) / G(G.H(weights))
    return weights
