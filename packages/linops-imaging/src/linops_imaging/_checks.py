"""Arguments that several functions take, and what is said of those that cannot be used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import index
from typing import SupportsFloat, SupportsIndex

import torch


def check_number(owner: str, name: str, value: SupportsIndex, least: int) -> int:
    """Return ``value`` as an int; refuse what is not an integer of at least ``least``."""
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
    owner: str, name: str, value: SupportsFloat, least: float, *, more: bool = False
) -> float:
    """Return ``value``; refuse what is no finite number of at least, or more than, ``least``."""
    try:
        is_finite = math.isfinite(value)
    except (TypeError, RuntimeError):
        raise TypeError(f"{owner}: {name} must be a real number, got {value!r}") from None
    if not is_finite or float(value) < least or (more and float(value) == least):
        rule = f"{'more than' if more else 'at least'} {least:g} and finite"
        raise ValueError(f"{owner}: {name} must be {rule}, got {value!r}")
    return float(value)


def counts(owner: str, **numbers: SupportsIndex) -> None:
    """Refuse what is not a positive integer."""
    for name, value in numbers.items():
        check_number(owner, name, value, 1)


def check_dtype(owner: str, dtype: torch.dtype, *, real: bool, complex_: bool) -> None:
    """Refuse what is not a dtype of real numbers, or of complex ones, as far as these count."""
    allowed = " or ".join(["real"] * real + ["complex"] * complex_)
    if not isinstance(dtype, torch.dtype) or not (
        (real and dtype.is_floating_point) or (complex_ and dtype.is_complex)
    ):
        raise TypeError(f"{owner}: dtype must be a torch.dtype of {allowed} numbers, got {dtype!r}")


def sizes_of_grid(
    owner: str, grid_size: int | Sequence[int], *ndims: int, name: str = "grid_size"
) -> tuple[int, ...]:
    """Return the sizes of a grid of one of ``ndims`` dimensions; one number counts for all axes.

    One number is possible where there is one number of dimensions.
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
