r"""Coil maps by ESPIRiT.

The patches of a fully sampled region of k-space span a space. Let V be an orthonormal basis of it.
If all patches of a k-space are in that space, the following operator returns this k-space:

.. math:: W = \frac{1}{|k|} \sum_r R_r^H V V^H R_r,

where :math:`R_r` extracts patch r. In image space W is one matrix, coils by coils, for each pixel,

.. math:: G_{cd}(x) = \frac{1}{|k|} \sum_{r, r'} (V V^H)_{cr, dr'} e^{2 \pi i (r - r') \cdot x / N},

and the maps are its eigenvectors with eigenvalue 1. The entries of G are trigonometric polynomials
of few terms, which are interpolated from their values on a small grid.

Shapes: C coils; along each axis N pixels, K points of a patch, M = 2 K - 1 points of the small
grid.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Literal, overload

import torch
from torch import Tensor

from linops_core.siblings import check_flags, check_integer, check_real
from nameddim import as_dims

from .._checks import one_for_each
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


@overload
def espirit(
    kspace: Tensor,
    coil_dim: Name,
    grid_dims: Sequence[Name],
    dims: Sequence[Name] | None = None,
    *,
    n_calibration: int | Sequence[int] = 24,
    kernel_size: int | Sequence[int] = 6,
    threshold: float = 1e-3,
    crop: float = 0.8,
    n_maps: int | None = None,
    return_eigenvalues: Literal[False] = False,
) -> Tensor: ...


@overload
def espirit(
    kspace: Tensor,
    coil_dim: Name,
    grid_dims: Sequence[Name],
    dims: Sequence[Name] | None = None,
    *,
    n_calibration: int | Sequence[int] = 24,
    kernel_size: int | Sequence[int] = 6,
    threshold: float = 1e-3,
    crop: float = 0.8,
    n_maps: int | None = None,
    return_eigenvalues: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@torch.no_grad()
def espirit(
    kspace: Tensor,
    coil_dim: Name,
    grid_dims: Sequence[Name],
    dims: Sequence[Name] | None = None,
    *,
    n_calibration: int | Sequence[int] = 24,
    kernel_size: int | Sequence[int] = 6,
    threshold: float = 1e-3,
    crop: float = 0.8,
    n_maps: int | None = None,
    return_eigenvalues: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Return the sensitivities of coils by ESPIRiT, from k-space with a fully sampled centre.

    The maps of a pixel are the eigenvectors with the largest eigenvalues of a matrix, coils by
    coils. The sum over the coils of their squared magnitudes is 1. The eigenvalue is 1 where the
    maps explain the data. The phase is relative to the principal component u of the coils in the
    calibration region: :math:`\sum_c \bar u_c s_c(x)` is real and not negative for each map s. The
    largest entry of u is positive.

    Parameters
    ----------
    kspace : Tensor
        complex64 or complex128, with zeros where nothing was measured. The centre is at index N //
        2 of each axis of the grid, as in a centred :class:`linops_core.FFT`.
    coil_dim : dimension
        The coils.
    grid_dims : sequence of dimensions
        The grid, two or three. Each other dimension of ``kspace``, such as slices, is a batch: its
        elements are calibrated separately.
    dims : sequence of dimensions, optional
        The axes of ``kspace``, in their order; "..." stands for any number of axes. By default
        ``(coil_dim, *grid_dims)``; a shape that speaks against this order is refused,
        or gets a warning if it may still be right.
    n_calibration : int or sequence of int
        Size of the calibration region, one for all axes or one for each. A shorter axis is used as
        a whole. It must be twice the kernel size: with less, the eigenvalues are too small.
    kernel_size : int or sequence of int
        Size of the patches, one for all axes or one for each.
    threshold : float
        The rows of the calibration matrix are the patches. Its singular vectors count as the space
        of the patches if their squared singular value exceeds this fraction of the largest one.
    crop : float
        Maps are zero where the eigenvalue is not above it; 0 keeps all.
    n_maps : int, optional
        Number of sets of maps, at most the number of coils; it is the first axis of the result. Use
        more than one if the field of view is too small and the image wraps around. By default one
        set without an axis.
    return_eigenvalues : bool
        Whether to return the eigenvalues, too. They are near 1 where there is signal, and smaller
        elsewhere.

    Returns
    -------
    maps : Tensor
        Like ``kspace``, or with a first axis of ``n_maps``. No gradient reaches ``kspace``.
    eigenvalues : Tensor
        Real, of the shape of the maps without the coils; only with ``return_eigenvalues``.

    Raises
    ------
    TypeError
        If ``kspace`` is not complex64 or complex128, or an argument is not a number.
    ValueError
        If the dimensions do not fit ``kspace``, or if the calibration region is too small, not
        fully sampled or not finite, or its patches span the whole space because of noise. In a
        batch, such elements (a slice of air) have zeros as maps and eigenvalues, with a warning
        that names them.

    References
    ----------
    M. Uecker et al., "ESPIRiT - an eigenvalue approach to autocalibrating parallel MRI: where SENSE
    meets GRAPPA", Magnetic Resonance in Medicine 71 (2014).

    Examples
    --------
    >>> from linops_core import FFT
    >>> from linops_imaging import phantoms
    >>> true = phantoms.CoilSeries.around(4).on_grid([48, 48])
    >>> head = phantoms.shepp_logan([48, 48])
    >>> maps = espirit(FFT(2, centered=True)(true * head), "C", ("Kx", "Ky"))
    >>> maps.shape
    torch.Size([4, 48, 48])
    >>> agreement = (maps.conj() * true).sum(0).abs() / true.norm(dim=0)
    >>> bool((agreement[head > 0] > 0.99).all())
    True
    """
    check_flags("espirit", return_eigenvalues=return_eigenvalues)
    axes = axes_of_images("espirit", kspace, coil_dim, grid_dims, dims)
    ends = [*range(-len(axes), 0)]
    batches = kspace.movedim(axes, ends)
    n_coils, *sizes = batches.shape[-len(axes) :]
    kernel = _for_each("kernel_size", kernel_size, len(sizes))
    region = _for_each("n_calibration", n_calibration, len(sizes))
    region = [min(length, size) for length, size in zip(region, sizes, strict=True)]
    for name, lines, length in zip(as_dims(grid_dims), region, kernel, strict=True):
        if lines < length:
            raise ValueError(
                f"espirit: {name} must have at least {length} calibration lines, the size of the "
                f"kernel, got {lines}; set n_calibration or kernel_size, one number for each axis"
            )
    threshold = check_real("espirit", "threshold", threshold, 10 * torch.finfo(kspace.dtype).eps)
    crop = check_real("espirit", "crop", crop, 0)
    n_sets = 1 if n_maps is None else check_integer("espirit", "n_maps", n_maps, 1)
    if n_sets > n_coils:
        raise ValueError(f"espirit: n_maps must be at most the {n_coils} coils, got {n_sets}")
    others = batches.shape[: -len(axes)]
    maps = batches.new_zeros(*others, n_sets, n_coils, *sizes)
    values = maps.real.new_zeros(*others, n_sets, *sizes)
    n_patches = math.prod(lines - length + 1 for lines, length in zip(region, kernel, strict=True))

    def write(at: tuple[int, ...]) -> None:
        calibration = _calibration(batches[at], region)
        reference = principal_component(coil_gram("espirit", calibration)).to(kspace.dtype)
        kernels = _kernels(calibration, kernel, threshold)
        is_short = any(lines < 2 * length for lines, length in zip(region, kernel, strict=True))
        if crop and (is_short or len(kernels) == n_patches < kernels[0].numel()):
            warnings.warn(
                f"espirit: the {n_patches} patches of the calibration region must span their "
                f"space, got too few of size {kernel} in {region} points: the eigenvalues are too "
                f"small, and crop={crop:g} makes maps zero; give espirit a larger n_calibration, "
                "a smaller kernel_size, or crop=0",
                stacklevel=5,  # past `each_element`, `espirit` and no_grad
            )
        small = _small_images(kernels)
        _write_maps(small, kernel, reference, crop, maps[at], values[at])

    each_element("espirit", others, write)
    maps, values = maps.movedim(len(others), 0), values.movedim(len(others), 0)
    # Back to the order of the axes; the eigenvalues have no coils.
    maps = maps.movedim(ends, [axis + 1 for axis in axes])
    values = values.movedim(ends[1:], [axis + (axis < axes[0]) for axis in axes[1:]])
    if n_maps is None:
        maps, values = maps[0], values[0]
    return (maps, values) if return_eigenvalues else maps


def _for_each(name: str, value: int | Sequence[int], n_axes: int) -> list[int]:
    numbers = one_for_each(value, n_axes)
    if len(numbers) != n_axes:
        raise ValueError(f"espirit: {name} must be one number, or {n_axes} numbers, got {value!r}")
    return [check_integer("espirit", name, number, 1) for number in numbers]


def _calibration(kspace: Tensor, region: Sequence[int]) -> Tensor:
    """Return the centre of one k-space (C, ...), scaled to about 1."""
    for axis, length in enumerate(region, 1):
        kspace = kspace.narrow(axis, kspace.shape[axis] // 2 - length // 2, length)
    largest = torch.linalg.vector_norm(kspace, math.inf)
    if not largest.isfinite():
        raise NoAnswer("espirit: the calibration region must be finite, got NaN or infinity")
    if n_missing := int((kspace == 0).all(0).sum()):
        raise NoAnswer(
            "espirit: the calibration region must be sampled fully, got zeros from all coils at "
            f"{n_missing} of its {math.prod(region)} points; set n_calibration to what was measured"
        )
    scaled: Tensor = kspace / largest
    return scaled


def _kernels(calibration: Tensor, kernel: Sequence[int], threshold: float) -> Tensor:
    """Return a basis of the patches of the calibration region, (n, C, *K)."""
    n_coils = len(calibration)
    patches = calibration
    for axis, width in enumerate(kernel, 1):
        patches = patches.unfold(axis, width, 1)
    n_axes = len(kernel)
    patches = patches.movedim(0, n_axes)  # (*positions, C, *K)
    n_patches = math.prod(patches.shape[:n_axes])
    length = n_coils * math.prod(kernel)
    if n_patches < length:
        columns = patches.reshape(n_patches, length).T
        squares, basis = torch.linalg.eigh(columns.mH @ columns)
    else:
        gram = calibration.new_zeros(length, length)
        for part in patches:
            columns = part.reshape(-1, length).T
            gram.addmm_(columns, columns.mH)
        squares, basis = torch.linalg.eigh(gram)
    is_kept = squares > threshold * squares[-1]
    if n_coils > 1 and n_patches >= length and is_kept.all():
        raise NoAnswer(
            f"espirit: the patches must span less than the {length} dimensions of a patch of "
            f"{n_coils} coils; give espirit a larger threshold if the data are noisy"
        )
    basis = basis[:, is_kept]
    if n_patches < length:
        basis = columns @ (basis / squares[is_kept].sqrt())
    kernels: Tensor = basis.T.reshape(-1, n_coils, *kernel)
    return kernels


def _small_images(kernels: Tensor) -> Tensor:
    """Return G on a grid of M points along each axis, its lower triangles: (*M, pairs)."""
    n_coils, *kernel = kernels.shape[1:]
    small = [2 * length - 1 for length in kernel]
    axes = [*range(2, 2 + len(small))]
    total = kernels.new_zeros(math.prod(small), n_coils, n_coils)
    for part in kernels.split(max(1, PIECE // (n_coils * math.prod(small)))):
        images = torch.fft.ifftn(part, small, axes, norm="forward").flatten(2).permute(2, 1, 0)
        total.baddbmm_(images, images.mH)
    row, column = torch.tril_indices(n_coils, n_coils, device=kernels.device)
    pairs: Tensor = (total[:, row, column] / math.prod(kernel)).unflatten(0, small)
    return pairs


def _write_maps(
    small: Tensor,
    kernel: Sequence[int],
    reference: Tensor,
    crop: float,
    maps: Tensor,
    values: Tensor,
) -> None:
    """Write the maps (n, C, *N) and the eigenvalues (n, *N), some rows of pixels at a time."""
    n_sets, n_coils, *sizes = maps.shape
    first, *others = (
        _dirichlet(size, length, small.device).to(values.dtype)
        for size, length in zip(sizes, kernel, strict=True)
    )
    row, column = torch.tril_indices(n_coils, n_coils, device=small.device)
    numbers = torch.view_as_real(small).flatten(-2)
    n_rows = max(1, PIECE // (n_coils**2 * math.prod(sizes[1:])))
    for start in range(0, sizes[0], n_rows):
        within = slice(start, start + n_rows)
        images = torch.tensordot(first[within], numbers, 1)
        for axis, weights in enumerate(others, 1):
            images = (weights @ images.flatten(axis + 1)).unflatten(-1, images.shape[axis + 1 :])
        shape = images.shape[:-1]
        entries = torch.view_as_complex(images.view(math.prod(shape), -1, 2))
        matrices = entries.new_zeros(len(entries), n_coils, n_coils)
        matrices[:, row, column] = entries
        eigenvalues, vectors = eigenvectors(matrices, n_sets, reference)
        vectors *= (eigenvalues > crop).unsqueeze(1)
        maps[:, :, within] = vectors.permute(2, 1, 0).unflatten(2, shape)
        values[:, within] = eigenvalues.T.unflatten(1, shape)


def _dirichlet(size: int, kernel: int, device: torch.device) -> Tensor:
    """Return the matrix (N, M) that takes a trigonometric polynomial from the small grid to pixels.

    Its frequencies are -(K - 1), ..., K - 1.
    """
    small = 2 * kernel - 1
    pixel, node, frequency = (
        torch.arange(start, stop, dtype=torch.float64, device=device)
        for start, stop in ((0, size), (0, small), (1, kernel))
    )
    away = (pixel.unsqueeze(1) - size // 2) / size - node / small
    angle = 2 * math.pi * away.unsqueeze(-1) * frequency
    weights: Tensor = (1 + 2 * angle.cos().sum(-1)) / small
    return weights
