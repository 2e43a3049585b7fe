"""Memory budgets: the given bytes, or the free memory of a device."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import TypeAlias

import torch

Memory: TypeAlias = float | str | torch.device
"""A number of bytes, as a number or as text, or a device whose free memory is meant."""

_MEMINFO = Path("/proc/meminfo")


def budget_on(device: torch.device, memory: Memory | None) -> int:
    """Return how many bytes work on ``device`` may take: the given ones, or the free memory."""
    if isinstance(memory, str):
        return _parsed(memory)
    if isinstance(memory, Real) and not isinstance(memory, bool):
        if not 0 <= memory < math.inf:
            raise ValueError(
                f"plan_batches: memory must be finite and must not be negative, got {memory}"
            )
        return int(memory)
    if not isinstance(memory, (torch.device, type(None))):
        raise TypeError(
            "plan_batches: memory must be a number of bytes, text such as '1.5 GiB', or a "
            f"torch.device, got {memory!r}"
        )
    if memory is not None and (
        memory.type != device.type or memory.index not in (None, device.index)
    ):
        raise ValueError(
            f"plan_batches: memory must be the operator's device, {device}, got {memory}"
        )
    return free_nbytes(device)


def _parsed(text: str) -> int:
    """Return the bytes that a text says."""
    match = re.fullmatch(
        r"\s*(\d+(?:\.\d*)?(?:e\+?\d{1,2})?)\s*(?:([kmgt]?)(i?)b)?\s*",
        text,
        re.ASCII | re.IGNORECASE,
    )
    if match is None or (match[3] and not match[2]):
        raise ValueError(
            "plan_batches: memory must be a number, alone or with B, kB, MB, GB, TB, KiB, MiB, GiB "
            f"or TiB, got {text!r}"
        )
    exponent = ["", "k", "m", "g", "t"].index((match[2] or "").lower())
    return int(Fraction(match[1]) * (1024 if match[3] else 1000) ** exponent)


def free_nbytes(device: torch.device) -> int:
    """Return how many bytes are free on a device.

    On an accelerator: the free memory reported by its driver, plus the unused memory that torch
    has reserved. On Linux: the available memory of the system, without limits of containers.
    """
    if device.type == "cpu" and _MEMINFO.exists():
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is not None and accelerator.type == device.type:
        free, _ = torch.accelerator.get_memory_info(device)
        unused = torch.accelerator.memory_reserved(device)
        return int(free + unused - torch.accelerator.memory_allocated(device))
    raise ValueError(
        f"plan_batches: memory must be given in bytes for a device whose free memory is not known, "
        f"got {device}"
    )
