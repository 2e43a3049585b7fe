"""What torch's convolutions allocate inside, on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor


def convolved(given: Sequence[Tensor], made: Sequence[Tensor], args: Sequence[Any]) -> int:
    """Return how many bytes a convolution allocates beside its result.

    oneDNN copies what it reads and writes to another order of the elements. The other ways copy
    the input so that it is a product of matrices: each element as often as there are taps.
    """
    y = made[0]
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = args
    if x.ndim == 3:  # one more axis, as torch itself does
        x, weight = x.unsqueeze(2), weight.unsqueeze(2)
        stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
        output_padding = [0, *output_padding]
    backend: object = torch._C._select_conv_backend(
        x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, None
    )
    if str(backend).endswith(".Mkldnn"):
        return _reordered(x, weight, y, is_planar=x.ndim == 5 and groups > 1)
    taps: int = prod(weight.shape[1:])
    n_groups: int = groups
    columns = y.nbytes // y.shape[1] * taps
    if x.ndim == 5:  # all groups at once
        return columns * n_groups
    if n_groups == 1:
        return columns
    # Group by group, each copied where it is not in one piece; the results are joined to another.
    return max(columns + (x.nbytes // n_groups if len(x) > 1 else 0), y.nbytes)


def _reordered(x: Tensor, weight: Tensor, y: Tensor, is_planar: bool) -> int:
    """Return the bytes of the copies for oneDNN, which takes channels in blocks, but for planes.

    The copy of the input is gone before the result is copied back.
    """
    if is_planar:
        return x.nbytes + y.nbytes
    # As many channels as fit a register.
    block = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8
    inputs, kernels, outputs = (
        tensor.nbytes // tensor.shape[axis] * -(-tensor.shape[axis] // block) * block
        for tensor, axis in ((x, 1), (weight, 0), (y, 1))
    )
    return max(inputs + kernels + outputs - y.nbytes, outputs)
