"""SENSE: least squares with coil maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linops_core import Identity
from linops_core.siblings import check_real
from linops_solvers import Step, conjugate_gradients

from ._arrays import AnyArray, Array, Name
from ._messages import check_options
from ._scan import scan_operator


def sense(
    kspace: AnyArray,
    dims: Sequence[Name],
    maps: Array | None = None,
    *,
    ridge: float = 0.0,
    max_num_iters: int = 30,
    tol: float = 1e-3,
    coil_dim: Name = "C",
    weights: Array | None = None,
    locs: Array | None = None,
    grid_size: Sequence[int] | None = None,
    memory: float | str | None = None,
    progress: bool = False,
    callback: Callable[[Step], object] | None = None,
) -> AnyArray:
    r"""The image x that minimises :math:`\frac12 |A x - y|^2 + \frac\mu2 |x|^2`.

    A multiplies the image by the coil maps and transforms it to k-space, and y is ``kspace``.
    Conjugate gradients start at zero, so fewer steps also suppress noise. Each slice or frame stops
    by itself.

    Parameters
    ----------
    ridge : float
        :math:`\mu`, at least 0. The largest eigenvalue of A^H A is about 1 for data on a grid, if
        the squares of the maps add up to 1.
    tol : float
        Stop when the residual is at most ``tol`` times :math:`|A^H y|`. With 0, stop only after
        ``max_num_iters`` steps, or when rounding prevents progress.
    kspace, dims, maps, max_num_iters, coil_dim, weights, locs, grid_size, memory
        See :mod:`torchlinops.recon`, also for the errors.
    progress, callback
        As for :func:`~linops_solvers.conjugate_gradients`.

    References
    ----------
    K. P. Pruessmann, M. Weiger, P. Boernert and P. Boesiger, "Advances in sensitivity encoding with
    arbitrary k-space trajectories", Magnetic Resonance in Medicine 46 (2001).

    Examples
    --------
    >>> import torchlinops as tl
    >>> head = tl.phantoms.shepp_logan((64, 64))
    >>> maps = tl.phantoms.CoilSeries.around(6).on_grid((64, 64))
    >>> mask = tl.masks.poisson_disc((64, 64), acceleration=3, calibration=20)
    >>> kspace = mask * tl.FFT(2, centered=True)(maps * head)
    >>> image = sense(kspace, ("C", "Kx", "Ky"))
    >>> image.shape
    torch.Size([64, 64])
    """
    check_options("sense", max_num_iters, tol, progress, callback)
    check_real("sense", "ridge", ridge, 0)
    scan = scan_operator("sense", kspace, dims, maps, coil_dim, weights, locs, grid_size, memory)
    A, y = scan.A, scan.y
    normal = A.N + ridge * Identity(A.ishape) if ridge else A.N
    start = A.H(y)
    x = conjugate_gradients(
        *(normal, start, None, max_num_iters, tol, 0),
        batch_dims=scan.batch_dims(start),
        progress=progress,
        callback=callback,
    )
    return scan.given_back(x, kspace)
