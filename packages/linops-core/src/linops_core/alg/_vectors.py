"""Tensors as vectors: sums in place, and norms whatever the scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .._kernels._tracing import is_recorded
from ._checks import finite


def add_scaled(x: Tensor, scale: Tensor | float, z: Tensor, into: Tensor | None = None) -> Tensor:
    """Return x + scale z; in the memory of x, or of ``into``, unless autograd follows."""
    into = x if into is None else into
    if not isinstance(scale, Tensor):
        return torch.add(x, z, alpha=scale, out=None if is_recorded(x, z) else into)
    scale = scale.to(z.dtype)
    return torch.addcmul(x, scale, z, out=None if is_recorded(x, z, scale) else into)


def is_moderate(units: float | Tensor) -> bool:
    """Whether squares of sums of squares in these units, which may be 0, are in any range."""
    if isinstance(units, Tensor):
        return all(map(is_moderate, units.flatten().tolist()))
    return 2.0**-16 <= units <= 2.0**16 or not units


def norm(x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Return the root of the sum of squares over some dimensions; over all by default."""

    def reduce(parts: Tensor, dims: list[int]) -> Tensor:
        length: Tensor = torch.linalg.vector_norm(parts, dim=dims, keepdim=keepdim)
        return length

    return _reduced(reduce, x, dims, keepdim)


def largest_part(x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Return the largest magnitude of the real and imaginary parts, of which there must be some."""
    return _reduced(lambda parts, dims: parts.abs().amax(dims, keepdim), x.detach(), dims, keepdim)


def _reduced(
    reduce: Callable[[Tensor, list[int]], Tensor],
    x: Tensor,
    dims: Sequence[int] | None,
    keepdim: bool,
) -> Tensor:
    """Reduce x, or pairs: complex norms take torch hundreds of times as long on a CPU."""
    dims = list(range(x.ndim) if dims is None else dims)
    if not x.is_complex():
        return reduce(x, dims) if dims else x.abs()
    found = reduce(torch.view_as_real(x.conj() if x.is_conj() else x), [*dims, x.ndim])
    return found.squeeze(-1) if keepdim else found


def magnitudes(owner: str, *vectors: Tensor, numbers: Sequence[Tensor] = ()) -> list[float]:
    """Return the norms of vectors, which must be finite, then the numbers; one wait for the device.

    A norm whose square leaves the range of the dtype is computed again in another unit.
    """
    norms = [norm(vector.detach()) for vector in vectors]
    found: list[float] = torch.stack([*norms, *(one.detach() for one in numbers)]).tolist()
    for index, vector in enumerate(vectors):
        lowest, highest = safe_norms(vector)
        if not lowest < found[index] < highest:
            unit = unit_of(owner, vector)
            found[index] = unit * float(norm(vector.detach() / unit).item())
    return found


def safe_norms(vector: Tensor) -> tuple[float, float]:
    """Return between which lengths the squares that make up a norm are in the range of the dtype.

    Squares that fall below the range are then, all together, below the precision of the sum.
    """
    information = torch.finfo(vector.dtype)
    lowest = math.sqrt(vector.numel() * information.tiny / information.eps)
    return lowest, math.sqrt(information.max)


def unit_of(owner: str, y: Tensor, is_output: bool = False) -> float:
    """Return the power of two below the largest part of y, 1 for zeros: no square overflows in it.

    An error names the dtype where y is an output of A, of which the scale may be the reason.
    """
    dtype = y.dtype if is_output else None
    largest = finite(owner, largest_part(y).item(), dtype) if y.numel() else 0.0
    # The inverse of a unit must be in the range as well: some devices multiply by it.
    lowest = torch.finfo(y.dtype).tiny
    return min(max(2.0 ** (math.frexp(largest)[1] - 1), lowest), 1 / lowest) if largest else 1.0
