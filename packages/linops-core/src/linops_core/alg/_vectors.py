"""Tensors as vectors: sums in place, and norms whatever the scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


def extrapolated(x: Tensor, z: Tensor, factor: float, into: Tensor) -> Tensor:
    """Return x + factor (z - x); in the memory of ``into`` unless autograd follows."""
    return torch.lerp(x, z, factor, out=None if is_recorded(x, z) else into)


def is_moderate(units: float | Tensor) -> bool:
    """Whether squares of sums of squares in these units, which may be 0, are in any range."""
    if isinstance(units, Tensor):
        return all(map(is_moderate, units.flatten().tolist()))
    return 2.0**-16 <= units <= 2.0**16 or not units


def norm(x: Tensor, dims: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    """Return the root of the sum of squares over some dimensions, or over all.

    Complex numbers are taken for pairs of real ones, for which there are vector instructions: torch
    takes hundreds of times as long for complex norms on a CPU.
    """
    dims = list(dims) or list(range(x.ndim))
    if not x.is_complex():
        length: Tensor = torch.linalg.vector_norm(x, dim=dims or None, keepdim=keepdim)
        return length
    length = torch.linalg.vector_norm(_pairs(x), dim=[*dims, x.ndim], keepdim=keepdim)
    return length.squeeze(-1) if keepdim else length


def largest_part(x: Tensor, dims: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    """Return the largest magnitude of the real and imaginary parts, which must be some."""
    dims, x = list(dims) or list(range(x.ndim)), x.detach()
    if not x.is_complex():
        return x.abs().amax(dims, keepdim=keepdim)
    part = _pairs(x).abs().amax([*dims, x.ndim], keepdim=keepdim)
    return part.squeeze(-1) if keepdim else part


def _pairs(x: Tensor) -> Tensor:
    return torch.view_as_real(x.conj() if x.is_conj() else x)


def magnitudes(owner: str, *vectors: Tensor, numbers: Sequence[Tensor] = ()) -> list[float]:
    """Return the norms of the vectors and, after them, the numbers; one wait for the device.

    A norm whose square leaves the range of the dtype is computed again in another unit.

    Raises
    ------
    ArithmeticError
        If a vector has NaN or infinity.
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
    """Return the power of two below the largest part of y, maybe an output; 1 for zeros.

    In this unit no square of a norm leaves the range of the dtype, and to change to it and back
    rounds nothing.
    """
    dtype = y.dtype if is_output else None
    largest = finite(owner, largest_part(y).item(), dtype) if y.numel() else 0.0
    # The inverse of a unit must be in the range as well: some devices multiply by it.
    lowest = torch.finfo(y.dtype).tiny
    return min(max(2.0 ** (math.frexp(largest)[1] - 1), lowest), 1 / lowest) if largest else 1.0
