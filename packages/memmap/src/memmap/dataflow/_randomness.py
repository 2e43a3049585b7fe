"""Random number generators: memory that operators read and write without saying so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ._operators import TensorArgument


class Randomness:
    """Whether a call draws random numbers: dropout of nothing, for one, does not.

    Parameters
    ----------
    source : torch.Generator or torch.device
        The generator; or the device, where torch does not show its generator.
    """

    def __init__(self, source: torch.Generator | torch.device) -> None:
        self.source = source
        self._before = self._state()

    @classmethod
    def of(
        cls,
        arguments: Sequence[TensorArgument],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> Randomness | None:
        """Watch a call that is about to be made.

        Parameters
        ----------
        arguments : sequence of TensorArgument
            The tensors of the call.
        args, kwargs : sequence and mapping
            As the dispatcher gives them.

        Returns
        -------
        Randomness or None
            None where nothing can be drawn, because the tensors are meta or fake.
        """
        source = _source(arguments, args, kwargs)
        return None if source is None else cls(source)

    def was_drawn(self) -> bool:
        """Whether numbers were drawn since; True where the generator cannot be asked."""
        if self._before is None:
            return True
        return self._state() != self._before

    def _state(self) -> bytes | None:
        if isinstance(self.source, torch.device):
            return None
        with _disable_current_modes():
            state: bytes = self.source.get_state().numpy().tobytes()
            return state


def _source(
    arguments: Sequence[TensorArgument], args: Sequence[object], kwargs: Mapping[str, object]
) -> torch.Generator | torch.device | None:
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
