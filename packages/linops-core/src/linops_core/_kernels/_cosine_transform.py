"""The orthonormal discrete cosine transform along the last axis, by a real Fourier transform.

N points; of a real signal only N // 2 + 1 values of its Fourier transform are needed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def cosine_transform(x: Tensor) -> Tensor:
    """Return the transform (DCT-II) of a real x along the last axis.

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
    """Return the inverse, which is the adjoint (DCT-III), of a real y along the last axis."""
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
