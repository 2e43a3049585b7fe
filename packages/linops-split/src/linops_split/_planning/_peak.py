"""The peak memory of a computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from linops_core.siblings import choosing_steps

from .._private_torch import TorchDispatchMode
from ._count import Count
from ._structure import Structures
from ._without_data import QuickFakeMode


def peak_nbytes(work: Callable[[], object]) -> dict[torch.device, int]:
    """Return the peak of the bytes that ``work`` allocates, by device; see `count_of`."""
    return dict(count_of(work).peaks)


def count_of(
    work: Callable[[], object],
    mode: QuickFakeMode | None = None,
    structures: Structures | None = None,
) -> Count:
    """Return the count of the bytes that ``work`` allocates, with its peaks.

    Counts storages, each once however many views it has, from the operation that makes or enlarges
    it until nothing refers to it any more. Also counts what operations are known to allocate
    inside. Tensors may be real, or fake or meta tensors without data; ``mode`` is the mode in which
    ``work`` runs, if it counts by itself.
    """
    count = Count(structures)
    counting = _Counting(count) if mode is None else mode.counted_by(count)
    with counting, choosing_steps(count.differing):
        work()
    return count


class _Counting(TorchDispatchMode):
    """Counts operations in any mode."""

    def __init__(self, count: Count) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._count = count

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        return self._count.of(func, args, kwargs, lambda: func(*args, **kwargs))
