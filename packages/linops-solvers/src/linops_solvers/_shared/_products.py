"""Sums of scaled vectors, and the scales at which their squares are safe."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from linops_core.siblings import is_differentiated, real_parts, writing_is_safe

LARGEST_UNIT = 2.0**16
"""The largest moderate unit."""
LARGEST_OF_PRODUCTS = 2.0**40
"""The largest unit of A with which A^H A x is in range, and so the closed form of A.N."""


def scaled_sum(x: Tensor, scale: float | Tensor, z: Tensor, into: Tensor) -> Tensor:
    """Return x + scale z, in the memory of ``into``.

    The result is new memory if autograd or torch.func follows, or if a compiler plans the memory.
    """
    scales = [scale] if isinstance(scale, Tensor) else []
    is_new = not writing_is_safe() or is_differentiated(into, x, *scales, z)
    out = None if is_new else into
    if isinstance(scale, Tensor):
        return torch.addcmul(x, scale.to(z.dtype), z, out=out)
    return torch.add(x, z, alpha=scale, out=out)


def is_moderate(units: float | Tensor) -> bool:
    """Whether squares of sums of squares in these units are in range."""
    if isinstance(units, Tensor):
        return all(map(is_moderate, units.flatten().tolist()))
    return 1 / LARGEST_UNIT <= units <= LARGEST_UNIT


def largest_part(x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Return the largest magnitude of the real and imaginary parts of x, which is not empty."""
    parts = real_parts(x.detach())
    if dims is None and not keepdim:
        low, high = torch.aminmax(parts)  # without a temporary
        return torch.maximum(high, -low)
    dims = [*(range(x.ndim) if dims is None else dims), *range(x.ndim, parts.ndim)]
    largest = parts.abs().amax(dims, keepdim) if dims else parts.abs()
    return largest.squeeze(-1) if keepdim and x.is_complex() else largest


def safe_norms(dtype: torch.dtype, count: int) -> tuple[float, float]:
    """Return the range of norms of ``count`` numbers whose squares neither overflow nor vanish."""
    information = torch.finfo(dtype)
    lowest = math.sqrt(count * information.tiny / information.eps)
    return lowest, math.sqrt(information.max)
