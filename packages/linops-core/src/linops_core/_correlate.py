"""Correlation of a grid with a small kernel: directly, or through the Fourier transform."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

_CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)

# Of the kernel, in the precision of the result. Measured on a CPU, 256 x 256 and 64 x 64 x 64:
# from here on the transforms take less time, by far in double precision.
_LARGEST_DIRECT = 256
_SMALLEST_TRANSFORMED = 2**10
"""Points of a grid; below, the overhead of calls is most of the time."""

_TRANSFORMED = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def correlated(
    x: Tensor, weight: Tensor, before: Sequence[int], circular: bool, method: str = "auto"
) -> Tensor:
    r"""Return :math:`y_n = \sum_j w_j x_{n + j - b}`, of the size of x.

    Parameters
    ----------
    x : Tensor
        Shape (..., grid).
    weight : Tensor
        Shape (batches, sizes along the grid): batches of size 1 broadcast against those of x, as
        do none.
    before : sequence of int
        The shift b along each axis of the grid, at least 0 and less than the size of the weight.
    circular : bool
        Whether x goes on periodically; it is zero outside otherwise.
    method : {"auto", "direct", "fft"}

    Returns
    -------
    Tensor
        Of the shape of x; a new one.
    """
    dtype = torch.promote_types(x.dtype, weight.dtype)
    if not x.numel():  # an empty batch, which torch's convolutions refuse
        return x.to(dtype)
    if method == "auto":
        size = torch.Size(weight.shape[weight.ndim - len(before) :]).numel() * dtype.itemsize
        points = torch.Size(x.shape[x.ndim - len(before) :]).numel()
        is_large = size > _LARGEST_DIRECT and points >= _SMALLEST_TRANSFORMED
        method = "fft" if is_large and dtype in _TRANSFORMED else "direct"
    if method == "fft":
        return _by_transform(x.to(dtype), weight.to(dtype), before, circular)
    # Not dtype.to_real(), which the compiler does not know.
    x = x.to(dtype if x.is_complex() else torch.promote_types(x.dtype, weight.real.dtype))
    device = x.device.type
    autocast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    if not dtype.is_complex or not autocast:
        return _direct(x, weight, before, circular)
    with torch.autocast(device, enabled=False):  # parts of half the precision make no complex
        return _direct(x, weight, before, circular)


def _direct(x: Tensor, weight: Tensor, before: Sequence[int], circular: bool) -> Tensor:
    """Return the correlation by torch's own real one, of real and imaginary parts."""
    if weight.is_complex():
        parts = [_direct(x, part, before, circular) for part in (weight.real, weight.imag)]
        if not x.is_complex():
            return torch.complex(*parts)
        return torch.add(*parts, alpha=1j)
    ndim = len(before)
    grid = x.shape[x.ndim - ndim :]
    # Each plane is a channel with a kernel of its own: torch is at its fastest there, by far.
    taps = weight.shape[weight.ndim - ndim :]
    planes = x.reshape(1, -1, *grid)
    kernels = weight.to(x.real.dtype).expand(*x.shape[: x.ndim - ndim], *taps)
    kernels = kernels.reshape(-1, 1, *taps)
    if x.is_complex():
        planes, kernels = _parts(planes), kernels.repeat_interleave(2, dim=0)
    after = [size - 1 - first for size, first in zip(taps, before, strict=True)]
    if circular:
        for axis, ends in enumerate(zip(before, after, strict=True), 2):
            planes = _wrapped(planes, axis, *ends)
        padding = [0] * ndim
    else:
        padding = [max(ends) for ends in zip(before, after, strict=True)]
    y = _CONVOLUTIONS[ndim - 1](planes, kernels, padding=padding, groups=len(kernels))
    if not circular:  # torch pads alike on both sides
        for axis, (size, first, pad) in enumerate(zip(grid, before, padding, strict=True), 2):
            y = y.narrow(axis, pad - first, size)
    if x.is_complex():
        y = torch.view_as_complex(y.reshape(1, -1, 2, *grid).movedim(2, -1).contiguous())
    return y.reshape(x.shape)


def _parts(planes: Tensor) -> Tensor:
    """Return real and imaginary parts of (1, planes, grid) as (1, 2 planes, grid)."""
    _, n_planes, *grid = planes.shape
    if n_planes > 1 or planes.dtype != torch.complex64:
        parts = torch.view_as_real(planes.resolve_conj()).movedim(-1, 2)
        return parts.reshape(1, 2 * n_planes, *grid)
    # One plane is two channels in the format "channels last" as it is, which is the fast one in
    # single precision. Torch recognises it by the stride of the first axis.
    return torch.view_as_real(planes.resolve_conj()).squeeze(1).movedim(-1, 1)


def _wrapped(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    """Return x with its end before its start and its start behind its end."""
    size = x.shape[axis]
    if before <= size and after <= size:
        ends = (x.narrow(axis, size - before, before), x, x.narrow(axis, 0, after))
        return torch.cat([part for part in ends if part.shape[axis]], dim=axis)
    around = torch.arange(-before, size + after, device=x.device) % size
    return x.index_select(axis, around)


def _by_transform(x: Tensor, weight: Tensor, before: Sequence[int], circular: bool) -> Tensor:
    """Return the correlation as a product in the Fourier domain; both are of one dtype."""
    ndim = len(before)
    axes = tuple(range(-ndim, 0))
    grid, taps = x.shape[x.ndim - ndim :], weight.shape[weight.ndim - ndim :]
    if circular:
        sizes = list(grid)
    else:  # so large that what comes round does not reach the grid
        reach = [max(b, n - 1 - b) for b, n in zip(before, taps, strict=True)]
        sizes = [_fast_length(n + more) for n, more in zip(grid, reach, strict=True)]
    for axis, size in zip(axes, sizes, strict=True):
        weight = _on_ring(weight, axis, size)
    # A correlation is a product with the conjugate of the transform of conj(w).
    weight = weight.conj().roll([-b for b in before], dims=axes)
    if x.is_complex():
        spectrum = torch.fft.fftn(x, s=sizes, dim=axes)
        product = spectrum * torch.fft.fftn(weight, dim=axes).conj()
        y: Tensor = torch.fft.ifftn(product, dim=axes)
    else:
        spectrum = torch.fft.rfftn(x, s=sizes, dim=axes)
        product = spectrum * torch.fft.rfftn(weight, dim=axes).conj()
        y = torch.fft.irfftn(product, s=sizes, dim=axes)
    for axis, size in zip(axes, grid, strict=True):
        y = y.narrow(axis, 0, size)
    return y


def _on_ring(weight: Tensor, axis: int, size: int) -> Tensor:
    """Return the kernel of that size that does the same to what has this period."""
    rounds = math.ceil(weight.shape[axis] / size)
    taps = weight.movedim(axis, -1)
    taps = functional.pad(taps, (0, rounds * size - taps.shape[-1]))
    around: Tensor = taps.reshape(*taps.shape[:-1], rounds, size).sum(-2)
    return around.movedim(-1, axis)


def _fast_length(size: int) -> int:
    """Return the smallest length from ``size`` on that has no prime factor above 5."""
    while True:
        rest = size
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return size
        size += 1
