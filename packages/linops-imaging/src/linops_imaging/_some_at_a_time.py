"""Functions of long lists, computed for some items at a time."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from linops_core.siblings import concatenate

AT_ONCE = 2**18
"""Numbers to compute at a time, about."""


def some_at_a_time(function: Callable[[Tensor], Tensor], items: Tensor, n: int) -> Tensor:
    """Return ``function`` of items along axis 0, computed for n of them at a time.

    Beside the result there are the temporaries of n items, and the result once more if autograd or
    a transform records it.
    """
    return concatenate(map(function, items.split(max(1, n))), 0, len(items))
