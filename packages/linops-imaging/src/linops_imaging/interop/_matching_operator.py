"""The check of every adapter that builds an operator of ours: that the source computes the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from linops_core import NamedLinop
from nameddim import ELLIPSES


def matching_operator(
    owner: str,
    candidates: Iterable[NamedLinop],
    function: Callable[[Tensor], Any],
    lengths: Sequence[int],
    dtype: torch.dtype,
    tol: float,
    n_frames: int = 0,
) -> NamedLinop:
    """Return the first operator that computes what ``function`` does for a random tensor.

    Dimensions that the operator has beside the lengths are of size 1, after ``n_frames`` of them. A
    source that has other conventions, in another release say, raises an error here.
    """
    x = torch.randn(tuple(lengths), dtype=dtype, generator=torch.Generator().manual_seed(0))
    expected = torch.as_tensor(function(x))
    least = float("inf")
    for A in candidates:
        n_others = sum(dim != ELLIPSES for dim in A.ishape) - len(lengths)
        shape = (*lengths[:n_frames], *[1] * n_others, *lengths[n_frames:])
        with torch.no_grad():
            y = A(x.reshape(shape).to(expected.device)).to(expected.dtype)
        if y.numel() == expected.numel():
            error, scale = (y.reshape(expected.shape) - expected).norm(), expected.norm()
            least = min(least, float(error / scale))
            if error <= tol * scale:
                return A
    raise ValueError(
        f"{owner}: the source must compute what the operator made of its parameters does, got "
        f"results that differ by {least:.2g} of their norm; its options or its release are unknown"
    )
