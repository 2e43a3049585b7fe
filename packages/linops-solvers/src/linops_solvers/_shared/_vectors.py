"""The first vectors of solvers, and the axes of vectors that number independent systems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias, cast

import torch
from torch import Generator, Tensor

from linops_core import NamedLinop, Role
from linops_core.siblings import (
    WHOLE,
    axis_of,
    check_integer,
    check_vector,
    constant_when_compiled,
    input_space,
    named_axes,
    totals_of,
)
from nameddim import ND, NamedDimension

from ._checks import Operator, is_complex_linear
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
    space, _ = spaces_of(owner, A)
    generator = space.totals.generator(check_integer(owner, "seed", seed))
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
        dtypes = space.totals.processes.all_gather(dtype, "dtype of random vectors")
        dtype = reduce(torch.promote_types, cast(list[torch.dtype], dtypes))
    if not A.is_complex_linear:  # a real part and an imaginary part see other parts of x
        dtype = dtype.to_complex()
    empty = torch.empty(shape, dtype=dtype, device=device or "cpu")
    return space.random_like(empty, generator), generator


def space_of_systems(owner: str, A: Operator, y: Tensor, batch_dims: BatchDims) -> Space:
    """Return the space of y, which is like the input of A, with axes that number systems."""
    totals = totals_of(A, "input") or WHOLE
    if totals.add is not None and batch_dims != 0:
        raise NotImplementedError(
            f"{owner}: batch_dims must be 0 if several processes have a part of each vector, got "
            f"{batch_dims!r}"
        )
    axes: tuple[int, ...]
    if not isinstance(batch_dims, (str, NamedDimension, Iterable)):
        if check_integer(owner, "batch_dims", batch_dims, 0) > y.ndim:
            raise ValueError(
                f"{owner}: batch_dims must be at most the {y.ndim} axes of the vectors, got "
                f"{batch_dims}"
            )
        axes = tuple(range(batch_dims))
    elif not isinstance(A, NamedLinop):
        raise TypeError(
            f"{owner}: batch_dims must be a number for a function, which has no names, "
            f"got {batch_dims!r}"
        )
    else:
        axes = _axes(owner, A, batch_dims, y.ndim)
    if isinstance(A, NamedLinop):
        check_batch_axes(owner, A, axes, y.ndim)
    return Space(totals, (), axes, is_complex_linear(A))


@constant_when_compiled
def check_batch_axes(
    owner: str, A: NamedLinop, axes: Sequence[int], ndim: int, name: str = "A"
) -> bool:
    """Raise an error unless A goes through these axes slice by slice."""
    names = [{at % ndim: dim for at, dim in named_axes(dims)} for dims in (A.ishape, A.oshape)]
    for axis in axes:
        dim, odim = (of_side.get(axis) for of_side in names)
        if dim != odim or (dim is not None and A.role(dim) is not Role.BATCH):
            reason = "" if dim != odim or dim is None else A.why_opaque(dim)
            raise ValueError(
                f"{owner}: axis {axis} must be a batch dimension of {name}, {A.signature}, at one "
                f"place in input and output, got {dim} and {odim}"
                + (f" ({reason})" if reason else "")
                + "; give fewer batch_dims, or 0 for one system"
            )
    return True


@constant_when_compiled
def _axes(
    owner: str,
    A: NamedLinop,
    dims: str | NamedDimension | Iterable[NamedDimension | str],
    ndim: int,
) -> tuple[int, ...]:
    names = [dims] if isinstance(dims, (str, NamedDimension)) else dims
    axes = []
    for dim in map(ND.infer, names):
        if (role := A.role(dim)) is not Role.BATCH:
            raise ValueError(
                f"{owner}: {dim} must be a batch dimension of A, {A.signature}, got "
                f"{role or 'none'}" + (f" ({A.why_opaque(dim)})" if role is Role.OPAQUE else "")
            )
        axes.append(axis_of(A.ishape.index(dim), A.ishape) % ndim)
    return tuple(sorted(axes))
