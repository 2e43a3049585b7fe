"""Temporary memory that operations of torch allocate inside, invisible from outside.

Found by comparing the storages that operations return with the allocations that torch's profiler
records on a CPU, with torch 2.13.0: thresholds such as 14 taps and blocks of 16 channels are what
its oneDNN does. Operations that are not listed here allocate little or nothing inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .._private_torch import convolution_backend

Tensors: TypeAlias = Sequence[Tensor]
Rule: TypeAlias = Callable[[Tensors, Tensors, Sequence[Any]], int]
"""A function of the tensors that an operation gets, those it returns, and its arguments."""

aten = torch.ops.aten


def workspace_nbytes(func: Any, inputs: Tensors, outputs: Tensors, args: Sequence[Any]) -> int:
    """Return how many bytes ``func`` allocates besides its results, as far as known.

    ``inputs`` and ``outputs`` are the tensors among its arguments and its results.
    """
    rule = _rule(func)
    if rule is None or (outputs[0].device.type != "cpu" and rule not in _ON_ANY_DEVICE):
        return 0
    return rule(inputs, outputs, args)


@cache
def _rule(func: Any) -> Rule | None:
    if func.overloadpacket in _RULES:
        return _RULES[func.overloadpacket]
    return _promotion_nbytes if torch.Tag.pointwise in func.tags else None


def _no_nbytes(inputs: Tensors, outputs: Tensors, args: Sequence[Any]) -> int:
    return 0


def _promotion_nbytes(inputs: Tensors, outputs: Tensors, args: Sequence[Any]) -> int:
    """On a CPU, operands of another dtype are converted first; elsewhere while they are read."""
    if all(t.dtype == outputs[0].dtype for t in inputs):
        return 0
    # A comparison returns booleans, but converts its operands to a common dtype.
    common = reduce(
        torch.promote_types, [t.dtype for t in (*inputs, *outputs) if t.ndim], torch.bool
    )
    return sum(t.numel() * common.itemsize for t in inputs if t.ndim and t.dtype != common)


def _accumulation_nbytes(inputs: Tensors, outputs: Tensors, args: Sequence[Any]) -> int:
    """On a CPU, a reduction to another dtype converts its whole operand."""
    return 0 if inputs[0].dtype == outputs[0].dtype else inputs[0].numel() * outputs[0].itemsize


def _sort_nbytes(inputs: Tensors, outputs: Tensors, args: Sequence[Any]) -> int:
    """On a CPU, the numbers along an axis are made first; the longest axis is assumed."""
    return max(outputs[1].shape, default=1) * outputs[1].itemsize


def _roll_nbytes(inputs: Tensors, outputs: Tensors, args: Sequence[Any]) -> int:
    """Axes are rolled one after the other; all intermediate results live until the end."""
    dims = args[2] if len(args) > 2 else ()
    return (len(dims) - 1) * outputs[0].nbytes if len(dims) > 1 else 0


def _fft_nbytes(inputs: Tensors, outputs: Tensors, args: Sequence[Any]) -> int:
    """MKL needs the batches in one row, so other inputs are copied; cuFFT needs a workspace.

    The workspace is assumed to be as large as the larger of input and result; this was not
    measured.
    """
    x = inputs[0]
    if outputs[0].device.type != "cpu":
        return max(x.nbytes, outputs[0].nbytes)
    return 0 if _has_one_batch(x, args[1]) else x.nbytes


def _real_fft_nbytes(inputs: Tensors, outputs: Tensors, args: Sequence[Any]) -> int:
    """All axes but the last are transformed first, out of place, and may be copied twice."""
    x, (*first, last) = inputs[0], args[1]
    if not first:
        return _fft_nbytes(inputs, outputs, args)
    if outputs[0].device.type != "cpu":
        return x.nbytes + _fft_nbytes(inputs, outputs, (None, first))
    before = 0 if _has_one_batch(x, first) else x.nbytes
    # MKL returns batches first, longest stride first, then the axes that it transformed.
    axes = [dim % x.ndim for dim in first]
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    order = [*sorted(rest, key=x.stride, reverse=True), *axes]
    strides = [prod(x.shape[a] for a in order[order.index(axis) + 1 :]) for axis in range(x.ndim)]
    between = torch.empty_strided(x.shape, strides, device="meta")
    after = 0 if _has_one_batch(between, [last]) else x.nbytes
    return x.nbytes + max(before - outputs[0].nbytes, after)


def _has_one_batch(x: Tensor, dims: Sequence[int]) -> bool:
    """Whether the axes that are not transformed can be seen as one axis with one stride."""
    transformed = {dim % x.ndim for dim in dims}
    rest = [axis for axis in range(x.ndim) if axis not in transformed and x.shape[axis] > 1]
    rest.sort(key=x.stride, reverse=True)
    return all(x.stride(a) == x.stride(b) * x.shape[b] for a, b in pairwise(rest))


def _matmul_nbytes(inputs: Tensors, outputs: Tensors, args: Sequence[Any]) -> int:
    """BLAS takes a matrix in row or column order, and a conjugated one only in column order."""
    return sum(t.nbytes for t in inputs[-2:] if not _is_for_blas(t))


def _is_for_blas(matrix: Tensor) -> bool:
    rows, columns = matrix.stride()
    if matrix.is_conj():
        return rows == 1
    return 1 in (rows, columns)


def _batched_matmul_nbytes(inputs: Tensors, outputs: Tensors, args: Sequence[Any]) -> int:
    """Conjugated operands are copied whole; others that BLAS cannot take, matrix by matrix."""
    return sum(
        t.nbytes if t.is_conj() else 0 if _is_for_blas(t[0]) else t[0].nbytes
        for t in inputs[-2:]
        if len(t)
    )


def _embedding_bag_nbytes(inputs: Tensors, outputs: Tensors, args: Sequence[Any]) -> int:
    """On a CPU, two results have one number more than torch says without data.

    These are the bags of the indices, unless they are left out, and the maxima of the bags.
    """
    _, bags, _, maxima = outputs
    n_numbers = len(args[2]) + (bags.numel() + 1 if bags.numel() else 0)
    held = bags.untyped_storage().nbytes() + maxima.untyped_storage().nbytes()
    return max(0, n_numbers * maxima.itemsize - held)


def _convolution_nbytes(inputs: Tensors, outputs: Tensors, args: Sequence[Any]) -> int:
    """Return how many bytes a convolution allocates besides its result.

    An input that is not contiguous is copied first. oneDNN copies its input and output to another
    order of the elements. Other backends copy the input into a matrix, in which each element occurs
    once for every tap of the kernel.
    """
    y = outputs[0]
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = args
    if x.ndim == 3:  # torch adds an axis in the same way
        x, weight = x.unsqueeze(2), weight.unsqueeze(2)
        stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
        output_padding = [0, *output_padding]
    arguments = x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    copy = 0 if x.is_contiguous() else x.nbytes
    if convolution_backend(*arguments) == "Mkldnn":
        if x.shape[1] > 1 and x.movedim(1, -1).is_contiguous():
            copy = 0  # which oneDNN takes as it is
        return copy + _layout_copy_nbytes(x, weight, y, is_planar=x.ndim == 5 and groups > 1)
    taps: int = prod(weight.shape[1:])
    n_groups: int = groups
    columns = y.nbytes // y.shape[1] * taps
    if x.ndim == 5:  # all groups together
        return columns * n_groups + copy
    if n_groups == 1:
        return columns + copy
    # Group by group; a group is copied if it is not contiguous. Then the results are concatenated.
    return copy + max(columns + (x.nbytes // n_groups if len(x) > 1 else 0), y.nbytes)


def _layout_copy_nbytes(x: Tensor, weight: Tensor, y: Tensor, is_planar: bool) -> int:
    """Return the bytes of the copies for oneDNN, in blocks of channels unless planar.

    The copy of the input is freed before the result is copied back. One input channel needs no
    other order, and neither do channels that are last in memory. Long kernels of one axis multiply
    a matrix, in which each element of a plane occurs once for every tap.
    """
    # The number of channels that fit a register.
    block = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8
    inputs, kernels, outputs = (
        tensor.nbytes // tensor.shape[axis] * -(-tensor.shape[axis] // block) * block
        for tensor, axis in ((x, 1), (weight, 0), (y, 1))
    )
    if x.movedim(1, -1).is_contiguous() and x.shape[1] > 1:
        return kernels
    if x.shape[2:-1].numel() == 1 and weight.shape[-1] >= 14 and x.shape[1] > 1:
        return y.nbytes // y.shape[1] * weight.shape[-1]  # as a matrix, plane by plane
    if is_planar:
        return y.nbytes + max(x.nbytes, kernels)
    if x.shape[1] == 1:
        inputs = 0
    return max(inputs + kernels + outputs - y.nbytes, outputs)


_RULES: dict[Any, Rule] = {
    aten.where: _no_nbytes,
    aten.sum: _accumulation_nbytes,
    aten.mean: _accumulation_nbytes,
    aten.prod: _accumulation_nbytes,
    aten.cumsum: _accumulation_nbytes,
    aten.sort: _sort_nbytes,
    aten.roll: _roll_nbytes,
    aten._fft_c2c: _fft_nbytes,
    aten._fft_r2c: _fft_nbytes,
    aten._fft_c2r: _real_fft_nbytes,
    aten.mm: _matmul_nbytes,
    aten.addmm: _matmul_nbytes,
    aten.bmm: _batched_matmul_nbytes,
    aten.baddbmm: _batched_matmul_nbytes,
    aten.convolution: _convolution_nbytes,
    aten._embedding_bag_forward_only: _embedding_bag_nbytes,
}
_ON_ANY_DEVICE = (_roll_nbytes, _fft_nbytes, _real_fft_nbytes)
"""The rules that also hold on other devices than a CPU."""
