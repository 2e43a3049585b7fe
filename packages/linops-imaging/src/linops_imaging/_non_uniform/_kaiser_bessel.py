"""The Kaiser-Bessel kernel of a non-uniform Fourier transform: its shape and its accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from linops_core.siblings import beatty_beta, fast_length

LEAST_OVERSAMPLING, _MOST_OVERSAMPLING = 1.125, 4.0
_WIDTHS = range(2, 17)

# Time to transform a point of the finer grid there and back, in units of that to read a weight of
# a table for 8 images: `benchmarks/bench_nufft.py` measures both.
_POINT_OF_GRID = 50.0

LEAST_OF_SINGLE = 1e-5
"""The smallest error of entries for which rounding in single precision is allowed for."""

# A way whose error is a smaller part of tol takes more time than it must.
_LEAST_PART = 0.2


class Gridding(NamedTuple):
    """A finer grid, and a kernel that interpolates it."""

    padded: tuple[int, ...]
    width: float
    beta: float

    @classmethod
    def of(cls, sizes: Sequence[int], padded: Sequence[int], width: float) -> Gridding:
        """Return a way with the beta of Beatty et al. for the smallest oversampling."""
        oversampling = min(larger / size for larger, size in zip(padded, sizes, strict=True))
        return cls(tuple(padded), width, beatty_beta(width, oversampling))

    @classmethod
    def given(cls, sizes: Sequence[int], oversampling: float, width: float) -> Gridding:
        """Return the way with at least this oversampling."""
        return cls.of(sizes, [padded_size(size, oversampling) for size in sizes], width)

    def error(self, sizes: Sequence[int], dtype: torch.dtype) -> float:
        """Return the largest error of an entry, for images of this precision.

        An error is relative to the absolute value of the entry. Errors of the axes add up.
        """
        axes = zip(sizes, self.padded, strict=True)
        errors = [largest_error(self.width, self.beta, size, larger) for size, larger in axes]
        return math.prod([1 + error for error in errors]) - 1 + self._rounding(sizes, dtype)

    def _rounding(self, sizes: Sequence[int], dtype: torch.dtype) -> float:
        """Return a bound of the rounding of an entry.

        The weight of a pixel at the edge is larger than in the middle by a factor h, and so is the
        rounding: that of each kernel, whose exponent is up to beta, and that of the product of the
        kernels. Locations have their rounding in double precision.
        """
        edges = [(size // 2) / larger for size, larger in zip(sizes, self.padded, strict=True)]
        whole = math.prod([self._transform(0) / self._transform(edge) for edge in edges])
        h = whole ** (1 / len(sizes))
        of_locations = torch.finfo(torch.float64).eps * sum(sizes)
        return torch.finfo(dtype).eps * (len(sizes) * self.beta * h / 4 + whole / 2) + of_locations

    def _transform(self, frequency: float) -> float:
        r"""Return the transform of the kernel, divided by its width and by its value at its ends.

        With :math:`a = \beta^2 - (\pi w \nu)^2` it is :math:`\sinh(\sqrt a) / \sqrt a`.
        """
        square = self.beta**2 - (math.pi * self.width * frequency) ** 2
        root = math.sqrt(abs(square))
        falling = math.sinh(root) if square > 0 else math.sin(root)
        return falling / root if root else 1.0


@lru_cache(maxsize=4096)
def largest_error(width: float, beta: float, size: int, padded: int) -> float:
    """Measure the error along an axis at many locations, and at all or many pixels.

    The kernel ends on grid points for some locations, and there the error may be the largest.
    """
    locations = np.array([1e-9, 0.5 - 1e-9, *np.linspace(0, 0.5, 11)])[:, None]
    first, reach = np.floor(locations - width / 2) + 1 - locations, np.arange(math.ceil(width))
    squares = 1 - (2 * (first + reach) / width) ** 2
    kernel = np.where(squares > 0, np.i0(beta * np.sqrt(np.maximum(squares, 0))), 0)
    last = size // 2
    many = last * (1 - np.linspace(0, 1, 64) ** 2)  # errors change faster near the edge
    frequencies = (np.arange(last + 1) if last < len(many) else many) / padded
    sums = kernel @ np.exp(2j * np.pi * reach[:, None] * frequencies)
    a = np.emath.sqrt(beta**2 - (np.pi * width * frequencies) ** 2 + 1e-30)
    transform = width * (np.sinh(a) / a).real
    error = np.abs(np.exp(2j * np.pi * first * frequencies) * sums / transform - 1).max()
    return 1.05 * float(error)  # it may be larger between them


@lru_cache(maxsize=256)
def fastest_gridding(tol: float, sizes: tuple[int, ...]) -> Gridding:
    """Return the fastest way, for as many points as pixels, with errors of at most ``tol``.

    They are measured errors of entries, also in single precision if that is possible. Of ways for
    small images, for which there are few grids, one is preferred that is not much more exact.

    Raises
    ------
    ValueError
        If the error is larger even in double precision.
    """
    check_tol(tol, Gridding.given(sizes, 2.0, _WIDTHS[-1]).error(sizes, torch.float64), sizes)
    dtypes = (torch.float32, torch.float64) if tol >= LEAST_OF_SINGLE else (torch.float64,)
    for dtype in dtypes:
        best: tuple[bool, float, Gridding] | None = None
        for width in _WIDTHS:
            way = _coarsest_gridding(tol, sizes, width, dtype)
            if way is None:
                continue
            n_weights = math.prod(sizes) * width ** len(sizes)
            cost = n_weights + _POINT_OF_GRID * math.prod(way.padded)
            key = way.error(sizes, torch.float64) < _LEAST_PART * tol, cost
            if best is None or key < best[:2]:
                best = *key, way
            elif not best[0]:
                break
        if best is not None:
            return best[2]
    return Gridding.given(sizes, 2.0, _WIDTHS[-1])


def check_tol(tol: float, least: float, sizes: Sequence[int]) -> None:
    """Refuse a ``tol`` below ``least``."""
    if tol < least:
        raise ValueError(
            f"NUFFT: tol must be at least {1.05 * least:.1e} for a grid of "
            f"{tuple(sizes)}, got {tol!r}"
        )


def _coarsest_gridding(
    tol: float, sizes: tuple[int, ...], width: int, dtype: torch.dtype
) -> Gridding | None:
    """Return the way with this width and the smallest grid that is accurate enough."""
    low, high = LEAST_OVERSAMPLING, _MOST_OVERSAMPLING
    way = Gridding.given(sizes, high, width)
    if not way.error(sizes, dtype) <= tol:
        return None
    while high - low > 0.02:
        middle = (low + high) / 2
        tried = Gridding.given(sizes, middle, width)
        if tried.error(sizes, dtype) <= tol:
            way, high = tried, middle
        else:
            low = middle
    for axis, size in enumerate(sizes):
        for smaller in range(way.padded[axis] - 2, math.ceil(size * LEAST_OVERSAMPLING) - 1, -2):
            if fast_length(smaller) > smaller:
                continue
            padded = (*way.padded[:axis], smaller, *way.padded[axis + 1 :])
            tried = Gridding.of(sizes, padded, width)
            if tried.error(sizes, dtype) > tol:
                break
            way = tried
    return way


def padded_size(size: int, oversampling: float) -> int:
    """Return the smallest even size with no prime factor above 5 of ``oversampling * size``."""
    least = math.ceil(round(oversampling * size, 6))
    return 2 * fast_length(-(-least // 2))


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
