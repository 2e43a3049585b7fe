"""Compressed sensing: reconstructions with wavelets or total variation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linops_core.siblings import check_real
from linops_imaging import Gradient, Wavelet
from linops_solvers import Step, admm, fista, group_soft_threshold, soft_threshold

from ._arrays import AnyArray, Array, Name
from ._messages import check_options, in_name_of
from ._scan import norm, scan_operator

_SHORT_AXES = (
    'choose a shorter wavelet, such as "haar"; an axis of one point needs none: name it without K, '
    "as S, or leave it out of locs and grid_size"
)


def l1_wavelet(
    kspace: AnyArray,
    dims: Sequence[Name],
    maps: Array | None = None,
    *,
    weight: float = 0.002,
    wavelet: str = "db4",
    max_num_iters: int = 50,
    tol: float = 1e-4,
    coil_dim: Name = "C",
    weights: Array | None = None,
    locs: Array | None = None,
    grid_size: Sequence[int] | None = None,
    memory: float | str | None = None,
    progress: bool = False,
    callback: Callable[[Step], object] | None = None,
) -> AnyArray:
    r"""The image of the fewest and smallest wavelet coefficients that explain the scan.

    It is :math:`x = W^H c` for the coefficients c that minimise

    .. math:: \tfrac12 |A W^H c - y|^2 + \lambda |c|_1 .

    If W is unitary, x minimises :math:`\frac12 |A x - y|^2 + \lambda |W x|_1`. It is not unitary if
    :class:`~linops_imaging.Wavelet` appends zeros to the image.

    Parameters
    ----------
    weight : float
        :math:`\lambda`, relative to the largest pixel of :math:`A^H y` of each slice and frame, so
        that it does not depend on the unit of ``kspace``.
    wavelet : str
        As in :class:`~linops_imaging.Wavelet`.
    tol : float
        As for :func:`~linops_solvers.fista`.
    kspace, dims, maps, max_num_iters, coil_dim, weights, locs, grid_size, memory
        See :mod:`torchlinops.recon`, also for the errors.
    progress, callback
        As for :func:`~linops_solvers.fista`.

    References
    ----------
    M. Lustig, D. Donoho and J. M. Pauly, "Sparse MRI: the application of compressed sensing for
    rapid MR imaging", Magnetic Resonance in Medicine 58 (2007).
    """
    check_options("l1_wavelet", max_num_iters, tol, progress, callback)
    check_real("l1_wavelet", "weight", weight, 0)
    scan = scan_operator(
        "l1_wavelet", kspace, dims, maps, coil_dim, weights, locs, grid_size, memory
    )
    even, brightest = scan.balanced(scan.pixels)
    with in_name_of("l1_wavelet", _SHORT_AXES):
        W = Wavelet(wavelet, scan.grid, scan.grid_size)
    A, penalty = even.A @ W.H, soft_threshold(weight * brightest)
    c = fista(A, even.y, penalty, None, max_num_iters, tol, progress=progress, callback=callback)
    return even.given_back(W.H(c), kspace)


def total_variation(
    kspace: AnyArray,
    dims: Sequence[Name],
    maps: Array | None = None,
    *,
    weight: float = 0.002,
    max_num_iters: int = 50,
    tol: float = 1e-3,
    coil_dim: Name = "C",
    weights: Array | None = None,
    locs: Array | None = None,
    grid_size: Sequence[int] | None = None,
    memory: float | str | None = None,
    progress: bool = False,
    callback: Callable[[Step], object] | None = None,
) -> AnyArray:
    r"""The image x that minimises :math:`\frac12 |A x - y|^2 + \lambda \sum_n |(G x)_n|_2`.

    G has the differences along each axis of the grid, so this is isotropic total variation. Slices
    and frames are separate images.

    Parameters
    ----------
    weight : float
        :math:`\lambda`, relative to the largest pixel of :math:`A^H y` of each slice and frame, so
        that it does not depend on the unit of ``kspace``.
    tol : float
        ``eps_rel`` of :func:`~linops_solvers.admm`.
    kspace, dims, maps, max_num_iters, coil_dim, weights, locs, grid_size, memory
        See :mod:`torchlinops.recon`, also for the errors.
    progress, callback
        As for :func:`~linops_solvers.admm`.

    References
    ----------
    K. T. Block, M. Uecker and J. Frahm, "Undersampled radial MRI with multiple coils: iterative
    image reconstruction using a total variation constraint", Magnetic Resonance in Medicine 57
    (2007).
    """
    check_options("total_variation", max_num_iters, tol, progress, callback)
    check_real("total_variation", "weight", weight, 0)
    scan = scan_operator(
        "total_variation", kspace, dims, maps, coil_dim, weights, locs, grid_size, memory
    )
    even, brightest = scan.balanced(scan.pixels)
    A, y = even.A, even.y
    with in_name_of("total_variation"):
        G = Gradient(scan.grid, scan.grid_size, boundary="replicate")
    penalty = group_soft_threshold(weight * brightest, dim=0)
    seen = A.H(y.detach())
    # The solution does not depend on rho; with this one, ADMM needs few steps.
    rho = min(0.05, 20 * weight) * norm(A.N(seen)) / (norm(seen) or 1.0)
    x = admm(
        *(A, y, penalty, G, None, max_num_iters),
        batch_dims=scan.batch_dims(seen),
        rho=rho or 1.0,
        eps_rel=tol,
        progress=progress,
        callback=callback,
    )
    return even.given_back(x, kspace)
