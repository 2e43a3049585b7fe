"""Real tensors of a device type that has no memory of its own, over memory of the host.

DLPack is how torch takes in memory that somebody else owns, and knows a device type for extensions.
So a simulated tensor is an ordinary one: with a storage, views, an address.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

_EXTENSION_DEVICE = 12  # kDLExtDev of dlpack.h

_array_in = ctypes.pythonapi.PyCapsule_GetPointer
_array_in.restype = ctypes.c_void_p
_array_in.argtypes = [ctypes.py_object, ctypes.c_char_p]


def tensor_over(memory: Tensor, dtype: torch.dtype, index: int) -> Tensor:
    """Return a tensor on device ``index``, with a storage of its own over bytes of the host."""
    try:
        capsule = memory.view(dtype).__dlpack__()
    except BufferError as error:
        message = f"simulated: the dtype must be one that DLPack has, got {dtype}"
        raise TypeError(message) from error
    # An array of dlpack.h begins with an address, the type of its device and the index.
    device = _array_in(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)
    (ctypes.c_int32 * 2).from_address(device)[:] = [_EXTENSION_DEVICE, index]
    tensor: Tensor = torch._C._from_dlpack(capsule)
    return tensor
