"""Real powers of tensors, entry by entry."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def repeated_power(x: Tensor, exponents: Sequence[float]) -> Tensor:
    """Return x raised to each exponent in turn; for complex values the principal power.

    Integers are computed in the default dtype.
    """
    for exponent in exponents:
        x = x.pow(float(exponent))
    return x


def why_not_raised(x: Tensor, exponents: Sequence[float]) -> str | None:
    """Return the rule that some entries break, or None; it waits for the values."""
    x = x.detach()
    for exponent in exponents:
        if exponent < 0 and bool((x == 0).any()):
            return f"not be zero anywhere for the power {exponent}, got a zero"
        if not x.is_complex() and not exponent.is_integer() and bool((x < 0).any()):
            return (
                f"not be negative anywhere for the power {exponent}, got {x.min().item():.6g}; "
                "the powers of complex weights are the principal ones: make them complex"
            )
        x = repeated_power(x, [exponent])
    return None
