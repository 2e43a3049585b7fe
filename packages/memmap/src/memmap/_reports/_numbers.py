"""The numbers of a report: bytes of one storage and of each of its tensors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from .._views._coverage import Coverage, coverage_of, n_touched
from .._views._layout import Layout
from .._views._pairs import overlapping_pairs
from ._entry import Entry


class Numbers(NamedTuple):
    """Bytes of a storage, or of several together; `MemoryReport` explains each number."""

    allocated: int = 0
    spanned: int = 0
    touched: int = 0
    shared: int = 0
    wasted: int = 0
    separate: int = 0

    def as_dict(self) -> dict[str, int]:
        """The numbers by name."""
        return self._asdict()


def total(parts: Iterable[Numbers]) -> Numbers:
    """Sum of numbers, one by one."""
    return Numbers(*map(sum, zip(*parts, strict=True)))


class TensorNumbers(NamedTuple):
    """Bytes of one tensor of a storage, the offset of the first, and who else touches them."""

    entry: Entry
    offset: int
    spanned: int = 0
    touched: int = 0
    shared: int = 0
    separate: int = 0
    shares_with: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The tensor and its numbers, of types that JSON has."""
        numbers = self._asdict()
        entry = numbers.pop("entry")
        described = {"names": [*entry.names], "dtype": entry.dtype, "shape": [*entry.shape]}
        return described | numbers | {"shares_with": [*self.shares_with]}


class StorageReport:
    """A storage, or several in one address space that have common bytes, with its tensors."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.device = entries[0].device
        self.start = min(entry.view.storage_span[0] for entry in entries)
        self.stop = max(entry.view.storage_span[1] for entry in entries)
        self._filled = [entry for entry in entries if entry.layout is not None]
        self._empty = [entry for entry in entries if entry.layout is None]
        self.layouts = [entry.layout for entry in entries if entry.layout is not None]

    @cached_property
    def numbers(self) -> Numbers:
        """Bytes of the storage."""
        allocated = self.stop - self.start
        if not self.layouts:
            return Numbers(allocated, wasted=allocated)
        start = min(layout.start for layout in self.layouts)
        return Numbers(
            allocated=allocated,
            spanned=max(layout.stop for layout in self.layouts) - start,
            touched=self._coverage.touched,
            shared=self._coverage.shared,
            wasted=allocated - self._coverage.touched,
            separate=sum(entry.separate * len(entry.names) for entry in self._filled),
        )

    @cached_property
    def tensors(self) -> list[TensorNumbers]:
        """Bytes of each tensor, by offset."""
        partners = [entry.names[1:] for entry in self._filled]
        if self.numbers.shared:
            for first, second in overlapping_pairs(entry.view for entry in self._filled):
                partners[first] += self._filled[second].names
                partners[second] += self._filled[first].names
        shared_of = self._coverage.shared_of() if self.layouts else []
        made = [
            TensorNumbers(
                entry,
                offset=layout.start - self.start,
                spanned=layout.stop - layout.start,
                touched=n_touched([layout]),
                shared=shared,
                separate=entry.separate,
                shares_with=tuple(names),
            )
            for entry, layout, shared, names in zip(
                self._filled, self.layouts, shared_of, partners, strict=True
            )
        ]
        made += [TensorNumbers(entry, entry.view.address - self.start) for entry in self._empty]
        return sorted(made, key=lambda tensor: (tensor.offset, -tensor.spanned))

    @cached_property
    def shared(self) -> list[Layout]:
        """Bytes that are touched under at least two names, as sets of which no two overlap."""
        return self._coverage.shared_part() if self.numbers.shared else []

    @cached_property
    def _coverage(self) -> Coverage:
        return coverage_of(self.layouts, self.start, [len(e.names) > 1 for e in self._filled])


def storages_of(entries: Iterable[Entry]) -> list[StorageReport]:
    """Storages, largest first, each with the tensors in it; those with common bytes are one.

    Nothing joins empty storages: each tensor in one has its own.
    """
    groups: list[list[Entry]] = []
    spaces: dict[Hashable, list[Entry]] = {}
    for entry in entries:
        if entry.view.storage_nbytes:
            spaces.setdefault(entry.view.space, []).append(entry)
        else:
            groups.append([entry])
    for members in spaces.values():
        reached = None
        for entry in sorted(members, key=lambda entry: entry.view.storage_span):
            start, stop = entry.view.storage_span
            if reached is None or start >= reached:
                groups.append([])
            groups[-1].append(entry)
            reached = stop if reached is None else max(reached, stop)
    storages = [StorageReport(group) for group in groups]
    return sorted(storages, key=lambda storage: storage.start - storage.stop)
