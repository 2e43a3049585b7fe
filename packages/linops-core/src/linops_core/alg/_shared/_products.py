"""Inner products and norms of tensors as vectors, safe at any scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from ..._kernels._tracing import is_followed


def add_scaled(x: Tensor, scale: Tensor | float, z: Tensor, into: Tensor | None = None) -> Tensor:
    """Return x + scale z; in the memory of x, or of ``into``, unless autograd records."""
    into = x if into is None else into
    if not isinstance(scale, Tensor):
        return torch.add(x, z, alpha=scale, out=None if is_followed(x, z) else into)
    scale = scale.to(z.dtype)
    return torch.addcmul(x, scale, z, out=None if is_followed(x, z, scale) else into)


def scaled_sum(x: Tensor, scale: float, z: Tensor, into: Tensor | None) -> Tensor:
    """Return x + scale z; in the memory of ``into``, if there is some, unless autograd follows."""
    is_free = into is not None and not is_followed(x, z, into)
    return torch.add(x, z, alpha=scale, out=into if is_free else None)


def extrapolated(x: Tensor, z: Tensor, factor: float, into: Tensor) -> Tensor:
    """Return x + factor (z - x); in the memory of ``into`` unless autograd follows."""
    return torch.lerp(x, z, factor, out=None if is_followed(x, z, into) else into)


def divided(x: Tensor, unit: Tensor | float, into: Tensor | None) -> Tensor:
    """Return x / unit; in the memory of ``into``, if there is some, unless autograd follows."""
    is_free = into is not None and not is_followed(x, into)
    return torch.div(x, unit, out=into if is_free else None)


def copied(x: Tensor, into: Tensor) -> Tensor:
    """Return a copy of x; in the memory of ``into`` unless autograd follows."""
    return x.clone() if is_followed(x, into) else into.copy_(x)


def is_moderate(units: float | Tensor) -> bool:
    """Whether squares of sums of squares in these units are in range."""
    if isinstance(units, Tensor):
        return all(map(is_moderate, units.flatten().tolist()))
    return 2.0**-16 <= units <= 2.0**16


def inner(x: Tensor, z: Tensor) -> Tensor:
    """Return x^H z of two tensors, each as one vector, without a temporary of their size."""
    if x.ndim != 1:
        x, z = x.flatten(), z.flatten()
    return torch.vdot(x, z)


def norm(x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Return the root of the sum of squares over some dimensions; over all by default."""
    vector_norm = torch.linalg.vector_norm
    if dims is None and not keepdim and not x.is_complex():
        length: Tensor = vector_norm(x)
        return length
    return _reduced(lambda x, dims: vector_norm(x, 2, dims, keepdim), x, dims, keepdim)


def largest_part(x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Return the largest magnitude of the real and imaginary parts of x, which is not empty."""
    is_of_all = dims is None and not keepdim

    def reduce(parts: Tensor, dims: list[int]) -> Tensor:
        if not is_of_all:
            return parts.abs().amax(dims, keepdim)
        low, high = torch.aminmax(parts)  # without a temporary
        return torch.maximum(high, -low)

    return _reduced(reduce, x.detach(), dims, keepdim)


def _reduced(
    reduce: Callable[[Tensor, list[int]], Tensor],
    x: Tensor,
    dims: Sequence[int] | None,
    keepdim: bool,
) -> Tensor:
    """Reduce the real and imaginary parts: complex norms of torch are far slower on a CPU."""
    dims = list(range(x.ndim) if dims is None else dims)
    if not x.is_complex():
        return reduce(x, dims) if dims else x.abs()
    if is_dynamo_compiling():  # which cannot be asked whether it is conjugated, and needs no copy
        x = x.resolve_conj()
    else:
        x = x.conj() if x.is_conj() else x
    found = reduce(torch.view_as_real(x), [*dims, x.ndim])
    return found.squeeze(-1) if keepdim else found


def safe_norms(dtype: torch.dtype, count: int) -> tuple[float, float]:
    """Return the range of norms of ``count`` numbers whose squares neither overflow nor vanish."""
    information = torch.finfo(dtype)
    lowest = math.sqrt(count * information.tiny / information.eps)
    return lowest, math.sqrt(information.max)
