"""Random number generators: memory that operators read and write without saying so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ._operators import TensorArgument


class Randomness:
    """Whether an operator draws random numbers: dropout of nothing, for one, does not."""

    def __init__(self, source: torch.Generator | torch.device | None) -> None:
        self.source = source
        self._before = self._state()

    def was_drawn(self) -> bool:
        if isinstance(self.source, torch.Generator):
            with _disable_current_modes():
                return not torch.equal(self._before, self._state())
        return self.source is not None

    def _state(self) -> torch.Tensor:
        with _disable_current_modes():
            if isinstance(self.source, torch.Generator):
                return self.source.get_state()
            return torch.empty(0)


def source_of_randomness(
    arguments: Sequence[TensorArgument], args: Sequence[object], kwargs: Mapping[str, object]
) -> torch.Generator | torch.device | None:
    """Where a call would draw random numbers from.

    Parameters
    ----------
    arguments : sequence of TensorArgument
        The tensors of the call.
    args, kwargs : sequence and mapping
        As the dispatcher gives them.

    Returns
    -------
    torch.Generator, torch.device or None
        The generator; the device, where torch does not show its generator; None where nothing
        is drawn, because the tensors are meta or fake.
    """
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
