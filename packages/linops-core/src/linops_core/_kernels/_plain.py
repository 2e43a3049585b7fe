"""Whether tensors are plain ones, from which values may be read and kept."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ._accumulate import writing_is_safe
from ._torch_state import FakeTensor, has_storage, is_in_fake_mode, is_in_forward_mode

# Devices on which values are kept. A meta tensor has none, and on devices on which no test runs
# they are computed in each call, so that the results are right there, too.
_DEVICES = ("cpu", "cuda")

_WITH_DATA = Tensor, torch.nn.Parameter


def is_plain(*tensors: Tensor) -> bool:
    """Whether no transform, mode or subclass but autograd acts on tensors on a usual device.

    During memory planning, tensors without data count like those that they represent.
    """
    if not writing_is_safe():
        return False
    # In a mode without data, results have no data either.
    kinds = (FakeTensor,) if is_in_fake_mode() else _WITH_DATA
    return _are_plain(kinds, tensors) and all([t.device.type in _DEVICES for t in tensors])


def can_read_values(*tensors: Tensor) -> bool:
    """Whether values may be read: no transform, mode or subclass but autograd acts on tensors."""
    is_plain_data = writing_is_safe() and _are_plain(_WITH_DATA, tensors)
    return is_plain_data and not any([t.is_meta for t in tensors])


def _are_plain(kinds: tuple[type, ...], tensors: Sequence[Tensor]) -> bool:
    has_tangents = is_in_forward_mode()
    return all(
        [
            type(t) in kinds
            and not (has_tangents and forward_ad.unpack_dual(t).tangent is not None)
            and has_storage(t)  # a batch of gradients has none
            for t in tensors
        ]
    )


def wait_for(*tensors: Tensor) -> None:
    """Wait for the current stream on the host, so that other streams can use the result."""
    for tensor in tensors:
        if tensor.device.type not in ("cpu", "meta") and not isinstance(tensor, FakeTensor):
            tensor.detach()[(slice(1),) * tensor.ndim].cpu()
