"""Filtered back projection."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ._parallel_beam import ParallelBeam

# Of the frequency, 1 at the Nyquist frequency of the detectors.
_WINDOWS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "ramp": torch.ones_like,
    "shepp-logan": lambda f: torch.sinc(f / 2),
    "cosine": lambda f: (math.pi / 2 * f).cos(),
    "hamming": lambda f: 0.54 + 0.46 * (math.pi * f).cos(),
    "hann": lambda f: 0.5 + 0.5 * (math.pi * f).cos(),
}


def fbp(sinogram: Tensor, A: ParallelBeam, window: str = "ramp") -> Tensor:
    r"""Return the image by filtered back projection.

    Each projection is convolved with the ramp filter, band-limited to the detectors' Nyquist
    frequency and windowed, and back projected with ``A.H``. An angle counts with half the distance
    to its neighbours, modulo pi, so that the angles need not be equally spaced.

    Parameters
    ----------
    sinogram : Tensor
        (..., A, D), real or complex. Half precision and integers are computed in float32.
    A : ParallelBeam
        Its angles must cover the half circle, which is not checked; angles missing in a gap count
        as if the neighbours stood for them. Its detectors must not be farther apart than a pixel,
        or the image has stripes.
    window : {"ramp", "shepp-logan", "cosine", "hamming", "hann"}
        What the ramp is multiplied with, against noise; "ramp" is none.

    Returns
    -------
    Tensor
        (..., Nx, Ny).

    Raises
    ------
    TypeError
        If the sinogram is no tensor, or A no ParallelBeam.
    ValueError
        If there is no such window, or the sinogram is not of the size of A's output.

    References
    ----------
    A. C. Kak and M. Slaney, "Principles of computerized tomographic imaging", IEEE Press (1988),
    section 3.3.

    Examples
    --------
    >>> angles = torch.arange(90) * math.pi / 90
    >>> A = ParallelBeam(angles, 96, (64, 64))
    >>> disc = torch.zeros(64, 64)
    >>> disc[24:40, 24:40] = 1
    >>> abs(fbp(A(disc), A)[32, 32] - 1) < 0.05
    tensor(True)
    """
    if not isinstance(sinogram, Tensor):
        raise TypeError(f"fbp: the sinogram must be a torch.Tensor, got {type(sinogram)}")
    if not isinstance(A, ParallelBeam) or A.is_adjoint:
        raise TypeError(f"fbp: A must be a ParallelBeam, got {A!r}")
    if window not in _WINDOWS:
        raise ValueError(f"fbp: window must be one of {[*_WINDOWS]}, got {window!r}")
    angles = A.weight_part("angles")
    if sinogram.shape[-2:] != (len(angles), A.n_detectors):
        raise ValueError(
            f"fbp: the sinogram must have {len(angles)} angles and {A.n_detectors} detectors, got "
            f"shape {tuple(sinogram.shape)}"
        )
    # To at least float32: Fourier transforms of half precision and of integers are not to be had.
    sinogram = sinogram.to(torch.promote_types(sinogram.dtype, torch.float32))
    if not sinogram.numel():
        empty: Tensor = A.H(sinogram)
        return empty
    weights = (_angular_weights(angles) * A.detector_spacing).to(sinogram.real.dtype)
    image: Tensor = A.H(_filtered(sinogram, A.detector_spacing, window) * weights.unsqueeze(-1))
    return image


def _angular_weights(angles: Tensor) -> Tensor:
    """Return half the distance of each angle to its two neighbours, modulo pi."""
    turned, order = angles.to(torch.float64).remainder(math.pi).sort()
    gaps = turned.diff(append=turned[:1] + math.pi)
    return torch.empty_like(gaps).index_copy(0, order, (gaps + gaps.roll(1)) / 2)


def _filtered(sinogram: Tensor, spacing: float, window: str) -> Tensor:
    """Return the sinogram convolved with the ramp filter along its last axis."""
    n = sinogram.shape[-1]
    padded = 2 ** math.ceil(math.log2(max(2 * n, 2)))  # no projection wraps into itself
    at = torch.arange(padded // 2 + 1, dtype=torch.float64, device=sinogram.device)
    odd = (at % 2 == 1).double()
    ramp = -odd / (math.pi * at.clamp(min=1) * spacing).square()
    ramp[0] = 1 / (4 * spacing**2)
    whole = torch.cat([ramp, ramp[1:-1].flip(0)])
    response = torch.fft.fft(whole).real * spacing
    frequency = torch.fft.fftfreq(padded, 0.5, dtype=torch.float64, device=sinogram.device).abs()
    response *= _WINDOWS[window](frequency)
    spectrum = torch.fft.fft(sinogram, padded) * response.to(sinogram.real.dtype)
    result: Tensor = torch.fft.ifft(spectrum)[..., :n]
    return result if sinogram.is_complex() else result.real
