"""Real powers of tensors, entry by entry."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def raised(x: Tensor, exponents: Sequence[float]) -> Tensor:
    """Return x to the power of one exponent after the other; of complex values the principal one.

    Integers become numbers of the default dtype.
    """
    for exponent in exponents:
        x = x.pow(float(exponent))
    return x


def why_not_raised(x: Tensor, exponents: Sequence[float]) -> str | None:
    """Return which entries have no such powers, or None where all have; it waits for the values."""
    x = x.detach()
    for exponent in exponents:
        if exponent < 0 and bool((x == 0).any()):
            return f"not be zero anywhere for the power {exponent}, got a zero"
        if not x.is_complex() and not exponent.is_integer() and bool((x < 0).any()):
            return (
                f"not be negative anywhere for the power {exponent}, got {x.min().item():.6g}; "
                "the powers of complex weights are the principal ones: make them complex"
            )
        x = raised(x, [exponent])
    return None
