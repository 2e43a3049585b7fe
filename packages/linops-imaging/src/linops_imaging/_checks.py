"""Checks of arguments that several functions take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

import torch
from torch import Tensor

from linops_core.siblings import can_read_values, is_dense, not_a_tensor


def check_real_tensor(
    owner: str, name: str, value: object, shape: Sequence[int] | None = None, end: str = ""
) -> None:
    """Raise an error unless ``value`` is a tensor of real numbers, of a shape if one is given."""
    if not is_dense(value) or not value.is_floating_point():
        raise not_a_tensor(owner, name, value, "a tensor of real numbers")
    if shape is not None and value.shape != tuple(shape):
        raise ValueError(
            f"{owner}: {name} must have the shape {tuple(shape)}{end}, got {tuple(value.shape)}"
        )


def check_finite(owner: str, name: str, value: Tensor) -> None:
    """Raise an error if values are NaN or infinite and can be read."""
    if can_read_values(value) and not value.isfinite().all():
        raise ValueError(f"{owner}: {name} must be finite, got NaN or infinity")


def check_dtype(owner: str, dtype: torch.dtype, *, real: bool, complex_: bool) -> None:
    """Raise an error unless ``dtype`` is one of the allowed kinds, real or complex."""
    allowed = " or ".join(["real"] * real + ["complex"] * complex_)
    if not isinstance(dtype, torch.dtype) or not (
        (real and dtype.is_floating_point) or (complex_ and dtype.is_complex)
    ):
        raise TypeError(f"{owner}: dtype must be a torch.dtype of {allowed} numbers, got {dtype!r}")


def one_for_each(given: Any, n: int) -> list[Any]:
    """Return what is given one by one, or n times the one that is given."""
    is_one = not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0
    return [given] * n if is_one else [*given]


def sizes_of_grid(
    owner: str, grid_size: int | Sequence[int], *ndims: int, name: str = "grid_size"
) -> tuple[int, ...]:
    """Return the sizes of a grid that has one of ``ndims`` as its number of dimensions.

    If ``ndims`` is one number, ``grid_size`` may be one number for all axes.
    """
    try:
        given = one_for_each(grid_size, ndims[0]) if len(ndims) == 1 else grid_size
        sizes = tuple(map(index, given))  # type: ignore[arg-type]  # what came is reported
    except TypeError:
        sizes = ()
    if len(sizes) not in ndims or min(sizes, default=0) < 1:
        allowed = " or ".join(map(str, ndims))
        raise ValueError(f"{owner}: {name} must be {allowed} positive integers, got {grid_size!r}")
    return sizes
