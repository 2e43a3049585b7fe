"""Sizes as arguments: by dimension, or one for each axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from nameddim import ELLIPSES, ND, NamedDimension

from .._kernels._dtype import promoted_dtype
from .._numbers import is_integer
from ._dimensions import DimensionedModule

Item = TypeVar("Item")


def per_axis(owner: str, argument: str, items: Sequence[Item]) -> tuple[Item, ...]:
    """Return a sequence with one item for each axis as a tuple."""
    if not isinstance(items, Iterable) or isinstance(items, (str, Mapping)):
        raise TypeError(f"{owner}: {argument} must be a sequence, one for each axis, got {items!r}")
    return tuple(items)


def one_dimension(owner: str, argument: str, dim: NamedDimension | str) -> NamedDimension:
    """Return a single dimension."""
    if not isinstance(dim, str):
        raise TypeError(f"{owner}: {argument} must be one dimension, a string, got {dim!r}")
    return ND.infer(dim)


def by_dimension(
    owner: str,
    sizes: Mapping[str, int] | Mapping[NamedDimension, int] | None,
    argument: str = "sizes",
) -> dict[NamedDimension, int]:
    """Return a mapping by dimension; empty for None."""
    if sizes is None:
        return {}
    if not isinstance(sizes, Mapping):
        raise TypeError(
            f"{owner}: {argument} must be a mapping of dimension to size, got {type(sizes)}"
        )
    return {one_dimension(owner, f"a key of {argument}", dim): size for dim, size in sizes.items()}


class InputSpace(NamedTuple):
    """The shape, dtype and device of the inputs of an operator."""

    shape: list[int]
    dtype: torch.dtype
    device: torch.device | str | None


def input_space(
    linop: DimensionedModule,
    sizes: Mapping[str, int] | None = None,
    like: Tensor | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    *,
    default: torch.dtype = torch.float64,
) -> InputSpace:
    """Return the space of inputs, from a tensor ``like`` an input or from sizes.

    Without ``like``, the dtype is that of the weights that are no geometry, or the default dtype.
    The device is the
    first one on which the operator takes inputs.
    """
    if like is None:
        dtype_of_values = promoted_dtype(_values(linop), default)
        first = next(iter(linop.input_devices), None)
        lengths = input_lengths(linop, sizes)
        return InputSpace(lengths, dtype or dtype_of_values, first if device is None else device)
    if sizes is not None:
        raise ValueError(
            f"{linop.signature}: sizes and like must not be given together, got sizes {sizes}"
        )
    if not isinstance(like, Tensor):
        raise TypeError(f"{linop.signature}: like must be a torch.Tensor, got {type(like)}")
    linop._check_vector(like, "input")
    return InputSpace([*like.shape], dtype or like.dtype, like.device if device is None else device)


def _values(linop: DimensionedModule) -> list[Tensor]:
    """Return the weights that are multiplied by values of the input."""
    return [
        weight
        for module in linop.modules()
        for name, weight in chain(module._parameters.items(), module._buffers.items())
        # Coordinates, angles and shifts do not decide dtypes.
        if weight is not None
        and not (isinstance(module, DimensionedModule) and name in module._geometry)
    ]


def input_lengths(
    linop: DimensionedModule, sizes: Mapping[str, int] | None, of_run: Sequence[int] = ()
) -> list[int]:
    """Return the size of each input dimension, known or given; ``...`` has ``of_run``."""
    given = by_dimension(linop.name, sizes)
    lengths: list[int] = []
    for dim, length in zip(linop.ishape, linop.sizes("input"), strict=True):
        size = given.get(dim, length)
        if size is None and dim == ELLIPSES:
            lengths += of_run
        elif not is_integer(size, 0):
            raise ValueError(
                f"{linop.signature}: the size of {dim} must be known to the operator or given in "
                f"sizes, as an integer of at least 0, got {sizes}; or pass a tensor of the "
                "input's shape as like="
            )
        else:
            lengths.append(int(size))
    return lengths
