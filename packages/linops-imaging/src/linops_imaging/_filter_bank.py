r"""Periodic two-channel filter banks with orthonormal filters, along one axis.

Of a period x of even length N, :math:`a_k = \sum_j h_{L-1-j} \, x_{2k + L/2 - j}` and
:math:`d_k = \sum_j (-1)^{j+1} h_j \, x_{2k + L/2 - j}`, k < N / 2, for a filter h of even length L.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

Filter: TypeAlias = Sequence[float]

# (tap of the low channel, tap of the high channel, parity p and lead m): x_{2 (k + m) + p}.
_Tap: TypeAlias = tuple[float, float, int, int]


def analysis(x: Tensor, axis: int, lowpass: Filter) -> Tensor:
    """Return a and d, one behind the other along ``axis``; of the shape of x."""
    axis %= x.ndim
    half = x.shape[axis] // 2
    taps = _taps(lowpass)
    phases = x.unflatten(axis, (half, 2))
    leads = [lead for *_, lead in taps]
    extended = [_extended(phases.select(axis + 1, p), axis, min(leads), max(leads)) for p in (0, 1)]
    result = x.new_zeros(x.shape)
    low, high = result.narrow(axis, 0, half), result.narrow(axis, half, half)
    for of_low, of_high, parity, lead in taps:
        part = extended[parity].narrow(axis, lead - min(leads), half)
        low.add_(part, alpha=of_low)
        high.add_(part, alpha=of_high)
    return result


def synthesis(y: Tensor, axis: int, lowpass: Filter) -> Tensor:
    """Return the inverse of :func:`analysis`, which is its adjoint."""
    axis %= y.ndim
    half = y.shape[axis] // 2
    taps = _taps(lowpass)
    lags = [-lead for *_, lead in taps]
    low, high = (
        _extended(y.narrow(axis, first, half), axis, min(lags), max(lags)) for first in (0, half)
    )
    result = torch.empty_like(y, memory_format=torch.contiguous_format)
    phases = result.unflatten(axis, (half, 2))
    for parity in (0, 1):
        phase = torch.zeros_like(low.narrow(axis, 0, half))
        for of_low, of_high, of_phase, lead in taps:
            if of_phase == parity:
                first = -lead - min(lags)
                phase.add_(low.narrow(axis, first, half), alpha=of_low)
                phase.add_(high.narrow(axis, first, half), alpha=of_high)
        phases.select(axis + 1, parity).copy_(phase)
        del phase  # before the other one is made
    return result


def _taps(lowpass: Filter) -> list[_Tap]:
    length = len(lowpass)
    taps = []
    for j in range(length):
        lead, parity = divmod(length // 2 - j, 2)
        sign = 1 if j % 2 else -1
        taps.append((lowpass[length - 1 - j], sign * lowpass[j], parity, lead))
    return taps


def _extended(x: Tensor, axis: int, first: int, last: int) -> Tensor:
    """Return elements ``first`` to N - 1 + ``last`` of the periodic signal."""
    if not first and not last:
        return x
    period = x.shape[axis]
    at = torch.arange(first, period + last, device=x.device).remainder(period)
    return x.index_select(axis, at)
