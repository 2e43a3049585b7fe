"""Memory that the C library keeps when it is freed, for the tensors that come next."""

from __future__ import annotations

import torch
from torch import Tensor

_AT_A_TIME = 4
_LONGEST = 2**25 - 2**16
"""glibc goes up to 32 MiB, with what it adds to a block."""

_kept = 0


def keep_freed(*tensors: Tensor) -> None:
    """Have memory of the size of these tensors kept by the C library when it is freed.

    glibc gives large blocks back to the system, which hands out new pages, full of zeros: that
    takes longer than the arithmetic. It keeps blocks as long as the longest that was freed, up to
    32 MiB, and free memory of twice that length. So one is made here and freed: nobody writes to
    it, so it takes no memory. Other C libraries, and a limit that is set by
    ``MALLOC_MMAP_THRESHOLD_``, stay as they are. Tensors that are not on the CPU do not count.
    """
    global _kept
    plain = [x for x in tensors if type(x) is Tensor and x.is_cpu]
    nbytes = max([x.numel() * x.element_size() for x in plain], default=0)
    length = min(_AT_A_TIME * nbytes, _LONGEST)
    if length > _kept:
        torch.UntypedStorage(length, device="cpu")
        _kept = length
