"""Arrays of a user as tensors."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from linops_core.siblings import as_tensor, real_parts
from linops_split.siblings import is_batch
from nameddim import NamedDimension

Array: TypeAlias = Tensor | np.ndarray[Any, Any]
AnyArray = TypeVar("AnyArray", Tensor, np.ndarray[Any, Any])
Name: TypeAlias = NamedDimension | str
Dims: TypeAlias = tuple[NamedDimension, ...]


def tensor_of(owner: str, name: str, array: object, device: torch.device | None = None) -> Tensor:
    """Return an array as a tensor on a device, without a copy if possible."""
    if isinstance(array, np.ndarray) and array.dtype.kind in "biufc":
        array = as_tensor(array)
    if not isinstance(array, Tensor):
        kind = array.dtype if isinstance(array, np.ndarray) else type(array)
        raise TypeError(f"{owner}: {name} must be a tensor or a NumPy array, got {kind}")
    if is_batch(array):
        raise ValueError(
            f"{owner}: {name} must have values that can be read, got a batch of vmap; name its "
            "axis in dims, as B in ('B', 'C', 'Kx', 'Ky')"
        )
    return array.to(device)


def is_all_finite(x: Tensor) -> bool:
    """Return whether no number is NaN or infinite, usually by a sum, which needs no memory."""
    total = real_parts(x.detach()).sum()  # it is not finite, too, if it leaves the range
    return bool(total.isfinite()) or bool(x.isfinite().all())
