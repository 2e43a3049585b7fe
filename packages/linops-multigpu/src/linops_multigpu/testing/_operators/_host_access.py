"""The host's own use of memory that devices copy to and from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.autograd.graph import increment_version
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .._device import DEVICE_TYPE, counts_its_writes
from .._machine._machine import Machine
from ._compute import tensors_in, written_by


class HostAccess(TorchDispatchMode):
    """Checks what operators read and write on the host, on the thread that entered it.

    Writes are counted in the versions of tensors where any mode keeps torch from it.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._machine = machine

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        written = written_by(func, args, options)
        if not func.is_view:
            tensors = tensors_in((args, options))
            # Operators on devices see to what they take from the host by themselves.
            devices = [options.get("device"), *(tensor.device for tensor in tensors)]
            if not any(device and torch.device(device).type == DEVICE_TYPE for device in devices):
                with self._machine.entered():
                    self._machine.host_access(tensors, written, str(func))
        result = func(*args, **options)
        if written and not counts_its_writes(func):
            increment_version([tensor for tensor in written if not tensor.is_inference()])
        return result


# What reads the memory of a tensor by other means than operators, or lets others read it.
_READERS = {
    *(Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.__dlpack__),
    *(Tensor.__repr__, Tensor.__format__, torch.tensor, torch.as_tensor, torch.asarray),
}


class HostReads(TorchFunctionMode):
    """Checks what is read on the host past operators, on the thread that entered it.

    What shares memory, such as a NumPy array, counts as read when it is made.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _READERS:
            with self._machine.entered():
                self._machine.host_access(tensors_in((args, kwargs)), (), func.__name__)
        return func(*args, **(kwargs or {}))
