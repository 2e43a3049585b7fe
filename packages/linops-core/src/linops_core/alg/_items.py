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
from ._vectors import Operator, largest_part, norm

BatchDims: TypeAlias = int | str | NamedDimension | Iterable[NamedDimension | str]


@dataclass(frozen=True)
class Items:
    """The independent vectors in a tensor, one for each index into some of its dimensions."""

    axes: tuple[int, ...]
    """The axes that number them; none where the tensor is one vector."""

    def count(self, x: Tensor) -> int:
        """Return how many there are."""
        return math.prod(x.shape[axis] for axis in self.axes)

    def scalars_shape(self, x: Tensor) -> list[int]:
        """Return the shape of one number for each, to be multiplied with x."""
        if not self.axes:
            return []
        return [size if axis in self.axes else 1 for axis, size in enumerate(x.shape)]

    def inner(self, x: Tensor, z: Tensor) -> Tensor:
        """Return x^H z of each, in ``scalars_shape``; no product of the size of x is made."""
        if not self.axes:
            return torch.vdot(x.flatten(), z.flatten())
        rows, columns = self._rows(x), self._rows(z)
        products = torch.matmul(rows.conj().unsqueeze(-2), columns.unsqueeze(-1))
        return products.reshape(self.scalars_shape(x))

    def norm(self, x: Tensor) -> Tensor:
        """Return the norm of each, in ``scalars_shape``."""
        others = [axis for axis in range(x.ndim) if axis not in self.axes]
        return norm(x, others, keepdim=bool(self.axes)) if others else x.abs()

    def magnitude(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the norm of each, and the same on the host in double precision.

        Where a square leaves the range of the dtype, they are computed again in other units.
        """
        length = self.norm(x)
        on_host = length.detach().flatten().cpu().double()
        information = torch.finfo(x.dtype)
        lowest = math.sqrt(x.numel() * information.tiny / information.eps)
        if ((on_host > lowest) & (on_host < math.sqrt(information.max))).all():
            return length, on_host
        unit = self.unit(x)
        unit = torch.where(unit > 0, unit, 1)
        length = self.norm(x / unit) * unit
        return length, length.detach().flatten().cpu().double()

    def unit(self, y: Tensor) -> Tensor:
        """Return the power of two below the largest part of each; 0 for zeros.

        In this unit no square of a norm leaves the range of the dtype, and to change to it and
        back rounds nothing.
        """
        if not y.numel():
            return y.detach().abs().new_zeros(self.scalars_shape(y))
        others = [axis for axis in range(y.ndim) if axis not in self.axes]
        largest = largest_part(y, others, keepdim=bool(self.axes)) if others else y.detach().abs()
        unit = torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1)
        return torch.where(largest > 0, unit.clamp(min=torch.finfo(unit.dtype).tiny), 0)

    def _rows(self, x: Tensor) -> Tensor:
        return x.movedim(self.axes, tuple(range(len(self.axes)))).reshape(self.count(x), -1)


def items_of(owner: str, A: Operator, y: Tensor, batch_dims: BatchDims) -> Items:
    """Return which axes of y number independent systems.

    Parameters
    ----------
    owner : str
        Who asks, for messages.
    A : NamedLinop or function
    y : Tensor
        Of the shape of the input of A.
    batch_dims : int, or dimensions
        How many first axes, or the names of dimensions of the input of A.

    Raises
    ------
    TypeError
        If names are given and A is a function.
    ValueError
        If y has not as many axes, or A has not these dimensions as batch dimensions.
    """
    if isinstance(batch_dims, int):
        if not 0 <= batch_dims <= y.ndim:
            raise ValueError(
                f"{owner}: batch_dims must be between 0 and the {y.ndim} axes of the vectors, "
                f"got {batch_dims}"
            )
        return Items(tuple(range(batch_dims)))
    if not isinstance(A, NamedLinop):
        raise TypeError(
            f"{owner}: batch_dims must be a number for a function, which has no names, "
            f"got {batch_dims!r}"
        )
    if isinstance(batch_dims, (str, NamedDimension)):
        batch_dims = [batch_dims]
    return Items(tuple(sorted(_axis(owner, A, ND.infer(dim), y.ndim) for dim in batch_dims)))


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
