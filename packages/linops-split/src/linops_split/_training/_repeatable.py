"""Whether a part that is run again does the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def is_autocast(devices: Sequence[torch.device]) -> bool:
    """Whether autocast chooses dtypes on one of the devices: in a backward pass it does not."""
    types = {device.type for device in devices}
    return any(
        torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind) for kind in types
    )


def random_states(devices: Sequence[torch.device]) -> list[Tensor]:
    """Return the states of torch's generators of random numbers."""
    found = [torch.get_rng_state()]
    for device in dict.fromkeys(devices):
        state_of = getattr(getattr(torch, device.type, None), "get_rng_state", None)
        if device.type != "cpu" and state_of is not None:
            found.append(state_of(device))
    return found
