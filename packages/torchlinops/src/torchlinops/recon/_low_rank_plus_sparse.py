"""Low rank plus sparse: a series of images as background and changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from linops_core import FFT, SumReduce
from linops_core.siblings import check_real
from linops_solvers import ProximalMap, Step, fista, in_basis, nuclear_norm, soft_threshold
from nameddim import NamedDimension, as_dims

from ._arrays import AnyArray, Array, Dims, Name
from ._messages import check_options, in_name_of
from ._scan import Scan, largest, norm, scan_operator


class LowRankPlusSparse(NamedTuple, Generic[AnyArray]):
    """The two parts of a series of images; their sum is the series."""

    low_rank: AnyArray
    """The background, which changes in few ways."""
    sparse: AnyArray
    """What changes in addition, such as contrast that arrives."""


def low_rank_plus_sparse(
    kspace: AnyArray,
    dims: Sequence[Name],
    maps: Array | None = None,
    *,
    time_dim: Name = "T",
    low_rank_weight: float = 0.003,
    sparse_weight: float = 0.01,
    max_num_iters: int = 50,
    tol: float = 1e-4,
    coil_dim: Name = "C",
    weights: Array | None = None,
    locs: Array | None = None,
    grid_size: Sequence[int] | None = None,
    memory: float | str | None = None,
    progress: bool = False,
    callback: Callable[[Step], object] | None = None,
) -> LowRankPlusSparse[AnyArray]:
    r"""The series of images L + S that minimise

    .. math:: \tfrac12 |A (L + S) - y|^2 + \lambda_L |L|_* + \lambda_S |F_t S|_1 .

    The nuclear norm :math:`|L|_*` is the sum of the singular values of the matrix with a column of
    pixels for each frame, and :math:`F_t` is the unitary Fourier transform along time. Slices are
    separate problems, with separate matrices. If ``maps`` are not given, all frames share maps from
    the mean of their k-space.

    Parameters
    ----------
    time_dim : dimension
        The frames, an axis in ``dims``.
    low_rank_weight, sparse_weight : float
        :math:`\lambda_L`, relative to the largest singular value of :math:`A^H y` of each slice,
        and :math:`\lambda_S`, relative to its largest pixel.
    tol : float
        As for :func:`~linops_solvers.fista`.
    kspace, dims, maps, max_num_iters, coil_dim, weights, locs, grid_size, memory
        See :mod:`torchlinops.recon`, also for the errors.
    progress, callback
        As for :func:`~linops_solvers.fista`.

    Returns
    -------
    LowRankPlusSparse
        The named tuple (low_rank, sparse) of two series.

    References
    ----------
    R. Otazo, E. Candes and D. K. Sodickson, "Low-rank plus sparse matrix decomposition for
    accelerated dynamic MRI with separation of background and dynamic components", Magnetic
    Resonance in Medicine 73 (2015).
    """
    owner = "low_rank_plus_sparse"
    with in_name_of(owner):
        frames = as_dims((time_dim,))
    check_options(owner, max_num_iters, tol, progress, callback)
    check_real(owner, "low_rank_weight", low_rank_weight, 0)
    check_real(owner, "sparse_weight", sparse_weight, 0)
    scan: Scan = scan_operator(
        owner, kspace, dims, maps, coil_dim, weights, locs, grid_size, memory, frames
    )
    n: int = len(scan.grid)
    series: Dims = scan.A.ishape
    time = series.index(frames[0])

    def matrices(x: Tensor) -> Tensor:
        """Return (slices, T, pixels) from a series."""
        return x.movedim(time, -n - 1).flatten(-n)

    def largest_singular_value(x: Tensor) -> Tensor:
        values: Tensor = torch.linalg.matrix_norm(matrices(x), 2)
        return values.unsqueeze(time)[..., *[None] * n]

    axes = (time, *scan.pixels)
    even, brightest = scan.balanced(axes, largest_singular_value)
    A, y = even.A, even.y
    seen = A.H(y.detach())
    low_rank = nuclear_norm(low_rank_weight * brightest)
    F = FFT(dims=frames, shape=series)
    pixels = largest(*axes)(seen.detach()) if seen.numel() else seen.real
    sparse = in_basis(F, soft_threshold(sparse_weight * pixels))

    def shrunk(z: Tensor, step: float) -> Tensor:
        background = low_rank(matrices(z[0]), step).unflatten(-1, scan.grid_size)
        return torch.stack([background.movedim(-n - 1, time), sparse(z[1], step)])

    def penalty(z: Tensor) -> Tensor:
        return low_rank.value(matrices(z[0])) + sparse.value(z[1])

    part = NamedDimension("Part").next_unused(series)
    both = A @ SumReduce((part, *series), series, sizes={part: 2})
    proximal = ProximalMap(shrunk, None, value_in=lambda z, space: penalty(z))
    # As Otazo et al. start: all is background. A^H y has the size of an image only if the maps and
    # the weights make A^H A about the identity; its multiple that explains y best always has it.
    scale = (norm(seen) / (norm(A(seen)) or 1.0)) ** 2
    z = torch.stack([scale * seen, torch.zeros_like(seen)])
    z = fista(both, y, proximal, z, max_num_iters, tol, progress=progress, callback=callback)
    return LowRankPlusSparse(*[even.given_back(x, kspace) for x in z])
