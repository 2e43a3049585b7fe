"""Real tensors of a device type that has no memory of its own, over memory of the host.

DLPack is how torch takes in memory that somebody else owns. It knows a device type for extensions,
which is the one that torch leaves to backends out of its tree, and it tells the owner when the
last view is gone. So a simulated tensor is an ordinary one: with a storage, views, an address.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable

import torch
from torch import Tensor

_EXTENSION_DEVICE = 12  # kDLExtDev of dlpack.h


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Array(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("n_dims", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_array_in = ctypes.pythonapi.PyCapsule_GetPointer
_array_in.restype = ctypes.POINTER(_Array)  # what a managed array of dlpack.h begins with
_array_in.argtypes = [ctypes.py_object, ctypes.c_char_p]


def tensor_over(
    memory: Tensor, dtype: torch.dtype, index: int, released: Callable[[], None] | None = None
) -> Tensor:
    """Return a tensor on device ``index``, with a storage of its own over bytes of the host.

    When the last tensor with that storage is gone, ``released`` is called once, from any thread.
    """
    try:
        example = memory[:0].view(dtype).__dlpack__()
    except BufferError as error:
        message = f"simulated: the dtype must be one that DLPack has, got {dtype}"
        raise TypeError(message) from error
    owner = memory.numpy()
    if released is not None:
        # Torch may let go while an exception is on its way, when no function of Python may be its
        # deleter. That of NumPy is in C, and Python puts the exception aside for a finalizer.
        weakref.finalize(owner, released).atexit = False
    capsule = owner.__dlpack__()
    array = _array_in(capsule, b"dltensor").contents
    array.device = _Device(_EXTENSION_DEVICE, index)
    array.dtype = _array_in(example, b"dltensor").contents.dtype
    array.shape[0] = memory.numel() // dtype.itemsize
    tensor: Tensor = torch._C._from_dlpack(capsule)
    return tensor
