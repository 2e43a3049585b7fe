r"""Phantoms whose Fourier transform is known in closed form.

If data are simulated with the operator that also reconstructs them, the reconstruction looks better
than it is (the "inverse crime"). The k-space here is computed from ellipses, not from pixels.

Positions u are in units of the field of view, with the centre of pixel r of N at (r - N // 2) / N.
k-space locations l are in grid points, as in :mod:`linops_imaging.trajectories`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from linops_core.siblings import check_integer

from ._checks import check_dtype, check_real_tensor, sizes_of_grid
from ._ellipses import HEAD, in_axes_of_ellipse, transform, unit_radius
from ._some_at_a_time import AT_ONCE, some_at_a_time
from ._xray._parallel_beam import ParallelBeam

__all__ = ["CoilSeries", "shepp_logan", "shepp_logan_kspace", "shepp_logan_sinogram"]


def shepp_logan(grid_size: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the head of Shepp and Logan with the higher contrast of Toft, sampled at the pixels.

    Parameters
    ----------
    grid_size : sequence of int
        Two numbers for the slice, or three for the volume. Axis 0 points to the right of the head,
        axis 1 to its front.
    dtype : torch.dtype
        Real or complex.

    Returns
    -------
    Tensor
        Of shape ``grid_size``, values from 0 to 1.

    Raises
    ------
    TypeError
        If the dtype is not one of real or complex numbers.
    ValueError
        If the sizes are not two or three positive integers.

    References
    ----------
    L. A. Shepp and B. F. Logan, "The Fourier reconstruction of a head section", IEEE Transactions
    on Nuclear Science 21 (1974).

    P. Toft, "The Radon transform: theory and implementation", PhD thesis, Technical University of
    Denmark (1996).

    Examples
    --------
    >>> image = shepp_logan([64, 64])
    >>> image[32, 32], image.max()
    (tensor(0.2000), tensor(1.))
    """
    check_dtype("shepp_logan", dtype, real=True, complex_=True)
    sizes = sizes_of_grid("shepp_logan", grid_size, 2, 3)
    axes = [(torch.arange(n, dtype=torch.float64) - n // 2) * (2 / n) for n in sizes]
    image = torch.empty(sizes, dtype=dtype)
    n_rows = max(1, AT_ONCE // math.prod(sizes[1:]))
    for rows, part in zip(axes[0].split(n_rows), image.split(n_rows), strict=True):
        at = torch.stack(torch.meshgrid(rows, *axes[1:], indexing="ij"), -1)
        total = torch.zeros(part.shape, dtype=torch.float64)
        for ellipse in HEAD:
            total += ellipse.intensity * (unit_radius(ellipse, at) <= 1).double()
        part.copy_(total.clamp(min=0))  # sums of tenths are not exactly zero
    return image


def shepp_logan_kspace(
    locs: Tensor, grid_size: Sequence[int], maps: CoilSeries | None = None
) -> Tensor:
    r"""Return the k-space of the head of Shepp and Logan, in closed form,

    .. math:: y_j = \sqrt{\textstyle\prod N} \int x(u) \, s(u) \, e^{-2 \pi i \, l_j \cdot u} \, du,

    with coil sensitivities s, or s = 1 without maps. It approximates an orthonormal, centred
    :class:`linops_core.FFT` of the pixels of :func:`shepp_logan`.

    Parameters
    ----------
    locs : Tensor
        Real, (..., D) with D = 2 or 3.
    grid_size : sequence of int
        D numbers: N.
    maps : CoilSeries, optional
        Sensitivities of C coils; D must be the same.

    Returns
    -------
    Tensor
        Complex, (...), or (C, ...) with maps. The precision is that of the locations.

    Raises
    ------
    TypeError
        If the locations are not real numbers.
    ValueError
        If the sizes, locations and maps do not fit each other.

    References
    ----------
    M. Guerquin-Kern et al., "Realistic analytical phantoms for parallel magnetic resonance
    imaging", IEEE Transactions on Medical Imaging 31 (2012).

    Examples
    --------
    >>> from linops_core import FFT
    >>> l = torch.tensor([[0.0, 0.0], [3.0, -2.0]])
    >>> analytic = shepp_logan_kspace(l, [128, 128])
    >>> pixels = FFT(2, centered=True)(shepp_logan([128, 128]))[[64, 67], [64, 62]]
    >>> bool((analytic - pixels).abs().max() < 0.01 * pixels.abs().max())
    True
    """
    sizes = sizes_of_grid("shepp_logan_kspace", grid_size, 2, 3)
    check_real_tensor("shepp_logan_kspace", "locs", locs)
    if not locs.ndim or locs.shape[-1] != len(sizes):
        raise ValueError(
            f"shepp_logan_kspace: the last dimension of locs must have size {len(sizes)} for a "
            f"grid of {sizes}, got shape {tuple(locs.shape)}"
        )
    if maps is not None and maps.ndim != len(sizes):
        raise ValueError(
            f"shepp_logan_kspace: maps must be of {len(sizes)} dimensions for a grid of "
            f"{sizes}, got {maps.ndim}"
        )
    precision = torch.complex128 if locs.dtype == torch.float64 else torch.complex64
    frequencies = coefficients = None
    if maps is not None:
        frequencies = maps.frequencies.to(locs.device)
        coefficients = maps.coefficients.flatten(1).to(locs.device, torch.complex128)

    def transformed(at: Tensor) -> Tensor:
        """Return the k-space at some locations (n, D), (n,) or (n, C)."""
        at = at.to(torch.float64)
        if frequencies is None or coefficients is None:
            total = transform(at)
        else:
            total = transform(at.unsqueeze(-2) - frequencies) @ coefficients.mT
        return (math.sqrt(math.prod(sizes)) * total).to(precision)

    n_waves = 1 if frequencies is None else len(frequencies)
    n_at_once = AT_ONCE // (n_waves * len(sizes))
    values = some_at_a_time(transformed, locs.reshape(-1, len(sizes)), n_at_once)
    if coefficients is None:
        return values.view(locs.shape[:-1])
    return values.mT.reshape(len(coefficients), *locs.shape[:-1])


def shepp_logan_sinogram(
    angles: Tensor,
    n_detectors: int,
    grid_size: int | Sequence[int],
    detector_spacing: float = 1.0,
) -> Tensor:
    r"""Return line integrals of the head of Shepp and Logan, in closed form.

    :class:`linops_imaging.ParallelBeam` with the same arguments approximates them from the pixels
    of :func:`shepp_logan`. Lengths are in pixels. An ellipse of intensity 1 is the unit disc under
    a matrix B. Along a ray with unit normal n at the distance d to its centre, its line integral is

    .. math:: p = 2 \, |\det B| \, \sqrt{|B^T n|^2 - d^2} \, / \, |B^T n|^2 .

    Parameters
    ----------
    angles : Tensor
        Real, (A,), in radians.
    n_detectors : int
        D, at least 1.
    grid_size : (int, int)
        Size of the image that the head fills.
    detector_spacing : float
        Distance between neighbouring rays, positive.

    Returns
    -------
    Tensor
        Real, (A, D), in the precision of the angles.

    Raises
    ------
    TypeError
        If the angles are not real numbers, or a number is not an integer.
    ValueError
        If a number is out of range, or there is a wrong number of dimensions.

    References
    ----------
    A. C. Kak and M. Slaney, "Principles of computerized tomographic imaging", IEEE Press (1988),
    section 3.1.

    Examples
    --------
    >>> from linops_imaging import ParallelBeam
    >>> angles = torch.tensor([0.0, 1.0])
    >>> analytic = shepp_logan_sinogram(angles, 180, (128, 128))
    >>> pixels = ParallelBeam(angles, 180, (128, 128))(shepp_logan([128, 128]))
    >>> bool((analytic - pixels).norm() < 0.03 * analytic.norm())
    True
    """
    # ParallelBeam checks the arguments.
    rays = ParallelBeam(angles, n_detectors, grid_size, detector_spacing)
    half = [size / 2 for size in rays.grid_size]
    # The middle of the phantom is index N // 2, that of the rays (N - 1) / 2.
    shift = [size // 2 - (size - 1) / 2 for size in rays.grid_size]
    detectors = torch.arange(rays.n_detectors, dtype=torch.float64, device=angles.device)
    s = (detectors - (rays.n_detectors - 1) / 2) * rays.detector_spacing

    def views(angles: Tensor) -> Tensor:
        at = angles.to(torch.float64).unsqueeze(-1)
        normals = torch.stack([at.cos(), at.sin()], -1)  # (A, 1, 2)
        total = s.new_zeros(len(angles), rays.n_detectors)
        for ellipse in HEAD:
            half_axes = normals.new_tensor(ellipse.half_axes[:2])
            seen = half_axes * in_axes_of_ellipse(
                ellipse, normals.new_tensor(half) * normals
            )  # B^T n
            middle = [c * h + o for c, h, o in zip(ellipse.centre, half, shift, strict=False)]
            distance = s - (normals * normals.new_tensor(middle)).sum(-1)
            squared = seen.square().sum(-1)
            area = math.prod(half) * math.prod(ellipse.half_axes[:2])
            chord = (squared - distance.square()).clamp(min=0).sqrt() / squared
            total += 2 * ellipse.intensity * area * chord
        return total.to(angles.dtype)

    return some_at_a_time(views, angles, AT_ONCE // rays.n_detectors)


class CoilSeries:
    r"""Smooth coil sensitivities that are short Fourier series,

    .. math:: s_c(u) = \sum_p a_{cp} \, e^{i \pi \, p \cdot u},

    with P integers p around 0 along each axis; a period is two fields of view. They are known at
    every position, so the k-space of an ellipse multiplied by them is known in closed form.

    Parameters
    ----------
    coefficients : Tensor
        a, complex, (C, P, ...), with an odd P along each of two or three axes.

    Raises
    ------
    TypeError
        If the coefficients are not a tensor.
    ValueError
        If they do not have that shape.

    Examples
    --------
    >>> coils = CoilSeries.around(4, ndim=2)
    >>> coils.on_grid([32, 32]).shape
    torch.Size([4, 32, 32])
    """

    def __init__(self, coefficients: Tensor) -> None:
        if not isinstance(coefficients, Tensor):
            raise TypeError(
                f"CoilSeries: coefficients must be a torch.Tensor, got {type(coefficients)}"
            )
        sizes = coefficients.shape[1:]
        if len(sizes) not in (2, 3) or any(size % 2 == 0 for size in sizes):
            raise ValueError(
                "CoilSeries: coefficients must have the shape (C, P, ...), with an odd P along two "
                f"or three axes, got {tuple(coefficients.shape)}"
            )
        self.coefficients = coefficients

    @classmethod
    def around(cls, n_coils: int, ndim: int = 2, n_terms: int = 5) -> CoilSeries:
        """Return coils around the field of view, each with a different phase.

        The coils are on a circle around the middle of the first two axes; with ``ndim=3`` on rings
        of at most eight coils. The series is fitted to a sensitivity that falls off with the
        distance from the coil.

        Parameters
        ----------
        n_coils : int
            At least 1.
        ndim : {2, 3}
        n_terms : int
            P, odd.

        Raises
        ------
        TypeError, ValueError
            If a number has a wrong type or is out of range.
        """
        check_integer("CoilSeries.around", "n_coils", n_coils, 1)
        check_integer("CoilSeries.around", "n_terms", n_terms, 1)
        if ndim not in (2, 3):
            raise ValueError(f"CoilSeries.around: ndim must be 2 or 3, got {ndim!r}")
        series = cls(torch.zeros(1, *(n_terms,) * ndim, dtype=torch.complex128))
        fitted = (16,) * ndim
        axes = [(torch.arange(n, dtype=torch.float64) - n // 2) / n for n in fitted]
        at = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)
        n_rings = -(-n_coils // 8) if ndim == 3 else 1
        wanted = []
        for coil in range(n_coils):
            ring, angle = coil % n_rings, 2 * math.pi * coil / n_coils
            centre = [0.7 * math.cos(angle), 0.7 * math.sin(angle)]
            centre += [(ring + 0.5) / n_rings - 0.5] * (ndim - 2)
            away = at - torch.tensor(centre, dtype=torch.float64)
            strength = (-away.square().sum(-1) / 0.5).exp()
            phase = angle + 1.5 * (away[:, 0] * math.sin(angle) - away[:, 1] * math.cos(angle))
            wanted.append(torch.polar(strength, phase))
        waves = torch.exp(1j * math.pi * (at @ series.frequencies.T * 2))
        solution = torch.linalg.lstsq(waves, torch.stack(wanted, -1)).solution
        return cls(solution.T.reshape(n_coils, *(n_terms,) * ndim).contiguous())

    @property
    def ndim(self) -> int:
        """Number of dimensions of the space."""
        return self.coefficients.ndim - 1

    @property
    def frequencies(self) -> Tensor:
        """Frequencies of the terms in grid points of k-space, (product of P, ndim)."""
        device = self.coefficients.device
        axes = [
            (torch.arange(size, dtype=torch.float64, device=device) - size // 2) / 2
            for size in self.coefficients.shape[1:]
        ]
        return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)

    def on_grid(self, grid_size: Sequence[int], dtype: torch.dtype = torch.complex64) -> Tensor:
        """Return the sensitivities at the pixels, of shape ``(C, *grid_size)``.

        Parameters
        ----------
        grid_size : sequence of int
            One positive number for each dimension.
        dtype : torch.dtype
            Complex.

        Raises
        ------
        TypeError
            If the dtype is not complex.
        ValueError
            If there are not as many sizes as dimensions.
        """
        check_dtype("CoilSeries.on_grid", dtype, real=False, complex_=True)
        sizes = sizes_of_grid("CoilSeries.on_grid", grid_size, self.ndim)
        device = self.coefficients.device
        waves = []
        for size, n_terms in zip(sizes, self.coefficients.shape[1:], strict=True):
            at = (torch.arange(size, dtype=torch.float64, device=device) - size // 2) / size
            terms = torch.arange(n_terms, dtype=torch.float64, device=device) - n_terms // 2
            waves.append(torch.exp(1j * math.pi * torch.outer(terms, at)))
        maps = torch.empty(len(self.coefficients), *sizes, dtype=dtype, device=device)
        for number, coil in enumerate(self.coefficients.to(torch.complex128)):
            for wave in waves:
                coil = torch.tensordot(coil, wave, ([0], [0]))  # the next axis comes first
            maps[number] = coil
        return maps
