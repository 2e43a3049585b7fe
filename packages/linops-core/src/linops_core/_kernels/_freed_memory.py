"""Freed memory that the C library keeps for later tensors."""

from __future__ import annotations

import torch
from torch import Tensor

_AT_A_TIME = 4
_LONGEST = 2**25 - 2**16
"""glibc goes up to 32 MiB, with what it adds to a block."""

_kept = 0


def keep_freed(*tensors: Tensor) -> None:
    """Make the C library keep freed memory of the size of these tensors.

    glibc gives large freed blocks back to the system. For the next tensor, the system then fills
    new pages with zeros, which takes longer than the arithmetic. glibc keeps blocks that are at
    most as long as the longest block freed before, up to 32 MiB, and twice that length in all. So
    this function allocates such a block and frees it. The block is never written to, so it takes no
    memory. Other C libraries, and a limit that is set by ``MALLOC_MMAP_THRESHOLD_``, stay as they
    are. Tensors that are not on the CPU do not count.
    """
    global _kept
    plain = [x for x in tensors if type(x) is Tensor and x.is_cpu]
    nbytes = max([x.numel() * x.element_size() for x in plain], default=0)
    length = min(_AT_A_TIME * nbytes, _LONGEST)
    if length > _kept:
        torch.UntypedStorage(length, device="cpu")
        _kept = length
