"""Fresh memory, in huge pages where the system has them."""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache

import torch

# The system maps fresh memory page by page: with pages of 2 MiB instead of 4 KiB, large copies
# take less than half the time, but the first one in a process three to four times as long. (With
# huge pages from 8 MiB on, the first copy of GPT-2 took 1.6 times the processor time.)
HUGE_FROM = 256 << 20
_MADV_HUGEPAGE = 14  # in mman.h of Linux


def empty_bytes(nbytes: int, device: torch.device) -> torch.Tensor:
    """Uninitialised memory as uint8, aligned and resizable like any tensor of torch."""
    data = torch.empty(nbytes, dtype=torch.uint8, device=device)
    if (
        nbytes >= HUGE_FROM
        and type(data) is torch.Tensor  # not a fake one
        and device.type == "cpu"
        and sys.platform == "linux"
    ):
        first, last = whole_pages(data.data_ptr(), nbytes, mmap.PAGESIZE)
        # This is only advice: if the system refuses it, the memory is still valid.
        _libc().madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_HUGEPAGE)
    return data


def whole_pages(start: int, nbytes: int, page: int) -> tuple[int, int]:
    """Start and end address of the whole pages within some bytes."""
    return -(-start // page) * page, (start + nbytes) // page * page


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
