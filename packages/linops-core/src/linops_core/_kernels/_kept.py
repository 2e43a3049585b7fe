"""What is made of the values of tensors, and kept until they change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.forward_ad import unpack_dual

from ._accumulate import writing_is_safe
from ._changes import TensorState

Made = TypeVar("Made")

# Where something is kept; on other devices it is made for each call.
_DEVICES = ("cpu", "cuda")
_dispatch_mode, _FAKE = torch._C._get_dispatch_mode, torch._C._TorchDispatchModeKey.FAKE


class Kept(Generic[Made]):
    """What was made of some tensors and, once these have changed, what is made of the new ones."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: tuple[list[TensorState], object, Made] | None = None

    def __reduce__(self) -> tuple[type[Kept[Made]], tuple[()]]:
        return Kept, ()  # a copy begins with nothing

    def of(self, tensors: Sequence[Tensor], make: Callable[[], Made], how: object = None) -> Made:
        """Return what ``make()`` makes of the tensors as they are, in the way ``how``."""
        with self._lock:
            kept = self._kept
            if (
                kept is None
                or kept[1] != how
                or not all(map(TensorState.is_current, kept[0], tensors))
            ):
                wait_for(*tensors)
                self._kept = kept = None  # before there are two
                with torch.inference_mode(False), torch.no_grad():
                    kept = [TensorState(tensor) for tensor in tensors], how, make()
                wait_for(*tensors)
                self._kept = kept
            return kept[2]


def is_plain(*tensors: Tensor) -> bool:
    """Whether nobody but autograd follows, transforms or redefines what is done with the tensors.

    Where memory is planned, tensors without data are as plain as those for which they stand.
    """
    if not writing_is_safe():
        return False
    # In a mode without data, what is made of tensors with data has none either.
    kinds = (Tensor, torch.nn.Parameter) if _dispatch_mode(_FAKE) is None else (FakeTensor,)
    return all(
        type(t) in kinds
        and t.device.type in _DEVICES
        and unpack_dual(t).tangent is None
        and torch._C._has_storage(t)  # which a batch of gradients has not
        for t in tensors
    )


def wait_for(*tensors: Tensor) -> None:
    """Let the host wait for the current stream: others may use what it made, none what it read."""
    for tensor in tensors:
        if tensor.device.type != "cpu" and not isinstance(tensor, FakeTensor):
            tensor.detach()[(slice(1),) * tensor.ndim].cpu()
