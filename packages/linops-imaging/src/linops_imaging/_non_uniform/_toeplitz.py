"""The normal operator of a non-uniform Fourier transform as a convolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from operator import itemgetter
from typing import NamedTuple, cast

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


class KernelTransform(NamedTuple):
    """The transform of a kernel, of the sizes of :func:`convolution_sizes`."""

    real: Tensor
    imag: Tensor | None = None
    """None for a transform that is real: of weights that are real."""
    is_conjugate: bool = False

    def with_axis(self) -> KernelTransform:
        """Return it with an axis of size 1 behind."""
        imag = None if self.imag is None else self.imag.unsqueeze(-1)
        return KernelTransform(self.real.unsqueeze(-1), imag, self.is_conjugate)

    def lines(self) -> KernelTransform:
        """Return views as lines along the first axis."""
        length = len(self.real)
        views = (
            None if part is None else part.movedim(0, -1).reshape(-1, length)
            for part in (self.real, self.imag)
        )
        return KernelTransform(*cast(tuple[Tensor, Tensor], tuple(views)), self.is_conjugate)

    def add_product(self, spectrum: Tensor, lines: slice, total: Tensor) -> None:
        """Add the product with some of the lines to ``total``."""
        factor = self.real[lines].to(spectrum.dtype)  # mixed products take longer
        if self.imag is not None:
            factor.imag.add_(self.imag[lines], alpha=-1 if self.is_conjugate else 1)
        total.addcmul_(factor, spectrum)


def convolution_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of the grid of the convolution: even, and at least 2 N - 1."""
    return tuple([padded_size(2 * size - 1, 1.0) for size in sizes])


def kernel_transform(
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
            slices = [
                slice(first % larger, (first + n - 1) % larger + 1)
                for first, n, larger in zip(corner, sizes, padded, strict=True)
            ]
            half[tuple(slices)] = quadrant
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


def write_convolutions(
    x: Tensor, kernels: Sequence[Sequence[KernelTransform]], sizes: Sequence[int], into: Tensor
) -> None:
    """Write sums of convolutions of images, some at a time: row i of ``kernels`` makes result i.

    A row is an image without its first axis. Rows are transformed some at a time, and then lines
    along the first axis, which is last in memory: so padded images need not be in memory whole.

    Parameters
    ----------
    x : Tensor
        Images, (B, J, ...).
    kernels : sequence of sequences
        I rows of J transforms of kernels.
    sizes : sequence of int
        Of an image.
    into : Tensor
        (B, I, ...).
    """
    if len(sizes) == 1:
        longer = [[kernel.with_axis() for kernel in row] for row in kernels]
        return write_convolutions(x.unsqueeze(-1), longer, (*sizes, 1), into.unsqueeze(-1))
    size, *others = sizes
    length, *padded = kernels[0][0].real.shape
    factors = [[kernel.lines() for kernel in row] for row in kernels]
    n_all, n_images = math.prod(padded), max(map(len, (kernels, kernels[0])))
    of_row, of_line = (x.element_size() * n * n_images for n in (n_all, length))
    nbytes, axes = _STEP if x.is_cpu else _STEP_ON_GPU, tuple(range(3, 2 + len(sizes)))
    step = max(1, nbytes // (2 * size * of_row))
    n_rows, n_lines = (max(1, nbytes // (step * some)) for some in (of_row, of_line))
    inside = (..., *[slice(n) for n in others])
    steps = zip(x.split(step), into.split(step), strict=True)
    for images, results in steps_that_differ(x, steps, itemgetter(0)):
        lines = x.new_empty(*images.shape[:2], n_all, size)
        for rows, part in zip(images.split(n_rows, 2), lines.split(n_rows, 3), strict=True):
            part.copy_(torch.fft.fftn(rows, padded, axes).flatten(3).mT)
        back = lines
        if len(kernels) != images.shape[1]:
            back = x.new_empty(len(images), len(kernels), n_all, size)
        for start in range(0, n_all, n_lines):
            some = slice(start, start + n_lines)
            spectrum = _mixed(torch.fft.fft(lines[:, :, some], length), factors, some)
            back[:, :, some] = torch.fft.ifft(spectrum).narrow(-1, 0, size)
        for part, rows in zip(back.split(n_rows, 3), results.split(n_rows, 2), strict=True):
            rows.copy_(torch.fft.ifftn(part.mT.unflatten(3, padded), dim=axes)[inside])
    return None


def _mixed(spectrum: Tensor, factors: Sequence[Sequence[KernelTransform]], lines: slice) -> Tensor:
    """Return the products of spectra (B, J, lines, length) and kernels, summed over J."""
    if len(factors) == len(factors[0]) == 1:
        return spectrum.mul_(factors[0][0].real[lines])
    shape = (len(spectrum), len(factors), *spectrum.shape[2:])
    result = spectrum.new_zeros(shape)
    for row, total in zip(factors, result.unbind(1), strict=True):
        for kernel, part in zip(row, spectrum.unbind(1), strict=True):
            kernel.add_product(part, lines, total)
    return result
