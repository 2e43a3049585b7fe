"""Raw memory: fresh bytes on a device, and the bytes of a storage as a tensor."""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache

import torch

# A fresh mapping is paid page by page: with pages of 2 MiB instead of 4 KiB, a large copy takes
# less than half the time. Below this size there is nothing to gain.
HUGE_FROM = 8 << 20
_MADV_HUGEPAGE = 14

UNDER_WAY = 1 << 26
"""Most bytes that are allocated for what is on its way to another device: torch needs memory for
strided copies and casts between devices, as much as they move at once."""


def empty_bytes(nbytes: int, device: torch.device) -> torch.Tensor:
    """Uninitialised memory, in huge pages where the system has them.

    Parameters
    ----------
    nbytes : int
        Number of bytes.
    device : torch.device
        Where to allocate.

    Returns
    -------
    torch.Tensor
        uint8, shape (nbytes,); aligned and resizable as every tensor that torch allocates.

    Examples
    --------
    >>> empty_bytes(5, torch.device("cpu")).shape
    torch.Size([5])
    """
    data = torch.empty(nbytes, dtype=torch.uint8, device=device)
    if (
        nbytes >= HUGE_FROM
        and type(data) is torch.Tensor  # not a fake one
        and device.type == "cpu"
        and sys.platform == "linux"
    ):
        start = data.data_ptr()
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        last = (start + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
        # Advice only: if the system refuses it, the memory is as good as it was.
        _libc().madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_HUGEPAGE)
    return data


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def bytes_of(storage: torch.UntypedStorage, start: int, stop: int) -> torch.Tensor:
    """Some bytes of a storage, as a tensor that shares them.

    Parameters
    ----------
    storage : torch.UntypedStorage
        Any storage.
    start, stop : int
        Bytes from the start of the storage.

    Returns
    -------
    torch.Tensor
        uint8, shape (stop - start,); a view.

    Examples
    --------
    >>> bytes_of(torch.tensor([258], dtype=torch.int16).untyped_storage(), 0, 2)
    tensor([2, 1], dtype=torch.uint8)
    """
    data = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return data.set_(storage, start, (stop - start,), (1,))
