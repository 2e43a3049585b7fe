"""The numbers of a report: bytes of one storage and of each of its tensors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from ._footprint import Footprint, footprint
from ._layout import Layout
from ._pairs import overlapping_pairs
from ._report_entry import Entry


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
    >>> from ._view import View
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
        span = self.footprint.span
        allocated, touched = self.stop - self.start, self.footprint.nbytes
        return Numbers(
            allocated=allocated,
            spanned=span[1] - span[0] if span else 0,
            touched=touched,
            shared=self.shared.nbytes,
            wasted=allocated - touched,
            separate=sum(_separate(entry) * len(entry.names) for entry in self.entries),
        )

    @cached_property
    def tensors(self) -> list[TensorNumbers]:
        """Bytes of each tensor, by offset."""
        partners = self._partners()
        made = []
        for entry, own, others in zip(self.entries, self._footprints, partners, strict=True):
            low, high = own.span or (entry.view.address, entry.view.address)
            shared = (own & self.shared).nbytes if others else 0
            made.append(
                TensorNumbers(
                    entry,
                    offset=low - self.start,
                    spanned=high - low,
                    touched=own.nbytes,
                    shared=shared,
                    separate=_separate(entry),
                    shares_with=tuple(others),
                )
            )
        return sorted(made, key=lambda tensor: (tensor.offset, -tensor.spanned))

    @cached_property
    def footprint(self) -> Footprint:
        """Bytes that at least one tensor touches."""
        space = self.entries[0].view.space
        return Footprint(space, [layout for layout in self.layouts if layout is not None])

    @cached_property
    def shared(self) -> Footprint:
        """Bytes that are touched under at least two names."""
        space = self.entries[0].view.space
        tied = [
            layout
            for entry, layout in zip(self.entries, self.layouts, strict=True)
            if layout is not None and len(entry.names) > 1
        ]
        if sum(part.nbytes for part in self._footprints) == self.footprint.nbytes:
            return Footprint(space, tied)  # no two tensors overlap
        return Footprint(space, [*tied, *_touched_twice(self._footprints)])

    @cached_property
    def layouts(self) -> list[Layout | None]:
        """Bytes of each entry; None for those that are empty."""
        return [entry.view.layout() for entry in self.entries]

    @cached_property
    def _footprints(self) -> list[Footprint]:
        return [footprint(entry.view) for entry in self.entries]

    def _partners(self) -> list[list[str]]:
        """For each entry, the other names under which bytes of it are touched."""
        partners = [
            entry.names[1:] if part.span else []
            for entry, part in zip(self.entries, self._footprints, strict=True)
        ]
        if self.shared.span:
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


def _touched_twice(parts: Iterable[Footprint]) -> list[Layout]:
    """Runs of bytes that belong to at least two footprints."""
    start, stop = np.concatenate([part.runs() for part in parts]).T
    places = np.concatenate([start, stop])
    steps = np.repeat([1, -1], len(start))
    order = np.argsort(places, kind="stable")  # at one place, starts come before ends
    depth = np.cumsum(steps[order])
    ends = np.flatnonzero(np.diff((depth >= 2).astype(np.int8), prepend=0, append=0))
    low, high = places[order][ends].reshape(-1, 2).T
    return [
        Layout(lo, hi, ((1, hi - lo),))
        for lo, hi in zip(low.tolist(), high.tolist(), strict=True)
        if lo < hi
    ]
