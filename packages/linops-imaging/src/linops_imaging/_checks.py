"""Checks of arguments that several functions take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import index
from typing import SupportsFloat, SupportsIndex

import torch
from torch import Tensor

from linops_core.siblings import not_a_tensor


def check_number(owner: str, name: str, value: SupportsIndex, least: int) -> int:
    """Return ``value`` as an int; raise an error unless it is an integer >= ``least``."""
    try:
        number = index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{owner}: {name} must be an integer, got {value!r}")
    if number < least:
        raise ValueError(f"{owner}: {name} must be at least {least}, got {number}")
    return number


def check_real(
    owner: str, name: str, value: SupportsFloat, least: float = -math.inf, *, more: bool = False
) -> float:
    """Return ``value``; raise an error unless it is finite and >= ``least`` (``more``: > it)."""
    try:
        is_finite = math.isfinite(value)
    except (TypeError, RuntimeError):
        raise TypeError(f"{owner}: {name} must be a real number, got {value!r}") from None
    if not is_finite or float(value) < least or (more and float(value) == least):
        rule = f"{'more than' if more else 'at least'} {least:g} and finite"
        rule = "finite" if least == -math.inf else rule
        raise ValueError(f"{owner}: {name} must be {rule}, got {value!r}")
    return float(value)


def check_real_tensor(
    owner: str, name: str, value: object, shape: Sequence[int] | None = None, end: str = ""
) -> None:
    """Raise an error unless ``value`` is a tensor of real numbers, of a shape if one is given."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise not_a_tensor(owner, name, value, "a tensor of real numbers")
    if shape is not None and value.shape != tuple(shape):
        raise ValueError(
            f"{owner}: {name} must have the shape {tuple(shape)}{end}, got {tuple(value.shape)}"
        )


def check_positive_integers(owner: str, **numbers: SupportsIndex) -> None:
    """Raise an error unless all numbers are positive integers."""
    for name, value in numbers.items():
        check_number(owner, name, value, 1)


def check_dtype(owner: str, dtype: torch.dtype, *, real: bool, complex_: bool) -> None:
    """Raise an error unless ``dtype`` is one of the allowed kinds, real or complex."""
    allowed = " or ".join(["real"] * real + ["complex"] * complex_)
    if not isinstance(dtype, torch.dtype) or not (
        (real and dtype.is_floating_point) or (complex_ and dtype.is_complex)
    ):
        raise TypeError(f"{owner}: dtype must be a torch.dtype of {allowed} numbers, got {dtype!r}")


def sizes_of_grid(
    owner: str, grid_size: int | Sequence[int], *ndims: int, name: str = "grid_size"
) -> tuple[int, ...]:
    """Return the sizes of a grid that has one of ``ndims`` as its number of dimensions.

    If ``ndims`` is one number, ``grid_size`` may be one number for all axes.
    """
    try:
        if len(ndims) == 1 and not isinstance(grid_size, Iterable):
            grid_size = (grid_size,) * ndims[0]
        sizes = tuple(map(index, grid_size))  # type: ignore[arg-type]  # what came is reported
    except TypeError:
        sizes = ()
    if len(sizes) not in ndims or min(sizes, default=0) < 1:
        allowed = " or ".join(map(str, ndims))
        raise ValueError(f"{owner}: {name} must be {allowed} positive integers, got {grid_size!r}")
    return sizes
