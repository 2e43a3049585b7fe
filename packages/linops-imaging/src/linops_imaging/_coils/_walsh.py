"""Coil maps by adaptive combination."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from linops_core.siblings import check_integer

from ._coil_axes import (
    PIECE,
    Name,
    NoAnswer,
    axes_of_images,
    coil_gram,
    each_element,
    eigenvectors,
    principal_component,
)


@torch.no_grad()
def walsh(
    images: Tensor,
    coil_dim: Name,
    grid_dims: Sequence[Name],
    dims: Sequence[Name] | None = None,
    *,
    window: int = 5,
) -> Tensor:
    r"""Return the sensitivities of coils by adaptive combination, from the image of each coil.

    The map of a pixel is the eigenvector with the largest eigenvalue of the covariance of the coils
    in a window around the pixel, :math:`R_{cd} = \sum_{x'} m_c(x') \bar m_d(x')`. Its norm over the
    coils is 1. The noise must have the same power in all coils and must be uncorrelated: see
    :func:`prewhiten`. The phase is relative to the principal component of the coils in the whole
    image, as in :func:`espirit`. The map is zero where all pixels of the window are zero, or below
    about 1e-22 (complex64) or 1e-161 (complex128) of the norm of all images.

    Parameters
    ----------
    images : Tensor
        complex64 or complex128.
    coil_dim : dimension
        The coils.
    grid_dims : sequence of dimensions
        The grid, two or three. Each other dimension of ``images`` is a batch.
    dims : sequence of dimensions, optional
        The axes of ``images``, in their order; "..." stands for any number of axes. By default
        ``(coil_dim, *grid_dims)``; a shape that speaks against this order is refused,
        or gets a warning if it may still be right.
    window : int
        Side length of the window in pixels, odd. Windows are cut off at the edges of the image.

    Returns
    -------
    Tensor
        Like ``images``; no gradient reaches them.

    Raises
    ------
    TypeError
        If the images are not complex64 or complex128, or the window is not an integer.
    ValueError
        If the dimensions do not fit the images, the window is even, or a number is not finite. In a
        batch, the maps of images with such a number are zero, with a warning that names them.

    References
    ----------
    D. O. Walsh, A. F. Gmitro and M. W. Marcellin, "Adaptive reconstruction of phased array MR
    imagery", Magnetic Resonance in Medicine 43 (2000).

    Examples
    --------
    >>> from linops_imaging import phantoms
    >>> true = phantoms.CoilSeries.around(4).on_grid([48, 48])
    >>> head = phantoms.shepp_logan([48, 48])
    >>> maps = walsh(true * head, "C", ("Nx", "Ny"))
    >>> agreement = (maps.conj() * true).sum(0).abs() / true.norm(dim=0)
    >>> bool((agreement[head > 0] > 0.99).all())
    True
    """
    axes = axes_of_images("walsh", images, coil_dim, grid_dims, dims)
    if check_integer("walsh", "window", window, 1) % 2 == 0:
        raise ValueError(f"walsh: window must be odd, got {window}")
    maps = torch.zeros_like(images)
    ends = range(-len(axes), 0)
    batches, results = images.movedim(axes, [*ends]), maps.movedim(axes, [*ends])

    def write(at: tuple[int, ...]) -> None:
        gram = coil_gram("walsh", batches[at], NoAnswer)
        reference = principal_component(gram).to(images.dtype)
        scale = gram.diagonal().real.sum().sqrt()  # squares neither overflow nor vanish
        _write_maps(batches[at], results[at], reference, float(scale) or 1.0, window // 2)

    each_element("walsh", batches.shape[: -len(axes)], write)
    return maps


def _write_maps(x: Tensor, maps: Tensor, reference: Tensor, scale: float, reach: int) -> None:
    """Write the maps of images (C, *N), some rows of pixels at a time."""
    n_coils, n_rows, *others = x.shape
    row, column = torch.tril_indices(n_coils, n_coils, device=x.device)
    n_part_rows = max(1, PIECE // (n_coils**2 * math.prod(others)))
    for start in range(0, n_rows, n_part_rows):
        stop = min(start + n_part_rows, n_rows)
        first = max(start - reach, 0)
        part = x[:, first : stop + reach] / scale
        matrices = part[row].mul_(part[column].conj()).movedim(0, -1)
        for axis in range(matrices.ndim - 1):
            matrices = _summed(matrices, axis, reach)
        matrices = matrices[start - first : stop - first]
        full = matrices.new_zeros(*matrices.shape[:-1], n_coils, n_coils)
        full[..., row, column] = matrices
        values, vectors = eigenvectors(full.flatten(0, -3), 1, reference)
        vectors = vectors * (values > 0).unsqueeze(1)
        maps[:, start:stop] = vectors[..., 0].T.unflatten(1, full.shape[:-2])


def _summed(x: Tensor, axis: int, reach: int) -> Tensor:
    """Return the sums over windows along an axis; values outside count as zero."""
    total = x.clone()
    size = x.shape[axis]
    for shift in range(1, min(reach, size - 1) + 1):
        total.narrow(axis, 0, size - shift).add_(x.narrow(axis, shift, size - shift))
        total.narrow(axis, shift, size - shift).add_(x.narrow(axis, 0, size - shift))
    return total
