"""Half precision: solvers compute in single precision and apply operators in half."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ._vectors import check_callable

_WIDE = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}


def widened(x: Tensor) -> Tensor:
    """Return x in single precision where it is in half precision, else x itself."""
    return x.to(_WIDE.get(x.dtype, x.dtype))


def narrowed(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return x in the half precision of a dtype, or x itself where that dtype is not half.

    The dtype may be the real or the complex one of that precision; x stays what it is of both.
    """
    if dtype not in _WIDE:
        return x
    return x.to(torch.complex32 if x.is_complex() else dtype.to_real())


def in_given_precision(owner: str, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a result in the precision of a dtype.

    Raises
    ------
    ArithmeticError
        If half precision does not hold it.
    """
    found = narrowed(x, dtype)
    if found is not x and not found.isfinite().all():
        raise ArithmeticError(
            f"{owner}: the result must be in the range of {found.dtype}, got larger numbers"
        )
    return found


def applied_in_half(
    owner: str, A: Callable[..., Tensor], dtype: torch.dtype, name: str = "A"
) -> Callable[..., Tensor]:
    """Return A for tensors in single precision, where the given dtype is a half precision.

    A function of more than a tensor, such as a proximal map, is given the rest as it is.

    Raises
    ------
    TypeError
        If A cannot be called.
    ValueError
        When called, if A returns another precision than the half precision it is given.
    """
    check_callable(owner, name, A)
    if dtype not in _WIDE:
        return A

    def apply(x: Tensor, *others: object) -> Tensor:
        image = A(narrowed(x, dtype), *others)
        if image.dtype not in _WIDE:
            raise ValueError(
                f"{owner}: {name} must return the precision that it is given, {dtype}, "
                f"got {image.dtype}"
            )
        return widened(image)

    return apply


def rounding_of(dtype: torch.dtype) -> float:
    """Return how much A x is taken to be rounded in a dtype, relative to |A| |x|.

    Matrices of up to 300 columns round by up to 2.5 times the precision, and by half of it where
    sums are in single precision and their results in half. A may be a few operators long.
    """
    return (2 if dtype in _WIDE else 4) * torch.finfo(dtype).eps
