"""The bytes of storages that exist at the same time."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .._private_torch import FakeTensor
from ._peak_inside import inside_nbytes
from ._structure import Structures

_Counts: TypeAlias = dict[torch.device, tuple[int, int]]
"""For each device: the highest number of bytes during a step, and those left behind."""


class Count:
    """Tracks the storages that operations make, until they are freed."""

    def __init__(self, structures: Structures | None = None) -> None:
        self._structures = structures or Structures()
        self.peaks: dict[torch.device, int] = defaultdict(int)
        self.held: tuple[tuple[torch.Size, int], ...] = ()
        """The shape of each tensor at the highest peak, as it was made, and its bytes."""
        self._now: dict[torch.device, int] = defaultdict(int)
        # The weak references are stored with the sizes, so that they live only during the count.
        self._made: dict[int, tuple[weakref.ref[torch.UntypedStorage], torch.Size, int]] = {}
        self._highest = 0

    def of(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], run: Callable[[], Any]
    ) -> Any:
        """Return the results of an operation, and count what it allocates."""
        given = [*tensors_in((args, [*kwargs.values()]))]
        before = dict(map(_storage_of, given))
        results = run()
        made = [*tensors_in((results,))]
        before.update(map(_storage_of, _stand_ins(given, made)))
        for tensor in made:
            key, nbytes = _storage_of(tensor)
            if more := nbytes - before.get(key, 0):
                self.add(tensor.untyped_storage(), tensor.device, tensor.shape, more)
        if made:
            self.note(made[0].device, inside_nbytes(func, given, made, args))
        return results

    def add(
        self,
        storage: torch.UntypedStorage,
        device: torch.device,
        shape: torch.Size,
        more: int | None = None,
    ) -> None:
        """Count ``more`` bytes of a storage, by default all of a new one, until it is freed."""
        key = storage._cdata
        more = storage.nbytes() if more is None else more
        reference, _, counted = self._made.get(key, (None, None, 0))
        if reference is None:
            reference = weakref.ref(storage, partial(self._forget, key, device))
        self._made[key] = reference, shape, counted + more
        self._now[device] += more
        self.note(device)

    def note(self, device: torch.device, inside: int = 0) -> None:
        """Note how many bytes there are now on a device, and inside of an operation."""
        now = self._now[device] + inside
        self.peaks[device] = max(self.peaks[device], now)
        if now > self._highest:
            self._highest, self.held = now, tuple([made[1:] for made in self._made.values()])

    def differing(self, steps: Iterable[Any], key: Callable[[Any], object]) -> Iterator[Any]:
        """Yield steps, but count a step that equals an earlier one as that one.

        The first step of all may allocate what all of them share, so it is not repeated.
        """
        known: dict[Hashable, _Counts] = {}
        seen = set[Hashable]()
        for number, step in enumerate(steps):
            own, caches = self._structures.of(key(step))
            look = own, tuple([cache in seen for cache in caches])
            seen.update(caches)
            if look not in known:
                start, before = self._now.copy(), self.peaks.copy()
                self.peaks.update(start)
                yield step
                if number:
                    known[look] = {
                        d: (self.peaks[d] - start[d], n - start[d]) for d, n in self._now.items()
                    }
                for device, peak in before.items():
                    self.peaks[device] = max(self.peaks[device], peak)
                continue
            for device, (highest, left) in known[look].items():
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


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors in the arguments or results of an operation."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)
