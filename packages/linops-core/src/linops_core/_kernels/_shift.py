"""Shifts of axes with cropping and zero-padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ._halo import Axis


def moved(x: Tensor, axes: Sequence[Axis], numbers: Sequence[int] | None = None) -> Tensor:
    """Return ``x`` shifted along axes, by default the last ones.

    It is a correlation with the kernel [1]. It is a view if no zeros are needed.
    """
    padding = [0] * (2 * x.ndim)
    for number, axis in zip(numbers or range(-len(axes), 0), axes, strict=True):
        n_input, n_output, _, offset, _ = axis
        if x.shape[number] != n_input:
            raise ValueError(
                f"the size along axis {number} must be {n_input}, got {x.shape[number]} in an "
                f"input of shape {tuple(x.shape)}"
            )
        start, stop = max(0, -offset), min(n_input, n_output - offset)
        if start >= stop:
            start = stop = offset = 0
        if stop - start < n_input:
            x = x.narrow(number, start, stop - start)
        last = 2 * ((-1 - number) % x.ndim)  # zeros of the last axis come first
        before = max(offset, 0)
        padding[last : last + 2] = before, n_output - before - (stop - start)
    return torch.constant_pad_nd(x, padding) if any(padding) else x
