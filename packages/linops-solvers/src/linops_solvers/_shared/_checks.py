"""Checks of the arguments of solvers and of the results of operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.compiler import is_compiling

from linops_core import NamedLinop
from linops_core.siblings import is_transformed
from nameddim import ELLIPSES

Operator: TypeAlias = Callable[[Tensor], Tensor]


def version_of(x: Tensor) -> int:
    """Return the number of writes to a tensor that torch has counted."""
    if is_compiling() or is_transformed() or x.is_inference():
        return 0
    return x._version


def check_unchanged(owner: str, what: str, x: Tensor, version: int, newer: Tensor) -> None:
    """Raise an error if a function wrote the newer of two results into the memory of the first."""
    if is_transformed():
        return
    is_same = x is not newer and x.numel() and x.data_ptr() == newer.data_ptr()
    if is_same or version_of(x) != version:
        raise ValueError(
            f"{owner}: {what} must return new memory in each call, got the memory of an earlier "
            "result; return a copy, as result.clone()"
        )


def check_input_kept(owner: str, name: str, x: Tensor, version: int) -> None:
    """Raise an error if a function wrote into its input; ``version`` is from before the call."""
    if version_of(x) != version:
        raise ValueError(
            f"{owner}: {name} must not write into its input and must return new memory in each "
            "call, got an input that changed; write into a copy, as x.clone()"
        )


def check_callable(owner: str, name: str, given: object) -> None:
    """Raise an error unless the argument is an operator or a function."""
    if callable(given):
        return
    if hasattr(given, "shape"):  # printing an array would hide what is wrong
        raise TypeError(
            f"{owner}: {name} must be an operator or a function, got {type(given)}; make a matrix "
            f'an operator by Dense(matrix, ("M", "N"), ("N",), ("M",))'
        )
    raise TypeError(f"{owner}: {name} must be an operator or a function, got {given!r}")


def is_complex_linear(A: object) -> bool:
    """Whether A is linear over the complex numbers; assumed of a plain function."""
    return bool(getattr(A, "is_complex_linear", True))


def check_complex_linear(owner: str, A: Operator, reason: str) -> None:
    """Refuse an operator that is linear over the reals only."""
    if not is_complex_linear(A):
        raise ValueError(
            f"{owner}: A must be linear over complex numbers, because {reason}, got "
            f"{getattr(A, 'signature', A)}, which is linear over the reals only; take its RealForm"
        )


def check_like(owner: str, name: str, x: Tensor, other_name: str, other: Tensor) -> None:
    """Raise an error unless x has the shape and dtype of ``other``."""
    if (x.shape, x.dtype) != (other.shape, other.dtype):
        is_precision = x.shape == other.shape and x.is_complex() == other.is_complex()
        advice = "; convert the vectors, or A by A.to(dtype=...)" if is_precision else ""
        raise ValueError(
            f"{owner}: {name} must have the shape and dtype of {other_name}, "
            f"{tuple(other.shape)} of {other.dtype}, got {tuple(x.shape)} of {x.dtype}{advice}"
        )


def check_output(owner: str, A: object, image: Tensor, y: Tensor) -> None:
    """Raise an error unless an output of A is like y; a complex A may have a real y."""
    if image.is_complex() and not y.is_complex() and is_complex_linear(A):
        y = y.to(y.dtype.to_complex())
    check_like(owner, "the output of A", image, "y", y)


def sizes_differ(some: Sequence[int | None], others: Sequence[int | None]) -> bool:
    """Whether sizes of dimensions are known to differ; None is one that is not known."""
    pairs = zip(some, others, strict=False)
    return len(some) != len(others) or any(None not in pair and len({*pair}) > 1 for pair in pairs)


def check_square(owner: str, A: Operator, advice: str) -> None:
    """Raise an error if it is known that A does not map a space to itself."""
    if not isinstance(A, NamedLinop) or A.is_endomorphism:
        return
    if (ELLIPSES in A.ishape) != (ELLIPSES in A.oshape):  # the run may be what the other names
        return
    sides = A.sizes("input"), A.sizes("output")
    if sizes_differ(*sides):
        raise ValueError(
            f"{owner}: A must map a space to itself, got {A.signature} of sizes {sides[0]} and "
            f"{sides[1]}; {advice}"
        )


def check_finite(owner: str, value: float, dtype: torch.dtype | None = None) -> float:
    """Return the value; raise an error unless it is finite."""
    if not math.isfinite(value):
        why = "" if dtype is None else f"; the scale of A may be past what {dtype} holds"
        raise ArithmeticError(f"{owner}: values must stay finite, got {value}{why}")
    return value


def check_scale(owner: str, units: float | Tensor, dtype: torch.dtype) -> None:
    """Raise an error if outputs for inputs near 1 are so small that the dtype rounds them."""
    information = torch.finfo(dtype)
    # Devices may flush subnormal numbers to zero, but not those of float16.
    is_gradual = dtype.to_real() is torch.float16
    lowest = information.tiny if is_gradual else information.tiny / information.eps
    for unit in units.tolist() if isinstance(units, Tensor) else [units]:
        if 0 < unit < lowest:
            raise ArithmeticError(
                f"{owner}: the scale of A must be at least {lowest:.2g}, for the precision of "
                f"{dtype}, got outputs of {unit:.2g} for inputs near 1"
            )
