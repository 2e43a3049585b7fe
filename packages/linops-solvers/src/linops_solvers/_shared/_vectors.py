"""One vector in a tensor, or a batch of vectors: inner products, norms, random vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Integral
from typing import Any, TypeAlias, cast

import torch
from torch import Generator, Tensor

from linops_core import NamedLinop, Role
from linops_core.siblings import (
    WHOLE,
    Totals,
    axis_of,
    check_vector,
    constant_when_compiled,
    inner,
    input_space,
    norm,
    squared_norm,
    totals_of,
)
from nameddim import ELLIPSES, ND, NamedDimension

from ._checks import Operator, is_complex_linear
from ._products import largest_part
from ._space import Space, spaces_of

BatchDims: TypeAlias = int | str | NamedDimension | Iterable[NamedDimension | str]


def input_or_random(
    owner: str,
    A: Operator,
    name: str,
    x: Tensor | None,
    sizes: Mapping[str, int] | None,
    seed: int,
    like: Tensor | None = None,
) -> tuple[Tensor, Generator]:
    """Return x, or normal numbers in the input space of A, and the generator for more.

    The space is that of ``like``, or follows from A and the sizes.
    """
    if not isinstance(seed, Integral) or isinstance(seed, bool):
        raise TypeError(f"{owner}: seed must be an integer, got {seed!r}")
    space, _ = spaces_of(owner, A)
    generator = space.generator(int(seed))
    options = {"like": like, "sizes": sizes, name: x}
    given = [key for key, value in options.items() if value is not None]
    if len(given) > 1:
        raise ValueError(f"{owner}: {' or '.join(options)} must be given alone, got {given}")
    if like is not None:
        check_vector(owner, "like", like)
        return space.random_like(like, generator), generator
    if x is not None:
        check_vector(owner, name, x)
        return x, generator
    if not isinstance(A, NamedLinop):
        raise TypeError(f"{owner}: a function must come with a first vector, got {A!r} alone")
    shape, dtype, device = input_space(A, sizes, default=torch.get_default_dtype())
    if space.totals.processes is not None:  # a rank without work has no weights that show the dtype
        told = space.totals.processes.told(dtype, "dtype of random vectors")
        dtype = reduce(torch.promote_types, cast(list[torch.dtype], told))
    if not A.is_complex_linear:  # a real part and an imaginary part see other parts of x
        dtype = dtype.to_complex()
    empty = torch.empty(shape, dtype=dtype, device=device or "cpu")
    return space.random_like(empty, generator), generator


@dataclass(frozen=True)
class BatchedVectors:
    """The independent vectors in a tensor: a batch, numbered by some of its axes."""

    axes: tuple[int, ...] = ()
    """The axes that number the vectors; () if the tensor is one vector."""
    totals: Totals = WHOLE
    """How sums over the parts of a vector are collected, if the tensor is a part."""
    has_complex_products: bool = True
    """Whether inner products are x^H z; else Re x^H z, for operators linear over the reals only."""

    @property
    def space(self) -> Space:
        """The space of one vector."""
        return Space(self.totals)

    def scalars_shape(self, x: Tensor) -> list[int]:
        """Return the shape of one number for each vector, which broadcasts to x."""
        shape = [size if axis in self.axes else 1 for axis, size in enumerate(x.shape)]
        return shape if self.axes else []

    def inner(self, x: Tensor, z: Tensor) -> Tensor:
        """Return x^H z of each, in ``scalars_shape``, without a temporary of the size of x."""
        if self.totals.add is None:
            products = inner(x, z, self.axes).reshape(self.scalars_shape(x))
        else:
            products = self.space.inner(x, z)
        return products if self.has_complex_products else products.real

    def norm(self, x: Tensor) -> Tensor:
        """Return the norm of each, in ``scalars_shape``."""
        if self.totals.add is not None:
            return self.space.norm(x)
        return norm(x, self.axes).reshape(self.scalars_shape(x))

    def measured(
        self, pairs: Sequence[tuple[Tensor, Tensor]], vectors: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the inner products of pairs and the norms of vectors, in one reduction."""
        if self.totals.add is None:
            return [*[self.inner(*pair) for pair in pairs], *[self.norm(each) for each in vectors]]
        products = [inner(*pair) for pair in pairs]
        if not self.has_complex_products:
            products = [product.real for product in products]
        found = self.space.total(*products, *(squared_norm(vector) for vector in vectors))
        return [*found[: len(pairs)], *(square.sqrt() for square in found[len(pairs) :])]

    def magnitude(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the norm of each, safe at any scale, and the same on the host in float64."""
        length = self.norm(x)
        on_host = length.detach().flatten().cpu().double()
        lowest, highest = self.space.bounds(x)
        if ((on_host > lowest) & (on_host < highest)).all():
            return length, on_host
        unit = self.unit(x)
        length = self.norm(x / unit) * unit
        return length, length.detach().flatten().cpu().double()

    def unit(self, y: Tensor, of_zeros: float = 1.0) -> Tensor:
        """Return a power of two for each, as :func:`unit_of` does."""
        if not y.numel() and self.totals.add is None:
            return y.detach().abs().new_full(self.scalars_shape(y), of_zeros)
        if self.totals.add is not None:  # of the sum of the largest of each part
            part = largest_part(y) if y.numel() else y.detach().abs().new_zeros(())
            (largest,) = self.space.total(part)
        else:
            largest = largest_part(y, self._others(y), keepdim=bool(self.axes))
        unit = torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1)
        unit = unit.clamp(min=torch.finfo(unit.dtype).tiny)
        return torch.where(largest > 0, unit, of_zeros)

    def unit_of(
        self, owner: str, *vectors: Tensor, is_output: bool = False, is_read: bool = True
    ) -> Any:
        """Return a power of two below the largest entry of each, 1 for zeros.

        A float for one vector whose values are read, else a tensor.
        """
        if is_read and not self.axes:
            return self.space.unit_of(owner, *vectors, is_output=is_output)
        unit = reduce(torch.maximum, [self.unit(vector, 0.0) for vector in vectors])
        return torch.where(unit > 0, unit, 1)

    def random_like(self, x: Tensor) -> Tensor:
        """Return normal numbers of the shape of x."""
        return self.space.random_like(x)

    def _others(self, x: Tensor) -> list[int]:
        return [axis for axis in range(x.ndim) if axis not in self.axes]


def batched_vectors(owner: str, A: Operator, y: Tensor, batch_dims: BatchDims) -> BatchedVectors:
    """Return the axes of y that number independent systems; y is like the input of A."""
    # A compiler knows arguments, but not the defaults of a dataclass.
    totals = totals_of(A, "input") or WHOLE
    is_complex = is_complex_linear(A)
    if totals.add is not None:
        if batch_dims != 0:
            raise NotImplementedError(
                f"{owner}: batch_dims must be 0 if several processes have a part of each "
                f"vector, got {batch_dims!r}"
            )
        return BatchedVectors((), totals, is_complex)
    if isinstance(batch_dims, int):
        if not 0 <= batch_dims <= y.ndim:
            raise ValueError(
                f"{owner}: batch_dims must be between 0 and the {y.ndim} axes of the vectors, "
                f"got {batch_dims}"
            )
        axes = tuple(range(batch_dims))
        if isinstance(A, NamedLinop):
            check_batch_axes(owner, A, axes, y.ndim)
        return BatchedVectors(axes, totals, is_complex)
    if not isinstance(A, NamedLinop):
        raise TypeError(
            f"{owner}: batch_dims must be a number for a function, which has no names, "
            f"got {batch_dims!r}"
        )
    axes = _axes(owner, A, batch_dims, y.ndim)
    check_batch_axes(owner, A, axes, y.ndim)
    return BatchedVectors(axes, totals, is_complex)


@constant_when_compiled
def check_batch_axes(
    owner: str, A: NamedLinop, axes: Sequence[int], ndim: int, name: str = "A"
) -> bool:
    """Raise an error unless A goes through these axes slice by slice."""
    for axis in axes:
        dim, there = (name_at(dims, axis, ndim) for dims in (A.ishape, A.oshape))
        if dim != there or (dim is not None and A.role(dim) is not Role.BATCH):
            reason = "" if dim != there or dim is None else A.why_opaque(dim)
            raise ValueError(
                f"{owner}: axis {axis} must be a batch dimension of {name}, {A.signature}, at one "
                f"place in input and output, got {dim} and {there}"
                + (f" ({reason})" if reason else "")
                + "; give fewer batch_dims, or 0 for one system"
            )
    return True


def name_at(dims: Sequence[NamedDimension], axis: int, ndim: int) -> NamedDimension | None:
    """Return the name of an axis; None within the run of ``...``."""
    if ELLIPSES not in dims or axis < dims.index(ELLIPSES):
        return dims[axis] if axis < len(dims) else None
    place = axis - ndim + len(dims)
    return dims[place] if place > dims.index(ELLIPSES) else None


@constant_when_compiled
def _axes(
    owner: str,
    A: NamedLinop,
    dims: str | NamedDimension | Iterable[NamedDimension | str],
    ndim: int,
) -> tuple[int, ...]:
    names = [dims] if isinstance(dims, (str, NamedDimension)) else dims
    return tuple(sorted(_axis(owner, A, ND.infer(dim), ndim) for dim in names))


def _axis(owner: str, A: NamedLinop, dim: NamedDimension, ndim: int) -> int:
    role = A.role(dim)
    if role is not Role.BATCH:
        raise ValueError(
            f"{owner}: {dim} must be a batch dimension of A, {A.signature}, got {role or 'none'}"
            + (f" ({A.why_opaque(dim)})" if role is Role.OPAQUE else "")
        )
    return axis_of(A.ishape.index(dim), A.ishape) % ndim
