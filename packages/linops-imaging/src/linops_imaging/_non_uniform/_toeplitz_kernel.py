"""The Toeplitz kernel of the normal operator of a NUFFT."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from linops_core import Chain, Diagonal
from linops_core.siblings import acts_as

from ._nufft import NUFFT
from ._toeplitz import convolution_sizes
from ._toeplitz_normal import ToeplitzNormal


def toeplitz_kernel(A: NUFFT, weights: Tensor | None = None) -> Tensor:
    r"""Return the transform of the kernel of :math:`A^H W A`, a convolution of images.

    With :math:`T_d = (\prod N)^{-1} \sum_j w_j e^{2 \pi i \sum l_j d / N}` for differences d of two
    pixels, it is :math:`\sum_d T_d e^{-2 \pi i k d / M}`. To convolve an image, append zeros up to
    M along each axis, transform, multiply by the kernel, transform back and crop. ``NUFFT(...,
    toeplitz=True).N`` does all of this.

    Parameters
    ----------
    A : NUFFT
    weights : Tensor, optional
        Real, of the shape of ``A.locs`` without its last axis; 1 by default.

    Returns
    -------
    Tensor
        Real, (frames, M...) with M the smallest even number from 2 N - 1 on with only the prime
        factors 2, 3 and 5, in the precision of the weights (without them, of the locations). A new
        tensor; no gradient passes through it.

    Raises
    ------
    TypeError
        If A is not a NUFFT, or the weights are not real numbers.
    ValueError
        If the weights are not of the shape of the locations.

    References
    ----------
    J. A. Fessler, S. Lee, V. T. Olafsson, H. R. Shi and D. C. Noll, "Toeplitz-based iterative image
    reconstruction for MRI with correction for magnetic field inhomogeneity", IEEE Transactions on
    Signal Processing 53 (2005).

    Examples
    --------
    >>> A = NUFFT(torch.tensor([[-1.0], [0.5]]), (4,), ("K",), tol=1e-3)
    >>> toeplitz_kernel(A).shape
    torch.Size([8])
    """
    if not acts_as(A, NUFFT) or A.is_adjoint:
        raise TypeError(
            f"toeplitz_kernel: A must be a NUFFT, got {A!r}; a subclass must not override its "
            "functions"
        )
    lengths = A.locs.shape[:-1]
    chain: Chain
    if weights is None:
        chain = cast(Chain, A.H @ A)
    else:
        if not isinstance(weights, Tensor) or weights.is_complex():
            kind = getattr(weights, "dtype", type(weights))
            raise TypeError(
                f"toeplitz_kernel: weights must be a tensor of real numbers, got {kind}"
            )
        if weights.shape != lengths:
            raise ValueError(
                f"toeplitz_kernel: weights must have the shape {tuple(lengths)} of the locations, "
                f"got {tuple(weights.shape)}"
            )
        shapes = A.interpolate.shape.other_shapes
        D = Diagonal.from_weight(weights.detach(), shapes["locs_shape"][:-1], A.oshape)
        chain = cast(Chain, A.H @ D @ A)
    dtype = torch.promote_types((A.locs if weights is None else weights).dtype, torch.float32)
    kernels = [kernel.real for ((kernel,),) in ToeplitzNormal(chain).kernels(dtype)]
    frames = lengths[: len(A.interpolate.shape.other_shapes["frames"])]
    shape = (*frames, *convolution_sizes(A.grid_size))
    if not kernels:
        return A.locs.new_empty(shape, dtype=dtype)
    return torch.stack(kernels).reshape(shape)
