"""Devices by name: normalised, so that equal ones compare equal, and there before they are used."""

from __future__ import annotations

import torch


def as_device(device: torch.device | str) -> torch.device:
    """Return the device with its index, of which the CPU has none; refuse what names no device."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"a device must be named as in 'cpu' or 'cuda:0', got {device!r}"
        ) from error
    if found.type in ("cpu", "meta"):
        return torch.device(found.type)
    if found.index is None:
        # "cuda" is whichever is current; a tensor on it says "cuda:0".
        return probed(found)
    return found


def probed(device: torch.device) -> torch.device:
    """Return the device that a tensor made on ``device`` is on; refuse one that is not there."""
    try:
        return torch.empty(0, device=device).device
    except Exception as error:  # each backend has exceptions of its own
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"the device {device} must be there to be used: {reason}") from error
