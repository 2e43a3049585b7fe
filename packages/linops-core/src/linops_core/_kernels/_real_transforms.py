"""Half spectra and cosine transforms of real signals of N points, along the last axis.

Of the Fourier transform of a real signal only k = 0, ..., N // 2 are needed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ._dtype import imag_part


def real_signal(y: Tensor, n: int, norm: str) -> Tensor:
    r"""Return :math:`\mathrm{Re} \sum_k y_k e^{2 \pi i k n / N}`, each k once.

    ``norm`` scales it as in :func:`torch.fft.irfft`.
    """
    # irfft counts each k twice, except those that are their own conjugates.
    alone = [0, n // 2] if n % 2 == 0 else [0]
    of_real = torch.full((n // 2 + 1,), 0.5, dtype=y.real.dtype, device=y.device)
    of_imag = of_real.clone()
    of_real[alone], of_imag[alone] = 1.0, 0.0
    halved = torch.complex(y.real * of_real, imag_part(y) * of_imag)
    signal: Tensor = torch.fft.irfft(halved, n=n, norm=norm)
    return signal


def normal_of_half(x: Tensor) -> Tensor:
    """Return the adjoint of the half spectrum of a real signal, with orthonormal scale.

    It is half the signal plus half its parts of k = 0 and, for even N, of k = N / 2.
    """
    n = x.shape[-1]
    total = x + x.mean(-1, keepdim=True)
    if n % 2 == 0:
        signs = torch.ones(n, dtype=x.dtype, device=x.device)
        signs[1::2] = -1
        total = total + signs * (x * signs).mean(-1, keepdim=True)
    return total / 2


def cosine_transform(x: Tensor) -> Tensor:
    """Return the orthonormal cosine transform (DCT-II) of a real x.

    References
    ----------
    J. Makhoul, "A fast cosine transform in one and two dimensions", IEEE Transactions on Acoustics,
    Speech, and Signal Processing 28 (1980), section III.
    """
    n = x.shape[-1]
    v = torch.cat([x[..., ::2], x[..., 1::2].flip(-1)], dim=-1)
    turned = torch.fft.rfft(v) * _phases(n, x, -1)
    upper = turned.imag[..., 1 : (n + 1) // 2].flip(-1)
    return torch.cat([turned.real, -upper], dim=-1) * _scales(n, x)


def inverse_cosine_transform(y: Tensor) -> Tensor:
    """Return the inverse, which is the adjoint (DCT-III), of a real y."""
    n = y.shape[-1]
    y = y / (_scales(n, y) * n)
    mirrored = torch.nn.functional.pad(y.flip(-1), (1, 0))[..., : n // 2 + 1]
    values = torch.complex(y[..., : n // 2 + 1].contiguous(), -mirrored)
    v = torch.fft.irfft(values * _phases(n, y, 1), n=n, norm="forward")
    even, odd = v[..., : (n + 1) // 2], v[..., (n + 1) // 2 :].flip(-1)
    odd = torch.nn.functional.pad(odd, (0, n % 2))
    return torch.stack([even, odd], dim=-1).flatten(-2)[..., :n]


def _phases(n: int, like: Tensor, sign: int) -> Tensor:
    """Return exp(sign i pi k / 2n) for k up to n // 2."""
    k = torch.arange(n // 2 + 1, dtype=torch.float64, device=like.device)
    angles = (sign * math.pi / (2 * n)) * k
    return torch.complex(angles.cos().to(like.dtype), angles.sin().to(like.dtype))


def _scales(n: int, like: Tensor) -> Tensor:
    """Return the factors that make the rows orthonormal."""
    scales = torch.full((n,), math.sqrt(2 / n), dtype=like.dtype, device=like.device)
    return torch.cat([scales[:1] * math.sqrt(0.5), scales[1:]])
