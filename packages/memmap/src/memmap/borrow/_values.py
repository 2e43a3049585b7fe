"""Between the values that users hold, NumPy arrays or tensors, and the tensors held for them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch

from .._views._arrays import Array
from .._views._overlap import has_internal_overlap

Value: TypeAlias = Array | torch.Tensor


def as_tensor(what: str, value: Value) -> tuple[torch.Tensor, bool]:
    """A value as a tensor, without a copy where that is possible.

    Parameters
    ----------
    what : str
        What the value is for, to begin an error with.
    value : numpy.ndarray or torch.Tensor
        A tensor is taken without its history of gradients.

    Returns
    -------
    tensor : torch.Tensor
        The value.
    is_alias : bool
        Whether the tensor is the value's own memory, which can be written to. It is not for
        read-only arrays and for arrays with negative strides or a foreign byte order.

    Raises
    ------
    TypeError
        If the value is neither an array nor a strided tensor, has a dtype that torch lacks, or is
        a masked array (a tensor has no mask).
    """
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise TypeError(f"{what}: a tensor must be strided, got layout {value.layout}")
        return value.detach(), True
    if not isinstance(value, np.ndarray):
        raise TypeError(
            f"{what}: the value must be a NumPy array or a tensor, got {type(value).__name__}"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{what}: an array must have no mask, got a {type(value).__name__}")
    can_alias = (
        value.flags.writeable
        and value.flags.aligned
        and value.dtype.isnative
        and all(stride >= 0 for stride in value.strides)
        and all(stride % value.itemsize == 0 for stride in value.strides)
    )
    if not can_alias:
        value = np.array(value, dtype=value.dtype.newbyteorder("="))
    try:
        return torch.from_numpy(value), can_alias
    except TypeError as error:
        raise TypeError(f"{what}: torch must have the dtype, got {value.dtype}") from error


def as_array(tensor: torch.Tensor) -> Array:
    """A tensor as a NumPy array: the same memory, if it is on a CPU and needs no conversion.

    Parameters
    ----------
    tensor : torch.Tensor
        A tensor of a dtype that NumPy has.

    Returns
    -------
    numpy.ndarray
        A view where possible, else a copy.
    """
    array: Array = tensor.resolve_conj().resolve_neg().cpu().numpy()
    return array


def has_numpy_dtype(tensor: torch.Tensor) -> bool:
    """Whether NumPy has the dtype of a tensor.

    Parameters
    ----------
    tensor : torch.Tensor
        Any tensor.

    Returns
    -------
    bool
        False for bfloat16, for one.
    """
    try:
        torch.empty(0, dtype=tensor.dtype).numpy()
    except TypeError:
        return False
    return True


def copied(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The values in new memory, of which no two elements share a byte.

    Parameters
    ----------
    tensor : torch.Tensor
        Any strided tensor.
    device : torch.device
        Where the copy shall lie.

    Returns
    -------
    torch.Tensor
        A copy; dense, if elements of the original overlap.
    """
    layout = torch.contiguous_format if has_internal_overlap(tensor) else torch.preserve_format
    return tensor.to(device, copy=True, memory_format=layout)


def check_flag(what: str, flag: bool) -> None:
    """Check that a flag is a truth value.

    Parameters
    ----------
    what : str
        Which flag it is, to begin an error with.
    flag : bool
        Anything.

    Raises
    ------
    TypeError
        If it is none.
    """
    if not isinstance(flag, bool):
        raise TypeError(f"{what} must be True or False, got {flag!r}")
