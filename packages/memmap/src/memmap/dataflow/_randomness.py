"""Random number generators: memory that operators read and write without saying so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ._operators import TensorArgument


def random_source(
    arguments: Sequence[TensorArgument], args: Sequence[object], kwargs: Mapping[str, object]
) -> torch.Generator | torch.device | None:
    """Where a call may draw from; None where it cannot, because its tensors are meta or fake."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Generator):
            return value
    if arguments:
        device = arguments[0].tensor.untyped_storage().device  # a fake tensor's own lies
    else:
        device = torch.device(str(kwargs.get("device") or "cpu"))
    if device.type == "cpu":
        return torch.default_generator
    if device.type == "meta":
        return None
    module = torch.get_device_module(device)
    generators = getattr(module, "default_generators", None)
    if not generators:
        return device
    generator: torch.Generator = generators[
        module.current_device() if device.index is None else device.index
    ]
    return generator


def state_of(source: torch.Generator | torch.device | None) -> bytes | None:
    """State of a generator; None of a device, whose generator torch does not show."""
    if not isinstance(source, torch.Generator):
        return None
    with _disable_current_modes():
        state: bytes = source.get_state().numpy().tobytes()
        return state
