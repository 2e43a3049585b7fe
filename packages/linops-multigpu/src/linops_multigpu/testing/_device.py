"""A device type of torch whose operators run in Python, on memory of the host.

Everything that depends on internals of torch is in this file.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload as OpOverload
from torch.library import Library, fallthrough_kernel
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes

DEVICE_TYPE = "sim"
_KEY = "PrivateUse1"
_CPU, _PRIVATE_USE_1 = 0, 20  # c10::DeviceType
_EXTENSION_DEVICE = 12  # kDLExtDev of dlpack.h
_libraries: list[Library] = []  # registrations last as long as these objects

outside_of_modes = _disable_current_modes
outside_of_function_modes = torch._C.DisableTorchFunction
Kernel = Callable[[OpOverload, tuple[Any, ...], dict[str, Any]], Any]
_active: list[tuple[Kernel, int]] = []  # at most one


@contextmanager
def activated(kernel: Kernel, n_devices: int) -> Iterator[None]:
    """Activate devices inside the block; ``kernel`` runs every operator on them."""
    if _active:
        raise RuntimeError("simulated: one machine must end before the next begins, got one inside")
    _active.append((kernel, n_devices))
    try:
        yield
    finally:
        _active.clear()


def _kernel(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    if not _active:
        raise RuntimeError("simulated devices must be used inside `with simulated()`, got none")
    return _active[0][0](op, args, kwargs)


def register(operators: Iterable[OpOverload]) -> None:
    """Register the device type and its own operators with torch, once for the whole process."""
    if _libraries:
        return
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None:
        raise RuntimeError(
            f"simulated: torch must know of no other accelerator in this process, got {accelerator}"
        )
    from torch.utils import backend_registration

    class Module(backend_registration._DummyBackendModule):
        def device_count(self) -> int:
            return _active[0][1] if _active else 0

        def is_available(self) -> bool:
            return bool(_active)

        def get_amp_supported_dtype(self) -> list[torch.dtype]:
            return []

    class Hook(backend_registration._DummyPrivateUse1Hook):
        def is_available(self) -> bool:
            return bool(_active)

        def has_primary_context(self, dev_id: int) -> bool:
            return bool(_active)

    backend_registration._setup_privateuseone_for_python_backend(DEVICE_TYPE, Module(), Hook())
    library: Any = Library  # torch gives it no types
    everything, aten = library("_", "IMPL"), library("aten", "IMPL")
    everything.fallback(_kernel, _KEY)
    for op in operators:
        # If a dispatch mode is partly switched off, as in `torch.tensor`, torch finds only these.
        aten.impl(op, partial(_kernel, op), _KEY)
        # Copies handle conjugation themselves; otherwise torch would copy endlessly.
    for lazy in ("Conjugate", "Negative"):
        aten.impl("_copy_from", fallthrough_kernel, lazy)
    _libraries.extend([everything, aten])
    _let_storages_fail()


def _let_storages_fail() -> None:
    """Let torch make storages on the host that no tensor uses; otherwise the process would end."""
    for path in Path(torch.__file__).parent.glob("lib/*c10.*"):
        c10 = ctypes.CDLL(str(path))
        get = getattr(c10, "_ZN3c1012GetAllocatorERKNS_10DeviceTypeE", None)
        put = getattr(c10, "_ZN3c1012SetAllocatorENS_10DeviceTypeEPNS_9AllocatorEh", None)
        if get is not None and put is not None:  # other compilers use other names
            get.restype = ctypes.c_void_p
            allocator = ctypes.c_void_p(get(ctypes.byref(ctypes.c_int8(_CPU))))
            put(_PRIVATE_USE_1, allocator, 0)


_array_in = ctypes.pythonapi.PyCapsule_GetPointer
_array_in.restype = ctypes.c_void_p
_array_in.argtypes = [ctypes.py_object, ctypes.c_char_p]


def tensor_over(memory: Tensor, dtype: torch.dtype, index: int) -> Tensor:
    """Return an ordinary tensor on device ``index``, with a storage over bytes of the host."""
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


@cache
def counts_its_writes(op: OpOverload) -> bool:
    """Whether torch counts the writes of ``op`` before a mode sees it, but not of its parts."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "ADInplaceOrView")


def without_memory(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the CPU kernel, which makes views of any storage without touching memory."""
    return op.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), *args, **kwargs)


def conjugated_like(plain: Tensor, tensor: Tensor) -> Tensor:
    """Return ``plain`` with the lazy conjugation and negation of ``tensor``."""
    if tensor.is_conj():
        plain = plain.conj()
    return torch._neg_view(plain) if tensor.is_neg() else plain
