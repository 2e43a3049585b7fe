"""Tensors as vectors, one or many side by side: sums, norms whatever the scale, random ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TypeAlias

import torch
from torch import Generator, Tensor
from torch.compiler import is_dynamo_compiling

from nameddim import ELLIPSES, ND, NamedDimension

from ..._base._linop import NamedLinop
from ..._base._roles import Role
from ..._base._sizes import input_space
from ..._base._totals import WHOLE, Totals
from ..._kernels._tracing import constant_when_compiled, is_recorded
from ._checks import (
    Operator,
    check_vector,
    finite,
    is_complex_linear,
    refuse_parts,
)

BatchDims: TypeAlias = int | str | NamedDimension | Iterable[NamedDimension | str]


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


def inner(x: Tensor, z: Tensor) -> Tensor:
    """Return x^H z of two tensors, each as one vector; no product of their size is made."""
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
    if is_dynamo_compiling():  # which cannot ask whether it is conjugated, and needs no copy
        x = x.resolve_conj()
    else:
        x = x.conj() if x.is_conj() else x
    found = reduce(torch.view_as_real(x), [*dims, x.ndim])
    return found.squeeze(-1) if keepdim else found


def magnitudes(owner: str, *vectors: Tensor, numbers: Sequence[Tensor] = ()) -> list[float]:
    """Return the norms of vectors, whatever their scale, and numbers; one wait for the device."""
    norms = [norm(vector.detach()) for vector in vectors]
    found: list[float] = torch.stack([*norms, *(one.detach() for one in numbers)]).tolist()
    for index, vector in enumerate(vectors):
        lowest, highest = safe_norms(vector)
        if not lowest < found[index] < highest:
            unit = unit_of(owner, vector)
            found[index] = unit * float(norm(vector.detach() / unit).item())
    return found


def safe_norms(vector: Tensor) -> tuple[float, float]:
    """Return between which lengths the squares in a norm are in range, or lost in rounding."""
    information = torch.finfo(vector.dtype)
    lowest = math.sqrt(vector.numel() * information.tiny / information.eps)
    return lowest, math.sqrt(information.max)


def unit_of(owner: str, y: Tensor, is_output: bool = False) -> float:
    """Return the power of two below the largest part of y, 1 for zeros; squares are safe in it."""
    dtype = y.dtype if is_output else None
    largest = finite(owner, largest_part(y).item(), dtype) if y.numel() else 0.0
    # The inverse of a unit must be in the range as well: some devices multiply by it.
    lowest = torch.finfo(y.dtype).tiny
    return min(max(2.0 ** (math.frexp(largest)[1] - 1), lowest), 1 / lowest) if largest else 1.0


def random_like(x: Tensor, generator: Generator | None = None, count: int | None = None) -> Tensor:
    """Return normal numbers of the shape of x, or ``count`` rows of as many; seed 0 by default."""
    shape = x.shape if count is None else (count, x.numel())
    generator = generator or Generator().manual_seed(0)
    # Drawn on the CPU, whatever the default device, so that a seed means the same everywhere.
    return torch.randn(shape, dtype=x.dtype, generator=generator, device="cpu").to(x.device)


def input_or_random(
    owner: str,
    A: Operator,
    name: str,
    x: Tensor | None,
    sizes: Mapping[str, int] | None,
    seed: int,
    like: Tensor | None = None,
) -> tuple[Tensor, Generator]:
    """Return x, or normal numbers in the space of the inputs of A, and the generator for more.

    That space is the one of ``like``, or follows from A and the sizes.
    """
    if not isinstance(seed, Integral) or isinstance(seed, bool):
        raise TypeError(f"{owner}: seed must be an integer, got {seed!r}")
    refuse_parts(owner, A, "input")
    generator = Generator().manual_seed(int(seed) % 2**63)
    given = [
        key for key, value in ((name, x), ("like", like), ("sizes", sizes)) if value is not None
    ]
    if len(given) > 1:
        raise ValueError(f"{owner}: {name}, like or sizes must be given alone, got {given}")
    if like is not None:
        check_vector(owner, "like", like)
        return random_like(like, generator), generator
    if x is not None:
        check_vector(owner, name, x)
        return x, generator
    if not isinstance(A, NamedLinop):
        raise TypeError(f"{owner}: a function must come with a first vector, got {A!r} alone")
    shape, dtype, device = input_space(A, sizes, default=torch.get_default_dtype())
    if not A.is_complex_linear:  # a real part and an imaginary part see other parts of x
        dtype = dtype.to_complex()
    space = torch.empty(shape, dtype=dtype, device=device or "cpu")
    return random_like(space, generator), generator


@dataclass(frozen=True)
class BatchedVectors:
    """The independent vectors in a tensor, one for each index into some of its dimensions."""

    axes: tuple[int, ...] = ()
    """The axes that number them; none where the tensor is one vector."""
    totals: Totals = WHOLE
    """How numbers of parts of a vector are added up, if the tensor is a part of it."""
    has_complex_products: bool = True
    """Whether inner products are x^H z; else Re x^H z, for operators linear over the reals only."""

    def scalars_shape(self, x: Tensor) -> list[int]:
        """Return the shape of one number for each, to be multiplied with x."""
        shape = [size if axis in self.axes else 1 for axis, size in enumerate(x.shape)]
        return shape if self.axes else []

    def inner(self, x: Tensor, z: Tensor) -> Tensor:
        """Return x^H z of each, in ``scalars_shape``; no product of the size of x is made."""
        products = self._inner(x, z)
        return products if self.has_complex_products else products.real

    def _inner(self, x: Tensor, z: Tensor) -> Tensor:
        if not self.axes:
            return inner(x, z) if self.totals.add is None else self.summed(inner(x, z))[0]
        rows, columns = self._rows(x), self._rows(z)
        products = torch.matmul(rows.conj().unsqueeze(-2), columns.unsqueeze(-1))
        return products.reshape(self.scalars_shape(x))

    def norm(self, x: Tensor) -> Tensor:
        """Return the norm of each, in ``scalars_shape``."""
        if self.totals.add is not None:
            return self.summed(norm(x) ** 2)[0].sqrt()
        return norm(x, self._others(x), keepdim=True) if self.axes else norm(x)

    def summed(self, *numbers: Tensor) -> Sequence[Tensor]:
        """Return numbers of the whole vectors, given those of a part; added up all at once."""
        if self.totals.add is None:
            return numbers
        dtype = torch.promote_types(numbers[0].dtype, numbers[-1].dtype)
        found = self.totals.add(torch.stack([number.to(dtype) for number in numbers]))
        pairs = zip(found.unbind(), numbers, strict=True)
        return [one if like.is_complex() else one.real for one, like in pairs]

    def measured(
        self, pairs: Sequence[tuple[Tensor, Tensor]], vectors: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the inner products of pairs, and the norms of vectors; added up all at once."""
        if self.totals.add is None:
            return [*[self.inner(*pair) for pair in pairs], *[self.norm(each) for each in vectors]]
        products = [inner(*pair) for pair in pairs]
        found = self.summed(*products, *(norm(vector) ** 2 for vector in vectors))
        return [*found[: len(pairs)], *(square.sqrt() for square in found[len(pairs) :])]

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
        if not y.numel() and self.totals.add is None:
            return y.detach().abs().new_full(self.scalars_shape(y), of_zeros)
        if self.totals.add is not None:  # of the sum of the largest of each part
            part = largest_part(y) if y.numel() else y.detach().abs().new_zeros(())
            (largest,) = self.summed(part)
        else:
            largest = largest_part(y, self._others(y), keepdim=bool(self.axes))
        unit = torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1)
        unit = unit.clamp(min=torch.finfo(unit.dtype).tiny)
        return torch.where(largest > 0, unit, of_zeros)

    def _others(self, x: Tensor) -> list[int]:
        return [axis for axis in range(x.ndim) if axis not in self.axes]

    def _rows(self, x: Tensor) -> Tensor:
        first = x.movedim(self.axes, tuple(range(len(self.axes))))
        return first.reshape(math.prod([x.shape[axis] for axis in self.axes]), -1)


def batched_vectors(owner: str, A: Operator, y: Tensor, batch_dims: BatchDims) -> BatchedVectors:
    """Return which axes of y, which is like the input of A, number independent systems."""
    # A compiler knows what is passed, but not what a dataclass has as its default.
    totals = (A.totals("input") if isinstance(A, NamedLinop) else None) or WHOLE
    is_complex = is_complex_linear(A)
    if totals.add is not None:
        if batch_dims != 0:
            raise NotImplementedError(
                f"{owner}: batch_dims must be 0 where several processes have a part of each "
                f"vector, got {batch_dims!r}"
            )
        return BatchedVectors((), totals, is_complex)
    if isinstance(batch_dims, int):
        if not 0 <= batch_dims <= y.ndim:
            raise ValueError(
                f"{owner}: batch_dims must be between 0 and the {y.ndim} axes of the vectors, "
                f"got {batch_dims}"
            )
        return BatchedVectors(tuple(range(batch_dims)), totals, is_complex)
    if not isinstance(A, NamedLinop):
        raise TypeError(
            f"{owner}: batch_dims must be a number for a function, which has no names, "
            f"got {batch_dims!r}"
        )
    return BatchedVectors(_axes(owner, A, batch_dims, y.ndim), totals, is_complex)


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
    place = A.ishape.index(dim)
    return place - len(A.ishape) + ndim if ELLIPSES in A.ishape[:place] else place
