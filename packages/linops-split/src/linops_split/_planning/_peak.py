"""The peak memory of a computation."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from linops_core.siblings import choosing_steps

from .._private_torch import FakeTensor, TorchDispatchMode
from ._structure import Structures
from ._workspace import workspace_nbytes

_Counts: TypeAlias = dict[torch.device, tuple[int, int]]
"""For each device: the highest number of bytes during a step, and those left behind."""


def peak_nbytes(work: Callable[[], object]) -> dict[torch.device, int]:
    """Return the peak of the bytes that ``work`` allocates, by device; see `AllocationCount`."""
    count = AllocationCount()
    with count, choosing_steps(count.differing):
        work()
    return dict(count.peaks)


class AllocationCount(TorchDispatchMode):
    """Tracks the storages that operations make, until they are freed.

    Counts storages, each once however many views it has, from the operation that makes or enlarges
    it until nothing refers to it any more. Also counts what operations are known to allocate
    inside. As a mode, it counts operations on tensors of any kind, with or without data.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.structures = Structures()
        self.peaks: dict[torch.device, int] = defaultdict(int)
        """The highest number of bytes on each device."""
        self._now: dict[torch.device, int] = defaultdict(int)
        # The weak references are stored with the sizes, so that they live only during the count.
        self._made: dict[int, tuple[weakref.ref[torch.UntypedStorage], int]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        return self.of(func, args, kwargs, lambda: func(*args, **kwargs))

    def of(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], run: Callable[[], Any]
    ) -> Any:
        """Return the results of an operation, and count what it allocates."""
        given = [*tensors_in((args, kwargs))]
        before = dict(map(_storage_of, given))
        results = run()
        made = [*tensors_in([results])]
        before.update(map(_storage_of, _stand_ins(given, made)))
        for tensor in made:
            key, nbytes = _storage_of(tensor)
            if more := nbytes - before.get(key, 0):
                self.add(tensor, more)
        if made:
            self.note(made[0].device, workspace_nbytes(func, given, made, args))
        return results

    def add(self, tensor: Tensor, more: int) -> None:
        """Count ``more`` bytes of the storage of a tensor, until it is freed."""
        storage, device = tensor.untyped_storage(), tensor.device
        reference, counted = self._made.get(storage._cdata, (None, 0))
        if reference is None:
            reference = weakref.ref(storage, partial(self._forget, storage._cdata, device))
        self._made[storage._cdata] = reference, counted + more
        self._now[device] += more
        self.note(device)

    def note(self, device: torch.device, inside: int = 0) -> None:
        """Note how many bytes there are now on a device, and inside of an operation."""
        self.peaks[device] = max(self.peaks[device], self._now[device] + inside)

    def differing(self, steps: Iterable[Any], key: Callable[[Any], object]) -> Iterator[Any]:
        """Yield steps, but count a step that equals an earlier one as that one.

        The first step of all may allocate what all of them share, so it is not repeated.
        """
        counts_by_look: dict[Hashable, _Counts] = {}
        seen = set[Hashable]()
        for number, step in enumerate(steps):
            structure, caches = self.structures.of(key(step))
            look = structure, tuple([cache in seen for cache in caches])
            seen.update(caches)
            if look not in counts_by_look:
                start, before = self._now.copy(), self.peaks.copy()
                self.peaks.update(start)
                yield step
                if number:
                    counts_by_look[look] = {
                        d: (self.peaks[d] - start[d], n - start[d]) for d, n in self._now.items()
                    }
                for device, peak in before.items():
                    self.peaks[device] = max(self.peaks[device], peak)
                continue
            for device, (highest, left) in counts_by_look[look].items():
                self.note(device, highest)
                self._now[device] += left

    def _forget(self, key: int, device: torch.device, _: object) -> None:
        self._now[device] -= self._made.pop(key)[-1]


def _storage_of(tensor: Tensor) -> tuple[int, int]:
    """Return the identity of the storage of a tensor, and its bytes."""
    storage = tensor.untyped_storage()
    return storage._cdata, storage.nbytes()


def _stand_ins(given: Iterable[Tensor], made: Sequence[Tensor]) -> list[Tensor]:
    """Return the fake tensors that the fake mode made for the real ones among the arguments."""
    if not made or not isinstance(made[0], FakeTensor):
        return []
    mode = made[0].fake_mode
    return [mode.from_tensor(tensor) for tensor in given if not isinstance(tensor, FakeTensor)]


def tensors_in(nested: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors in nested lists, tuples and dictionaries."""
    for value in nested.values() if isinstance(nested, dict) else nested:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple, dict)):
            yield from tensors_in(value)
