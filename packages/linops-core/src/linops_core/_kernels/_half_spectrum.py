"""Half spectra of real signals: k = 0, ..., N // 2 along the last axis, of N points."""

from __future__ import annotations

import torch
from torch import Tensor

from ._complex import imag_part


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
