"""Correlation of a grid with a small kernel: directly, or through the Fourier transform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

from ._accumulate import writing_is_safe
from ._dtype import imag_part, summable
from ._extended_axis import ExtendedAxis
from ._halo import Axis
from ._linear_function import linear_function
from ._plain import can_read_values, is_plain
from ._tracing import is_recorded

_CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)

_LARGEST_DIRECT = 256
"""Bytes of a kernel above which transforms are faster; measured on a CPU on large grids."""
_SMALLEST_TRANSFORMED = 2**10
"""Points of a grid below which the overhead of calls dominates."""
_SMALLEST_SUM = 2**13
"""Numbers below which a loop over taps takes longer than a convolution."""
_PART = 2**22
"""Bytes of a result that a sum over taps computes at a time, so that they stay in the cache."""

_TRANSFORMED = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def correlated(
    x: Tensor,
    weight: Tensor,
    axes: Sequence[ExtendedAxis],
    method: str = "auto",
    *,
    is_back: bool = False,
) -> Tensor:
    r"""Return :math:`y_p = \sum_j w_j x_{p + j - b}` between parts of a grid, as a new tensor.

    The batch axes of the weight broadcast against the batch axes of x. Integers are added as int64.
    With ``is_back``, x is like an output of the axes, and the correlation goes to their inputs: the
    adjoint, if the weight is flipped and conjugated.
    """
    if not (weight.is_floating_point() or weight.is_complex()):
        x = summable(x)
    dtype = torch.promote_types(x.dtype, weight.dtype)
    if method == "fft" and not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(
            "Convolution: method must be 'auto' or 'direct' for integers, because a Fourier "
            "transform returns no integers, got 'fft'"
        )
    batch = x.shape[: x.ndim - len(axes)]
    lengths = [axis.lengths[0 if is_back else 1] for axis in axes]
    if not x.numel():  # torch's convolutions refuse these
        return x.new_zeros(*batch, *lengths, dtype=dtype)
    if all([axis.is_ring for axis in axes]) and _way(axes, dtype, method) == "fft":
        shifts = [axis.taps - 1 - axis.before if is_back else axis.before for axis in axes]
        return _by_transform(x.to(dtype), weight.to(dtype), shifts, x.shape[len(batch) :])
    terms = []
    for chosen in product(*(axis.stretches for axis in axes)):
        straight = [stretch.straight for stretch in chosen]
        if is_back:
            part = _term(x, weight, [axis.reverse for axis in straight], dtype, method)
            for number, stretch in enumerate(chosen, -len(axes)):
                part = stretch.put_back(part, number)
        else:
            part = x
            for number, stretch in enumerate(chosen, -len(axes)):
                part = stretch.taken(part, number)
            part = _term(part, weight, straight, dtype, method)
        terms.append(part)
    return reduce(torch.add, terms) if terms else x.new_zeros(*batch, *lengths, dtype=dtype)


def _way(axes: Sequence[Axis | ExtendedAxis], dtype: torch.dtype, method: str) -> str:
    """Return the given method, or the faster one for "auto"."""
    if method != "auto":
        return method
    size = math.prod([axis.taps for axis in axes]) * dtype.itemsize
    points = math.prod([axis.n_output for axis in axes])
    is_large = size > _LARGEST_DIRECT and points >= _SMALLEST_TRANSFORMED
    return "fft" if is_large and dtype in _TRANSFORMED else "direct"


def _term(
    x: Tensor, weight: Tensor, axes: Sequence[Axis], dtype: torch.dtype, method: str
) -> Tensor:
    """Return the correlation of parts that may overlap only in part, with zeros elsewhere."""
    ends = [(axis.before, axis.before + axis.n_input - axis.n_output) for axis in axes]
    if all(
        [0 <= min(pair) <= max(pair) < axis.taps for pair, axis in zip(ends, axes, strict=True)]
    ):
        return _touched(x, weight, axes, dtype, method)  # at once: small grids take as long as this
    inside = []
    margins: list[int] = []
    for number, axis in enumerate(axes, -len(axes)):
        read, written = axis.supports
        if read.stop - read.start < axis.n_input:
            x = x.narrow(number, read.start, read.stop - read.start)
        inside.append(axis.cut(read, written))
        margins[:0] = [written.start, axis.n_output - written.stop]
    y = _touched(x, weight, inside, dtype, method)
    return torch.constant_pad_nd(y, margins) if any(margins) else y


def _touched(
    x: Tensor, weight: Tensor, axes: Sequence[Axis], dtype: torch.dtype, method: str
) -> Tensor:
    """Return the correlation of overlapping parts: 0 <= shift < taps."""
    if _way(axes, dtype, method) == "fft":
        # Long enough that nothing wraps around into the output.
        lengths = [
            fast_length(max(n_in + before, n_out + taps - 1 - before))
            for n_in, n_out, taps, before in axes
        ]
        shifts = [axis.before for axis in axes]
        y = _by_transform(x.to(dtype), weight.to(dtype), shifts, lengths)
        for number, axis in enumerate(axes, x.ndim - len(axes)):
            y = y.narrow(number, 0, axis.n_output)
        return y
    # Not dtype.to_real(), which the compiler does not support.
    x = x.to(dtype if x.is_complex() else torch.promote_types(x.dtype, weight.real.dtype))
    device = x.device.type
    if (
        dtype.is_complex
        and torch.amp.is_autocast_available(device)
        and torch.is_autocast_enabled(device)
    ):
        with torch.autocast(device, enabled=False):  # no complex dtype has such parts
            return _direct(x, weight, axes)
    return _direct(x, weight, axes)


def _direct(x: Tensor, weight: Tensor, axes: Sequence[Axis]) -> Tensor:
    """Return the correlation as a sum over taps, or by torch's convolutions."""
    if not _sums_taps(x, weight, len(axes)):
        return _convolved(x, weight, axes)
    back = weight.detach().flip(tuple(range(-len(axes), 0))).conj().resolve_conj()
    forth = partial(_sum_over_taps, weight=weight, axes=axes)
    reverse = partial(_direct, weight=back, axes=[axis.reverse for axis in axes])
    return linear_function(forth, reverse, x.to(torch.promote_types(x.dtype, weight.dtype)), weight)


def _sums_taps(x: Tensor, weight: Tensor, ndim: int) -> bool:
    """Whether a sum over taps is faster than torch's convolutions, with less memory.

    It is on a CPU. There torch copies the input, or makes a matrix that has each element once for
    every tap. But oneDNN is up to four times as fast for contiguous planes in single precision.
    """
    if not (x.is_cpu and is_plain(x, weight)) or is_recorded(weight):
        return False
    dtype = torch.promote_types(x.dtype, weight.dtype)
    if dtype is torch.float32 and not torch.is_autocast_enabled("cpu"):
        if x.is_contiguous() and ndim > 1 and x.shape[: x.ndim - ndim].numel() > 1:
            return False
    elif dtype.itemsize < 8:
        return False
    return x.numel() >= _SMALLEST_SUM


def _sum_over_taps(x: Tensor, weight: Tensor, axes: Sequence[Axis]) -> Tensor:
    """Return the sum over the taps of the kernel times the part of x that each one reaches."""
    first = x.ndim - len(axes)
    axes = [*[Axis(n, n, 1, 0) for n in x.shape[:first]], *axes]
    lengths = [axis.n_output for axis in axes]
    x = x.resolve_conj().resolve_neg()
    # With the order of axes in memory that x has, so that neither is copied.
    y = torch.zeros_like(x) if lengths == [*x.shape] else x.new_zeros(lengths)
    taps = weight.flatten(weight.ndim - x.ndim + first).expand(*x.shape[:first], -1)
    taps = taps.movedim(-1, 0)[(..., *[None] * (x.ndim - first))]
    source, target = x, y
    if x.is_complex() and not weight.is_complex():  # half of the products
        source, target, taps = torch.view_as_real(x), torch.view_as_real(y), taps.unsqueeze(-1)
    # All taps for a part of the output, then the next part. Without data, parts only take time.
    cut = max(range(x.ndim), key=lambda axis: (lengths[axis] > 1) * y.stride(axis))
    n_parts = -(-y.nbytes // _PART) if can_read_values(x) else 1
    step, whole = max(1, lengths[cut] // max(1, n_parts)), axes[cut]
    for start in range(0, lengths[cut], step):
        piece = slice(start, min(start + step, lengths[cut]))
        part = target.narrow(cut, start, piece.stop - start)
        axes[cut] = whole.cut(None, piece)
        supports = [[axis.of_tap(tap).supports for tap in range(axis.taps)] for axis in axes]
        for tap, pairs in zip(taps.unbind(), product(*supports), strict=True):
            reads, writes = zip(*pairs, strict=True)
            part[writes].addcmul_(source[reads], tap[reads[:first]])
    return y


def _convolved(x: Tensor, weight: Tensor, axes: Sequence[Axis]) -> Tensor:
    """Return the correlation of real and imaginary parts by torch's real convolutions."""
    if weight.is_complex():
        parts = [_convolved(x, part, axes) for part in (weight.real, imag_part(weight))]
        if not x.is_complex():
            return torch.complex(*parts)
        return torch.add(*parts, alpha=1j)
    ndim = len(axes)
    batch, grid = x.shape[: x.ndim - ndim], x.shape[x.ndim - ndim :]
    # Each plane is a channel with its own kernel: by far the fastest way in torch.
    taps = weight.shape[weight.ndim - ndim :]
    if x.is_contiguous():  # with the usual strides; convolutions can hang with others (2.13)
        x = x.flatten().view(x.shape)
    planes = x.reshape(1, -1, *grid)
    kernels = weight.to(x.real.dtype).expand(*batch, *taps).reshape(-1, 1, *taps)
    if x.is_complex():
        planes, kernels = _parts(planes), kernels.repeat_interleave(2, dim=0)
    # Torch pads both sides equally, so one side may have too much.
    padding = [max(before, out + t - 1 - before - n) for n, out, t, before in axes]
    y = _CONVOLUTIONS[ndim - 1](planes, kernels, padding=padding, groups=kernels.shape[0])
    for number, (axis, pad) in enumerate(zip(axes, padding, strict=True), 2):
        if y.shape[number] > axis.n_output:
            y = y.narrow(number, pad - axis.before, axis.n_output)
    sizes = [axis.n_output for axis in axes]
    if x.is_complex():
        y = torch.view_as_complex(y.reshape(1, -1, 2, *sizes).movedim(2, -1).contiguous())
    return y.reshape(*batch, *sizes)


def _parts(planes: Tensor) -> Tensor:
    """Return real and imaginary parts of (1, planes, grid) as (1, 2 planes, grid)."""
    _, n_planes, *grid = planes.shape
    parts = torch.view_as_real(planes.resolve_conj())
    if n_planes == 1 and planes.dtype == torch.complex64:
        # Two channels in the format "channels last", which is three times as fast in single
        # precision. Torch recognises it by the stride of the first axis.
        return parts.squeeze(1).movedim(-1, 1)
    return parts.movedim(-1, 2).reshape(1, 2 * n_planes, *grid)


def _by_transform(
    x: Tensor, weight: Tensor, shifts: Sequence[int], lengths: Sequence[int]
) -> Tensor:
    """Return the correlation with these periods; x and the kernel have the same dtype."""
    axes = tuple(range(-len(shifts), 0))
    fft = torch.fft
    is_real = not x.is_complex()
    kernel = _spectrum(weight, shifts, lengths, is_real)
    spectrum = (fft.rfftn if is_real else fft.fftn)(x, s=lengths, dim=axes)
    may_write = writing_is_safe() and not is_recorded(spectrum, kernel)
    if may_write and torch.broadcast_shapes(spectrum.shape, kernel.shape) == spectrum.shape:
        spectrum *= kernel
    else:
        spectrum = spectrum * kernel
    del kernel  # before others are made
    if is_real:
        for axis in axes[:-1]:  # one by one, because irfftn copies its input
            spectrum = fft.ifft(spectrum, dim=axis)
        y: Tensor = fft.irfft(spectrum, lengths[-1])
    else:
        y = fft.ifftn(spectrum, dim=axes)
    return y


def _spectrum(
    weight: Tensor, shifts: Sequence[int], lengths: Sequence[int], is_real: bool
) -> Tensor:
    """Return the spectrum by which the spectrum of the input is multiplied.

    It is the transform of the reversed kernel. Each axis is transformed before the next
    one is as long as its period.
    """
    axes = range(-len(shifts), 0)
    for axis in reversed(axes) if is_real else axes:  # real values are transformed first
        taps = torch.arange(weight.shape[axis], device=weight.device)
        positions = (shifts[axis] - taps).remainder(lengths[axis])
        weight = _padded(weight, axis, positions, lengths[axis])
        weight = (torch.fft.rfft if is_real and axis == -1 else torch.fft.fft)(weight, dim=axis)
    return weight.contiguous()  # as the spectra that it multiplies: products take a third


def _padded(weight: Tensor, axis: int, positions: Tensor, size: int) -> Tensor:
    """Return zeros of length ``size`` along an axis, with the weight added at some positions."""
    around = list(weight.shape)
    around[axis] = size
    zeros = weight.new_zeros(around)
    if writing_is_safe():
        return zeros.index_add_(axis, positions, weight)
    return zeros.index_add(axis, positions, weight)


def fast_length(size: int) -> int:
    """Return the smallest length from ``size`` on that has no prime factor above 5."""
    while True:
        rest = size
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return size
        size += 1
