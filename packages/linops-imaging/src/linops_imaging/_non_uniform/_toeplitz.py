"""The normal operator of a non-uniform Fourier transform as a convolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from operator import itemgetter
from typing import NamedTuple

import torch
from torch import Tensor

from linops_core.siblings import steps_that_differ

from ._kaiser_bessel import padded_size

# Bytes that are transformed at a time; one image or line may have more. A GPU waits for each step.
_STEP, _STEP_ON_GPU = 2**20, 2**26

# Bytes of the quadrants of a kernel that are computed at a time, or those of one if it is more.
_QUADRANTS = 2**24


class Phases(NamedTuple):
    """Weights of points times phases, for some quadrants of a kernel."""

    locs: Tensor
    """(K, D)."""
    weights: Tensor
    """(K,)."""
    turns: Tensor
    """Cycles for a location of 1 along each axis, (B, D)."""

    def at(self, points: slice) -> Tensor:
        """Return the values of some of the points, (B, P)."""
        angles = 2 * math.pi * (self.turns @ self.locs[points].T)
        return torch.polar(self.weights[points].to(angles.dtype).expand_as(angles), angles)


def convolution_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of the grid of the convolution: even, and at least 2 N - 1."""
    return tuple([padded_size(2 * size - 1, 1.0) for size in sizes])


def kernel_of(
    locs: Tensor,
    weights: Tensor,
    sizes: Sequence[int],
    adjoint: Callable[[Phases], Tensor],
    dtype: torch.dtype,
) -> Tensor:
    r"""Return the transform of :math:`T_d = \frac1{\prod N} \sum_j w_j e^{2 \pi i l_j d / N}`.

    T is Hermitian, so its transform is real and follows from the half of T with d >= 0 along the
    last axis. The adjoint NUFFT of the weights, times a phase, gives one quadrant of T: N
    differences along each axis. No two pixels have the difference -N, so the value there is
    arbitrary.

    Parameters
    ----------
    locs : Tensor
        (K, D), double precision.
    weights : Tensor
        Real, (K,).
    sizes : sequence of int
        D numbers N.
    adjoint : callable
        The adjoint of a NUFFT of these locations, of some `Phases` at once.
    dtype : torch.dtype
        That of the kernel, real.

    Returns
    -------
    Tensor
        Real, of the sizes of :func:`convolution_sizes`, contiguous if the first axis were the last.
    """
    padded = convolution_sizes(sizes)
    shape = (*padded[:-1], padded[-1] // 2 + 1)
    half = torch.zeros(shape, dtype=dtype.to_complex(), device=locs.device)
    corners = [*product(*[(0, -size) for size in sizes[:-1]], (0,))]
    step = max(1, _QUADRANTS // (math.prod(sizes) * half.element_size()))
    for some in (corners[at : at + step] for at in range(0, len(corners), step)):
        # Index 0 of the image has the difference of the corner of the quadrant.
        first = torch.tensor(some, dtype=locs.dtype, device=locs.device)
        middle = torch.tensor([n // 2 for n in sizes], dtype=locs.dtype, device=locs.device)
        turns = (first + middle) / torch.tensor(sizes, dtype=locs.dtype, device=locs.device)
        for corner, quadrant in zip(some, adjoint(Phases(locs, weights, turns)), strict=True):
            places = [
                slice(first % larger, (first + n - 1) % larger + 1)
                for first, n, larger in zip(corner, sizes, padded, strict=True)
            ]
            half[tuple(places)] = quadrant
            del quadrant  # before the next one is made
    half *= 1 / math.sqrt(math.prod(sizes))
    # In place, and some at a time: a kernel may be large.
    for axis in range(len(sizes) - 1):
        for lines in half.split(_at_a_time(half, 1 - axis), 1 - axis):
            lines.copy_(torch.fft.fft(lines, dim=axis))
    kernel = half.real.new_empty((*padded[1:], padded[0])).movedim(-1, 0)
    if len(sizes) == 1:
        return kernel.copy_(torch.fft.hfft(half, padded[0]))
    step = _at_a_time(half, 0)
    for lines, part in zip(half.split(step), kernel.split(step), strict=True):
        part.copy_(torch.fft.hfft(lines, padded[-1]))
    return kernel


def _at_a_time(x: Tensor, axis: int) -> int:
    """Return how many parts along an axis of x to transform at a time."""
    nbytes = _STEP if x.is_cpu else _STEP_ON_GPU
    return max(1, nbytes * x.shape[axis] // (x.numel() * x.element_size()))


def convolved(x: Tensor, kernel: Tensor, sizes: Sequence[int], into: Tensor) -> None:
    """Write the convolutions of images (B, ...), some at a time; ``kernel`` is a transform.

    A row is an image without its first axis. Rows are transformed some at a time, and then lines
    along the first axis, which is last in memory: so padded images need not be in memory whole.
    """
    if len(sizes) == 1:
        axis = slice(None), slice(None), None
        return convolved(x[axis], kernel[axis[1:]], (*sizes, 1), into[axis])
    size, *others = sizes
    length, *padded = kernel.shape
    factors = kernel.movedim(0, -1).reshape(-1, length)
    of_row, of_line = (x.element_size() * n for n in (len(factors), length))
    nbytes, axes = _STEP if x.is_cpu else _STEP_ON_GPU, tuple(range(2, x.ndim))
    step = max(1, nbytes // (2 * size * of_row))
    n_rows, n_lines = (max(1, nbytes // (step * own)) for own in (of_row, of_line))
    inside = (..., *[slice(n) for n in others])
    steps = zip(x.split(step), into.split(step), strict=True)
    for images, results in steps_that_differ(x, steps, itemgetter(0)):
        lines = x.new_empty(len(images), len(factors), size)
        for rows, part in zip(images.split(n_rows, 1), lines.split(n_rows, 2), strict=True):
            part.copy_(torch.fft.fftn(rows, padded, axes).flatten(2).mT)
        for part, own in zip(lines.split(n_lines, 1), factors.split(n_lines), strict=True):
            spectrum = torch.fft.fft(part, length).mul_(own)
            part.copy_(torch.fft.ifft(spectrum).narrow(-1, 0, size))
        for part, rows in zip(lines.split(n_rows, 2), results.split(n_rows, 1), strict=True):
            rows.copy_(torch.fft.ifftn(part.mT.unflatten(2, padded), dim=axes)[inside])
    return None
