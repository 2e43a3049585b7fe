"""Time and peak memory of one piece of work."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Measured:
    """A result and what it cost."""

    value: Tensor
    seconds: float
    peak_bytes: int | None
    """Highest memory in use: of all CUDA devices together, or resident in this process."""
    extra_bytes: int | None
    """How much of that came on top of what was in use before. None where neither is known."""


def measured(work: Callable[[], Tensor], devices: Sequence[torch.device]) -> Measured:
    """Run ``work`` and measure it on ``devices``.

    On CUDA the allocator counts. On the CPU the kernel does: Linux tells the highest resident
    size since it was asked to forget; elsewhere no peak is known.
    """
    cuda = sorted({device for device in devices if device.type == "cuda"}, key=str)
    for device in cuda:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
    before = _allocated(cuda) if cuda else _reset_peak()
    start = time.perf_counter()
    value = work()
    for device in cuda:
        torch.cuda.synchronize(device)
    seconds = time.perf_counter() - start
    peak = sum(map(torch.cuda.max_memory_allocated, cuda)) if cuda else _resident("VmHWM")
    if before is None or peak is None:
        return Measured(value, seconds, None, None)
    return Measured(value, seconds, peak, peak - before)


def _allocated(devices: Sequence[torch.device]) -> int:
    return sum(map(torch.cuda.memory_allocated, devices))


def _reset_peak() -> int | None:
    """Forget the peak so far; return the resident size, or None where there is no such thing."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        # What earlier work has freed is still resident, and would hide what this work takes.
        ctypes.CDLL(None).malloc_trim(0)
    try:
        _CLEAR.write_text("5")
    except OSError:
        return None
    return _resident("VmRSS")


def _resident(key: str) -> int | None:
    """Return a line of the process status in bytes."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return None


def mebibytes(size: int | None) -> str:
    """Return a number of bytes for a table."""
    return "not known" if size is None else f"{size / 2**20:.1f} MiB"
