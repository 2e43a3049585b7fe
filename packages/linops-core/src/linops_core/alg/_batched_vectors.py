"""Independent problems side by side in one tensor: which dimensions number them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from nameddim import ELLIPSES, ND, NamedDimension

from .._base._linop import NamedLinop
from .._base._roles import Role
from ._checks import Operator
from ._vectors import largest_part, norm, safe_norms

BatchDims: TypeAlias = int | str | NamedDimension | Iterable[NamedDimension | str]


@dataclass(frozen=True)
class BatchedVectors:
    """The independent vectors in a tensor, one for each index into some of its dimensions."""

    axes: tuple[int, ...] = ()
    """The axes that number them; none where the tensor is one vector."""

    def scalars_shape(self, x: Tensor) -> list[int]:
        """Return the shape of one number for each, to be multiplied with x."""
        shape = [size if axis in self.axes else 1 for axis, size in enumerate(x.shape)]
        return shape if self.axes else []

    def inner(self, x: Tensor, z: Tensor) -> Tensor:
        """Return x^H z of each, in ``scalars_shape``; no product of the size of x is made."""
        if not self.axes:
            return torch.vdot(x.flatten(), z.flatten())
        rows, columns = self._rows(x), self._rows(z)
        products = torch.matmul(rows.conj().unsqueeze(-2), columns.unsqueeze(-1))
        return products.reshape(self.scalars_shape(x))

    def norm(self, x: Tensor) -> Tensor:
        """Return the norm of each, in ``scalars_shape``."""
        return norm(x, self._others(x), keepdim=bool(self.axes))

    def magnitude(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the norm of each, whatever its scale, and the same on the host in float64."""
        length = self.norm(x)
        on_host = length.detach().flatten().cpu().double()
        lowest, highest = safe_norms(x)
        if ((on_host > lowest) & (on_host < highest)).all():
            return length, on_host
        unit = self.unit(x)
        length = self.norm(x / unit) * unit
        return length, length.detach().flatten().cpu().double()

    def unit(self, y: Tensor, of_zeros: float = 1.0) -> Tensor:
        """Return the power of two below the largest part of each, as :func:`unit_of` does."""
        if not y.numel():
            return y.detach().abs().new_full(self.scalars_shape(y), of_zeros)
        largest = largest_part(y, self._others(y), keepdim=bool(self.axes))
        unit = torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1)
        unit = unit.clamp(min=torch.finfo(unit.dtype).tiny)
        return torch.where(largest > 0, unit, of_zeros)

    def _others(self, x: Tensor) -> list[int]:
        return [axis for axis in range(x.ndim) if axis not in self.axes]

    def _rows(self, x: Tensor) -> Tensor:
        first = x.movedim(self.axes, tuple(range(len(self.axes))))
        return first.reshape(math.prod(x.shape[axis] for axis in self.axes), -1)


def batched_vectors(owner: str, A: Operator, y: Tensor, batch_dims: BatchDims) -> BatchedVectors:
    """Return which axes of y, which is like the input of A, number independent systems."""
    if isinstance(batch_dims, int):
        if not 0 <= batch_dims <= y.ndim:
            raise ValueError(
                f"{owner}: batch_dims must be between 0 and the {y.ndim} axes of the vectors, "
                f"got {batch_dims}"
            )
        return BatchedVectors(tuple(range(batch_dims)))
    if not isinstance(A, NamedLinop):
        raise TypeError(
            f"{owner}: batch_dims must be a number for a function, which has no names, "
            f"got {batch_dims!r}"
        )
    if isinstance(batch_dims, (str, NamedDimension)):
        batch_dims = [batch_dims]
    axes = sorted(_axis(owner, A, ND.infer(dim), y.ndim) for dim in batch_dims)
    return BatchedVectors(tuple(axes))


def _axis(owner: str, A: NamedLinop, dim: NamedDimension, ndim: int) -> int:
    role = A.role(dim)
    if role is not Role.BATCH:
        raise ValueError(
            f"{owner}: {dim} must be a batch dimension of A, {A.signature}, got {role or 'none'}"
            + (f" ({A.why_opaque(dim)})" if role is Role.OPAQUE else "")
        )
    place = A.ishape.index(dim)
    if ELLIPSES in A.ishape[:place]:
        return place - len(A.ishape) + ndim
    return place
