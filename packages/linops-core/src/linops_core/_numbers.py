"""Checks of numbers that users give: one rule and one wording in all packages.

Numbers of NumPy are numbers; True and False are not. What returns a number takes it from a tensor
or an array without dimensions, too.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from operator import index
from typing import SupportsFloat, SupportsIndex, TypeGuard


def is_integer(value: object, least: int | None = None) -> TypeGuard[int]:
    """Whether a value is an integer, of at least ``least`` if that is given."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        return False
    return least is None or int(value) >= least


def is_size(value: object) -> TypeGuard[int]:
    """Whether a value is a positive integer."""
    return is_integer(value, 1)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a finite real number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def check_integer(owner: str, name: str, value: SupportsIndex, least: int | None = None) -> int:
    """Return an integer as an int.

    Raises
    ------
    TypeError
        If the value is not an integer.
    ValueError
        If it is less than ``least``.
    """
    try:
        number = index(value) if _may_be_real(value) else None
    except (TypeError, RuntimeError):  # torch raises the second for tensors without data
        number = None
    if number is None:
        raise TypeError(f"{owner}: {name} must be an integer, got {value!r}")
    if least is not None and number < least:
        raise ValueError(f"{owner}: {name} must be at least {least}, got {number}")
    return number


def check_real(
    owner: str,
    name: str,
    value: SupportsFloat,
    least: float = -math.inf,
    *,
    above: float = -math.inf,
    may_be_inf: bool = False,
) -> float:
    """Return a real number as a float.

    Raises
    ------
    TypeError
        If the value is not a real number.
    ValueError
        If it is less than ``least``, not more than ``above``, NaN, or infinite without
        ``may_be_inf``.
    """
    try:
        if not _may_be_real(value) or getattr(value, "ndim", 0) > 0:
            raise TypeError
        is_in_range = math.isfinite(value) or (may_be_inf and not math.isnan(value))
    except (TypeError, RuntimeError):
        raise TypeError(f"{owner}: {name} must be a real number, got {value!r}") from None
    number = float(value)
    if not is_in_range or number < least or (number <= above and above > -math.inf):
        rules = [] if least == -math.inf else [f"at least {least:g}"]
        rules += [] if above == -math.inf else [f"more than {above:g}" if above else "positive"]
        rules += [] if may_be_inf else ["finite"]
        raise ValueError(f"{owner}: {name} must be {' and '.join(rules)}, got {value}")
    return number


def _may_be_real(value: object) -> bool:
    """Whether a value is not a truth value or a complex number of Python, NumPy or torch."""
    kind = str(getattr(value, "dtype", type(value).__name__))
    return not ("bool" in kind or "complex" in kind)
