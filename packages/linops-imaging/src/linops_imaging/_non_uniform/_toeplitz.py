"""The normal operator of a non-uniform Fourier transform as a convolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from operator import itemgetter
from typing import NamedTuple

import torch
from torch import Tensor

from linops_core import steps_that_differ

from ._kaiser_bessel import padded_size

# Bytes of the padded images that are convolved at a time; one image may have more. A GPU waits for
# each step.
_STEP, _STEP_ON_GPU = 2**19, 2**26

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
    locs: Tensor, weights: Tensor, sizes: Sequence[int], adjoint: Callable[[Phases], Tensor]
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

    Returns
    -------
    Tensor
        Real, double precision, of the sizes of :func:`convolution_sizes`.
    """
    padded = convolution_sizes(sizes)
    shape = (*padded[:-1], padded[-1] // 2 + 1)
    half = torch.zeros(shape, dtype=torch.complex128, device=locs.device)
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
    kernel: Tensor = torch.fft.hfftn(half, s=padded, dim=tuple(range(-len(sizes), 0)))
    return kernel / math.sqrt(math.prod(sizes))


def convolved(x: Tensor, kernel: Tensor, sizes: Sequence[int], into: Tensor) -> None:
    """Write the convolutions of images (B, ...), some at a time; ``kernel`` is a transform."""
    nbytes = _STEP if x.is_cpu else _STEP_ON_GPU
    step = max(1, nbytes // (kernel.numel() * x.element_size()))
    padded, kernel = kernel.shape, kernel.movedim(0, -1).contiguous()
    steps = zip(x.split(step), into.split(step), strict=True)
    for some, part in steps_that_differ(x, steps, itemgetter(0)):
        part.copy_(_cropped(_spectrum(some, padded).mul_(kernel), sizes))


def _spectrum(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the transform of the zero-padded x, with its first axis last.

    Each axis is transformed while it is contiguous, and before the other axes are padded.
    """
    for number, size in enumerate(reversed(sizes)):
        if number:
            x = x.movedim(-1, -len(sizes)).contiguous()
        x = torch.fft.fft(x, size)
    return x


def _cropped(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the first elements of the inverse transform of x, whose first axis is last."""
    for number, size in enumerate(sizes):
        if number:
            x = x.movedim(-len(sizes), -1)
        x = torch.fft.ifft(x).narrow(-1, 0, size)
    return x
