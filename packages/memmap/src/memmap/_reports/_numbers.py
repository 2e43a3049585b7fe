"""The numbers of a report: bytes of one storage and of each of its tensors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from math import prod
from typing import NamedTuple

from .._views._coverage import Coverage, coverage_of, n_touched
from .._views._layout import Layout
from .._views._pairs import overlapping_pairs
from ._entry import Entry


@dataclass(frozen=True)
class Numbers:
    """Bytes of a storage, or of several together.

    Attributes
    ----------
    allocated : int
        Bytes of the storage.
    spanned : int
        Bytes from the first that a tensor touches to the last.
    touched : int
        Bytes that at least one tensor touches.
    shared : int
        Bytes that are touched under at least two names.
    wasted : int
        Bytes that no tensor touches: ``allocated - touched``.
    separate : int
        Bytes that the tensors would take if each name got contiguous memory of its own, as when
        a checkpoint stores them one by one.
    """

    allocated: int = 0
    spanned: int = 0
    touched: int = 0
    shared: int = 0
    wasted: int = 0
    separate: int = 0

    def as_dict(self) -> dict[str, int]:
        """The numbers by name."""
        return asdict(self)


def total(parts: Iterable[Numbers]) -> Numbers:
    """Sum of numbers, one by one.

    Parameters
    ----------
    parts : iterable of Numbers
        Numbers of different storages.

    Returns
    -------
    Numbers
        All 0 if there are none.

    Examples
    --------
    >>> total([Numbers(8, 4, 4), Numbers(2, 2, 2)]).touched
    6
    """
    parts = list(parts)
    names = [field.name for field in fields(Numbers)]
    return Numbers(*[sum(getattr(part, name) for part in parts) for name in names])


class TensorNumbers(NamedTuple):
    """Bytes of one tensor of a storage.

    Attributes
    ----------
    entry : Entry
        The tensor.
    offset : int
        Bytes from the start of the storage to its first byte, or to where it would be if empty.
    spanned, touched, separate : int
        As for `Numbers`.
    shared : int
        Bytes of it that are also touched under another name.
    shares_with : tuple of str
        These other names, its own further names included.
    """

    entry: Entry
    offset: int
    spanned: int
    touched: int
    shared: int
    separate: int
    shares_with: tuple[str, ...]


class StorageReport:
    """A storage, or several that have memory in common, with its tensors.

    Parameters
    ----------
    entries : sequence of Entry
        Tensors in one address space whose storages have common bytes; at least one.

    Examples
    --------
    >>> from .._views._view import View
    >>> halves = [View("RAM", 0, 16, start, (8,), (1,)) for start in (0, 4)]
    >>> storage = StorageReport([Entry([n], v, "?", v.sizes, "RAM") for n, v in zip("ab", halves)])
    >>> storage.numbers
    Numbers(allocated=16, spanned=12, touched=12, shared=4, wasted=4, separate=16)
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = tuple(entries)
        self.device = entries[0].device
        self.start = min(entry.view.storage_span[0] for entry in entries)
        self.stop = max(entry.view.storage_span[1] for entry in entries)

    @cached_property
    def numbers(self) -> Numbers:
        """Bytes of the storage."""
        layouts = [layout for layout in self.layouts if layout is not None]
        allocated, touched = self.stop - self.start, self._coverage.touched if layouts else 0
        start = min([layout.start for layout in layouts], default=0)
        return Numbers(
            allocated=allocated,
            spanned=max([layout.stop for layout in layouts], default=0) - start,
            touched=touched,
            shared=self._coverage.shared if layouts else 0,
            wasted=allocated - touched,
            separate=sum(_separate(entry) * len(entry.names) for entry in self.entries),
        )

    @cached_property
    def tensors(self) -> list[TensorNumbers]:
        """Bytes of each tensor, by offset."""
        shared = iter(self._coverage.shared_of() if any(self.layouts) else ())
        made = []
        for entry, layout, others in zip(self.entries, self.layouts, self._partners(), strict=True):
            offset = (entry.view.address if layout is None else layout.start) - self.start
            made.append(
                TensorNumbers(
                    entry,
                    offset=offset,
                    spanned=0 if layout is None else layout.stop - layout.start,
                    touched=0 if layout is None else n_touched([layout]),
                    shared=0 if layout is None else next(shared),
                    separate=_separate(entry),
                    shares_with=tuple(others),
                )
            )
        return sorted(made, key=lambda tensor: (tensor.offset, -tensor.spanned))

    @cached_property
    def shared(self) -> list[Layout]:
        """Bytes that are touched under at least two names, as sets of which no two overlap."""
        return self._coverage.shared_part() if self.numbers.shared else []

    @cached_property
    def layouts(self) -> list[Layout | None]:
        """Bytes of each entry; None for those that are empty."""
        return [entry.view.layout() for entry in self.entries]

    @cached_property
    def _coverage(self) -> Coverage:
        tied = [
            (layout, len(entry.names) > 1)
            for entry, layout in zip(self.entries, self.layouts, strict=True)
            if layout is not None
        ]
        return coverage_of([layout for layout, _ in tied], self.start, [twice for _, twice in tied])

    def _partners(self) -> list[list[str]]:
        """For each entry, the other names under which bytes of it are touched."""
        partners = [
            [] if layout is None else entry.names[1:]
            for entry, layout in zip(self.entries, self.layouts, strict=True)
        ]
        if self.numbers.shared:
            for first, second in overlapping_pairs(entry.view for entry in self.entries):
                partners[first] += self.entries[second].names
                partners[second] += self.entries[first].names
        return partners


def storages_of(entries: Iterable[Entry]) -> list[StorageReport]:
    """Storages, each with the tensors in it; those that have common bytes count as one.

    Parameters
    ----------
    entries : iterable of Entry
        Tensors.

    Returns
    -------
    list of StorageReport
        Largest first. Nothing joins empty storages: each tensor in one has its own.
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


def _separate(entry: Entry) -> int:
    return prod(entry.view.sizes) * entry.view.itemsize
