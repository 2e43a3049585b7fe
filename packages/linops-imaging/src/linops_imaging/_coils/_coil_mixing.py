"""Matrices that mix coils: compression and prewhitening."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from linops_core.siblings import check_integer, is_dense, not_a_tensor

from ._coil_axes import Name, coil_axis, coil_gram


@torch.no_grad()
def compress_coils(
    data: Tensor, n_coils: int, coil_dim: Name = "C", dims: Sequence[Name] | None = None
) -> tuple[Tensor, Tensor]:
    r"""Return data of fewer, virtual coils :math:`z_v = \sum_c w_{vc} y_c`, and the matrix w.

    The rows of w are the conjugates of the leading left singular vectors of the data, as a matrix
    of coils by samples. They are orthonormal. No other orthonormal rows keep more energy,
    :math:`|z|^2 = \sum_{v < V} \sigma_v^2`. Multiply the maps by the same matrix, or compute them
    from the compressed data. Noise should be white: see :func:`prewhiten`.

    Parameters
    ----------
    data : Tensor
        complex64 or complex128, in k-space or image space.
    n_coils : int
        V, at least 1 and at most the number of coils.
    coil_dim : dimension
        The coils.
    dims : sequence of dimensions, optional
        The axes of ``data``, in their order; "..." stands for any number of axes. By default the
        coils are the first axis, ``(coil_dim, "...")``; a shape that speaks against it is refused,
        or gets a warning if it may still be right.

    Returns
    -------
    compressed : Tensor
        Like ``data``, with V coils.
    matrix : Tensor
        w, (V, C), in the dtype of ``data``. No gradient reaches ``data``.

    Raises
    ------
    TypeError
        If the data are not complex64 or complex128, or ``n_coils`` is not an integer.
    ValueError
        If the dimensions do not fit the data, ``n_coils`` is larger than the number of coils, or a
        number is not finite.

    References
    ----------
    M. Buehrer et al., "Array compression for MRI with large coil arrays", Magnetic Resonance in
    Medicine 57 (2007).

    F. Huang et al., "A software channel compression technique for faster reconstruction with many
    channels", Magnetic Resonance Imaging 26 (2008).

    Examples
    --------
    >>> from linops_core import Dense
    >>> data = torch.tensor([[3.0, 0, 0], [0, 0, 1], [4, 0, 0]], dtype=torch.complex64)
    >>> compressed, matrix = compress_coils(data, 1)
    >>> compressed.abs()
    tensor([[5., 0., 0.]])
    >>> A = Dense(matrix, ("V", "C"), ("C", "..."), ("V", "..."))  # the same, with an adjoint
    >>> torch.equal(A(data), compressed)
    True
    """
    axis = coil_axis("compress_coils", data, coil_dim, dims)
    n_coils = check_integer("compress_coils", "n_coils", n_coils, 1)
    if n_coils > data.shape[axis]:
        raise ValueError(
            f"compress_coils: n_coils must be at most the {data.shape[axis]} coils, got {n_coils}"
        )
    gram = coil_gram("compress_coils", data.movedim(axis, 0))
    vectors = torch.linalg.eigh(gram).eigenvectors[:, -n_coils:].flip(1)
    matrix = vectors.mH.to(data.dtype).contiguous()
    return _multiplied(matrix, data, axis), matrix


@torch.no_grad()
def noise_covariance(
    noise: Tensor, coil_dim: Name = "C", dims: Sequence[Name] | None = None
) -> Tensor:
    r"""Return the covariance of M samples of noise, :math:`\Psi = \frac1M \sum_j n_j n_j^H`.

    The real and the imaginary part each have half of the variance. No mean is subtracted.

    Parameters
    ----------
    noise : Tensor
        complex64 or complex128: a scan without excitation, or samples without signal.
    coil_dim, dims
        As in :func:`compress_coils`; all other axes are samples.

    Returns
    -------
    Tensor
        complex128, (C, C).

    Raises
    ------
    TypeError
        If the noise is not complex64 or complex128.
    ValueError
        If the dimensions do not fit the noise, or a number is not finite.

    Examples
    --------
    >>> noise_covariance(torch.tensor([[1.0, 1j], [2.0, 2.0]])).real
    tensor([[1., 1.],
            [1., 4.]], dtype=torch.float64)
    """
    axis = coil_axis("noise_covariance", noise, coil_dim, dims)
    n_samples = noise.numel() // noise.shape[axis]
    return coil_gram("noise_covariance", noise.movedim(axis, 0)).div_(n_samples)


def prewhiten(
    data: Tensor, covariance: Tensor, coil_dim: Name = "C", dims: Sequence[Name] | None = None
) -> tuple[Tensor, Tensor]:
    r"""Return data with white noise, :math:`z = L^{-1} y`, and the matrix :math:`L^{-1}`.

    :math:`\Psi = L L^H` is the Cholesky factorisation of the noise covariance. The noise of z has
    the identity as its covariance: variance 1, no correlation between the virtual coils. Multiply
    the maps by the same matrix, or compute them from the result.

    Parameters
    ----------
    data : Tensor
        complex64 or complex128, in k-space or in image space.
    covariance : Tensor
        :math:`\Psi`, (C, C), Hermitian and positive definite; see :func:`noise_covariance`.
    coil_dim, dims
        As in :func:`compress_coils`.

    Returns
    -------
    whitened : Tensor
        Like ``data``.
    matrix : Tensor
        :math:`L^{-1}`, (C, C), lower triangular, in the dtype of ``data``.

    Raises
    ------
    TypeError
        If the data are not complex64 or complex128, or the covariance is not a tensor.
    ValueError
        If the dimensions do not fit the data, or the covariance has a wrong shape, or is not
        finite, Hermitian and positive definite.

    References
    ----------
    K. P. Pruessmann et al., "Advances in sensitivity encoding with arbitrary k-space trajectories",
    Magnetic Resonance in Medicine 46 (2001), section on noise decorrelation.

    Examples
    --------
    >>> noise = torch.tensor([[2.0, 0, 2], [0, 3, 3]], dtype=torch.complex128)
    >>> whitened, matrix = prewhiten(noise, noise_covariance(noise))
    >>> torch.allclose(noise_covariance(whitened), torch.eye(2, dtype=torch.complex128))
    True
    """
    # The size of the covariance tells whether the axis is that of the coils.
    axis = coil_axis("prewhiten", data, coil_dim, (coil_dim, "...") if dims is None else dims)
    if not is_dense(covariance):
        raise not_a_tensor("prewhiten", "covariance", covariance)
    n_coils = data.shape[axis]
    if covariance.shape != (n_coils, n_coils):
        raise ValueError(
            f"prewhiten: covariance must have shape ({n_coils}, {n_coils}) for {n_coils} coils, "
            f"got {tuple(covariance.shape)}; if axis {axis} is not the coils, set dims"
        )
    psi = covariance.to(torch.complex128)
    # Written so that NaN is refused: every comparison with it is False.
    if not (psi - psi.mH).abs().max() <= 1e-5 * psi.abs().max() < math.inf:
        raise ValueError("prewhiten: covariance must be finite and Hermitian, got one that is not")
    factor, failed = torch.linalg.cholesky_ex(psi)
    if failed:
        raise ValueError(
            "prewhiten: covariance must be positive definite, got one that is not: measure more "
            "samples of noise than there are coils, and leave out coils without noise"
        )
    one = torch.eye(n_coils, dtype=psi.dtype, device=psi.device)
    matrix = torch.linalg.solve_triangular(factor, one, upper=False).to(data.dtype)
    return _multiplied(matrix, data, axis), matrix


def _multiplied(matrix: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return the product with a matrix along an axis, in the order of the axes of x."""
    if axis == x.ndim - 1:
        return x @ matrix.mT
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    columns = x.reshape(-1, x.shape[axis], after.numel())
    product = torch.bmm(matrix.expand(len(columns), -1, -1), columns)
    return product.view(*before, len(matrix), *after)
