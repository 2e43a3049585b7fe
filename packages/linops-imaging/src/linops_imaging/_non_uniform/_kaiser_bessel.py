"""The Kaiser-Bessel kernel of a non-uniform Fourier transform: its shape and its accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# (error, oversampling, width): the largest error of e^(-2 pi i l n / N) for any l and any n from
# -N/2 to N/2, in one dimension and double precision. `benchmarks/bench_nufft.py` measures them.
ACCURACY: Sequence[tuple[float, float, float]] = (
    (1.5e-1, 1.25, 3.0),
    (2.0e-2, 1.25, 4.0),
    (7.5e-3, 1.5, 4.0),
    (1.1e-3, 1.5, 5.0),
    (2.8e-4, 1.5, 6.0),
    (3.2e-5, 1.5, 7.0),
    (5.0e-6, 1.5, 8.0),
    (1.4e-6, 1.5, 9.0),
    (1.6e-7, 1.5, 10.0),
    (2.6e-8, 1.5, 11.0),
    (7.0e-9, 1.5, 12.0),
    (8.0e-10, 1.5, 13.0),
    (1.3e-10, 1.5, 14.0),
    (3.3e-11, 1.5, 15.0),
    (4.0e-12, 1.5, 16.0),
    (2.0e-5, 2.0, 6.0),  # from here on for little rounding, see `largest_error`
    (3.0e-6, 2.0, 7.0),
    (5.0e-7, 2.0, 8.0),
    (8.0e-13, 2.0, 14.0),
)


def chosen(tol: float, sizes: Sequence[int], dtype: torch.dtype) -> tuple[float, float]:
    """Return the oversampling and the width for which the error of each entry is at most ``tol``.

    The error of an entry is relative to its absolute value.
    """
    ways = [row[1:] for row in ACCURACY]
    errors = [largest_error(*way, sizes, dtype) for way in ways]
    check_tol(tol, min(errors), sizes, dtype)
    return next(way for way, error in zip(ways, errors, strict=True) if error <= tol)


def check_tol(tol: float, least: float, sizes: Sequence[int], dtype: torch.dtype) -> None:
    """Refuse a ``tol`` below ``least``."""
    if not least <= tol < math.inf:
        advice = "" if dtype == torch.float64 else "; give them in double precision: locs.double()"
        rounded_up = f"{1.05 * least:.1e}"
        raise ValueError(
            f"NUFFT: tol must be finite and at least {rounded_up} for a grid of {tuple(sizes)} and "
            f"locations of {dtype}, got {tol!r}{advice}"
        )


def largest_error(
    oversampling: float, width: float, sizes: Sequence[int], dtype: torch.dtype
) -> float:
    """Return a bound of the error of an entry, infinite below the accuracies that are known.

    Errors of the axes add up. The weight of a pixel at the edge is larger than in the middle by a
    factor h, and so is the rounding: that of each kernel, whose exponent is up to beta, and that of
    the product of the kernels. Locations in units of the finer grid are rounded, too: this error
    grows with the size of the image.
    """
    rows = [error for error, least, narrow in ACCURACY if least <= oversampling and narrow <= width]
    n_axes, beta = len(sizes), beatty_beta(width, oversampling)
    at_edge = beta**2 - (math.pi * width / (2 * oversampling)) ** 2
    if not rows or at_edge <= 0:
        return math.inf
    h = _falling(beta) / _falling(math.sqrt(at_edge))
    rounding = sum(sizes) + n_axes * beta * h / 4 + h**n_axes / 2
    return (1 + min(rows)) ** n_axes - 1 + torch.finfo(dtype).eps * rounding


def _falling(x: float) -> float:
    return math.sinh(x) / x


def padded_size(size: int, oversampling: float) -> int:
    """Return the smallest even size with no prime factor above 5 of ``oversampling * size``."""
    least = math.ceil(round(oversampling * size, 6))
    return next(n for n in range(least + least % 2, 4 * least + 4, 2) if _is_smooth(n))


def _is_smooth(n: int) -> bool:
    for factor in (2, 3, 5):
        while n % factor == 0:
            n //= factor
    return n == 1


def beatty_beta(width: float, oversampling: float) -> float:
    r"""Return :math:`\pi \sqrt{(w / \alpha)^2 (\alpha - 1/2)^2 - 0.8}`, 0 if there is no root."""
    square = (width / oversampling) ** 2 * (oversampling - 0.5) ** 2 - 0.8
    return math.pi * math.sqrt(max(square, 0.0))


def deapodisation(
    size: int, padded: int, width: float, beta: float, device: torch.device
) -> Tensor:
    r"""Return one over the transform of the kernel at n / M, (N,), where n starts at -(N // 2).

    With :math:`a = \beta^2 - (\pi w n / M)^2` the transform is
    :math:`w e^{-\beta} \sinh(\sqrt a) / \sqrt a` (Fessler and Sutton); the kernel is scaled.
    """
    n = torch.arange(size, dtype=torch.float64, device=device) - size // 2
    square = beta**2 - (math.pi * width / padded * n).square()
    root = square.abs().sqrt()
    falling = torch.where(square > 0, root.sinh(), root.sin())
    ratio = torch.where(root > 0, falling / root, 1.0)
    return math.exp(beta) / (width * ratio)
