"""Functions of long lists, computed for some items at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ._plain import is_plain

AT_ONCE = 2**18
"""Numbers to compute at a time, about."""


def some_at_a_time(function: Callable[[Tensor], Tensor], items: Tensor, n: int) -> Tensor:
    """Return ``function`` of items along axis 0, computed for n of them at a time.

    Beside the result there are the temporaries of n items, and the result once more if autograd or
    a transform records it.
    """
    first, *others = items.split(max(1, n))
    found = function(first)
    if not others:
        return found
    if found.requires_grad or not is_plain(found):
        return torch.cat([found, *map(function, others)])
    result = found.new_empty(len(items), *found.shape[1:])
    result[: len(found)] = found
    for part, own in zip(others, result.split(len(found))[1:], strict=True):
        own.copy_(function(part))
    return result
