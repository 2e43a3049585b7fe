"""Richardson-Lucy deconvolution: expectation maximisation for a convolution."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from linops_core import Convolution
from linops_core.siblings import check_vector

from .._proximals._poisson import checked_counts
from .._shared._options import Checkpointed, with_options
from .._shared._space import Space
from ._counted import Counted
from ._expectation_maximization import ExpectationMaximization
from ._mlem import mlem

_NAME = "richardson_lucy"
_BOUNDARIES = ("extended", "zeros", "circular", "reflect", "replicate")


@with_options(Checkpointed, like=mlem)
def richardson_lucy(
    y: Tensor,
    psf: Tensor,
    x0: Tensor | None = None,
    max_num_iters: int = 50,
    tol: float = 0.0,
    *,
    background: float | Tensor = 0.0,
    boundary: str = "extended",
    **watching: Unpack[Checkpointed],
) -> Tensor:
    r"""The image x >= 0 that was blurred by a point spread function and counted, by :func:`mlem`.

    A step is, with the convolution A by the point spread function h,

    .. math:: x' = \frac{x}{A^H 1} \, A^H \frac{y}{h * x + b} .

    For an operator of your own, such as a convolution in tiles, use :func:`mlem`. Noise grows with
    the number of steps, so it is a parameter: stop when the noise begins to show.

    Parameters
    ----------
    y : Tensor
        The measured images, real, at least 0, floating point, shape (..., Nx), (..., Nx, Ny) or
        (..., Nx, Ny, Nz). Images along other axes than the last ones are independent.
    psf : Tensor
        h, real, at least 0, with one, two or three axes along the last ones of y. Its centre is the
        index ``size // 2`` of each axis. If its sum is 1, x has the counts of y. It is converted to
        the dtype of y.
    x0 : Tensor, optional
        At least 0, of the shape of y. Default: a constant.
    background : float or Tensor
        b, broadcast to y: the counts without light, such as the offset of the camera.
    boundary : str
        What is beyond the frame of y. "extended": unknown light, which is estimated, too, on a
        margin of the size of h that is not returned. So light from outside makes no false edges
        (Bertero and Boccacci 2005). Or the padding of :class:`linops_core.Convolution`: "zeros",
        "circular", "reflect" or "replicate", which take less memory.

    Returns
    -------
    Tensor
        x, of the shape and dtype of y.

    Raises
    ------
    TypeError
        If y or the point spread function is not a floating-point, real tensor.
    ValueError
        If y, psf, x0 or the background is negative, psf has more axes than y or a sum of 0, or
        ``boundary`` is not one of these values.

    Notes
    -----
    ``skimage.restoration.richardson_lucy`` gives the same for ``boundary="zeros"`` and a psf of
    odd sizes and sum 1, up to edges: it leaves out :math:`A^H 1`, which is less than 1 there. It
    also clips the result to 1 by default.

    References
    ----------
    W. H. Richardson, "Bayesian-based iterative method of image restoration", Journal of the Optical
    Society of America 62 (1972), 55-59.
    L. B. Lucy, "An iterative technique for the rectification of observed distributions", The
    Astronomical Journal 79 (1974), 745-754.
    M. Bertero and P. Boccacci, "A simple method for the reduction of boundary effects in the
    Richardson-Lucy approach to image deconvolution", Astronomy & Astrophysics 437 (2005), 369-374.

    Examples
    --------
    A point that was spread over three pixels, at the edge of the frame:

    >>> psf = torch.tensor([0.25, 0.5, 0.25])
    >>> x = richardson_lucy(torch.tensor([4.0, 2.0, 0.0, 0.0]), psf, max_num_iters=500)
    >>> torch.round(x, decimals=1)
    tensor([8., 0., 0., 0.])
    """
    check_vector(_NAME, "y", y)
    kernel = _checked_kernel(y, psf)
    if boundary not in _BOUNDARIES:
        raise ValueError(
            f"{_NAME}: boundary must be one of {', '.join(_BOUNDARIES)}, got {boundary!r}"
        )
    is_extended, ndim = boundary == "extended", kernel.ndim
    mode = {"mode": "valid"} if is_extended else {"padding_mode": boundary}
    A = Convolution(kernel, **mode)  # type: ignore[arg-type]
    # Width of the margin before the frame, along each axis.
    before = [size - 1 - size // 2 if is_extended else 0 for size in kernel.shape]
    axes = range(y.ndim - ndim, y.ndim)

    def in_frame(x: Tensor) -> Tensor:
        for axis, first in zip(axes, before, strict=True):
            x = x.narrow(axis, first, y.shape[axis])
        return x

    if x0 is not None and is_extended:
        check_vector(_NAME, "x0", x0)
        if x0.shape != y.shape:
            raise ValueError(
                f"{_NAME}: x0 must have the shape of y, {tuple(y.shape)}, got {tuple(x0.shape)}"
            )
        for axis, first, size in zip(axes, before, kernel.shape, strict=True):
            index = torch.arange(-first, x0.shape[axis] + size - 1 - first, device=x0.device)
            x0 = x0.index_select(axis, index.clamp(0, x0.shape[axis] - 1))

    def counted() -> list[Counted]:
        return [Counted(_NAME, A, None, y, background)]

    return ExpectationMaximization(
        _NAME, x0, max_num_iters, tol, watching, Space(), counted, in_frame
    ).solve()


def _checked_kernel(y: Tensor, psf: Tensor) -> Tensor:
    check_vector(_NAME, "psf", psf)
    checked_counts(_NAME, "psf", psf)
    if not 1 <= psf.ndim <= min(y.ndim, 3):
        raise ValueError(
            f"{_NAME}: psf must have 1 to {min(y.ndim, 3)} axes, along the last ones of y, got "
            f"shape {tuple(psf.shape)} for {tuple(y.shape)}"
        )
    if not psf.any():
        raise ValueError(f"{_NAME}: psf must have a positive sum, got 0; check its unit and dtype")
    return psf.to(y.dtype)
