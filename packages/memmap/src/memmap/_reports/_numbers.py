"""The numbers of a report: tensors with their names, storages, and the bytes of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
import torch

from .._errors import StorageError
from .._modules._composite import memory_of
from .._modules._named import named_values
from .._modules._traverse import path_text
from .._torch import of_mkldnn
from .._views._address import sharing_memory, view_of
from .._views._coverage import coverage_of, n_touched
from .._views._layout import Layout
from .._views._pairs import overlapping_pairs
from .._views._view import View

_OF_CHANNELS = (torch.per_channel_affine, torch.per_channel_affine_float_qparams)


@dataclass(slots=True)
class Entry:
    """A strided tensor with all its names; an object registered several times has several.

    The dtype is ``"?"`` if it is unknown. The layout is None if the tensor is empty.
    """

    names: list[str]
    view: View
    dtype: str
    shape: tuple[int, ...]
    device: str
    layout: Layout | None = field(init=False)

    def __post_init__(self) -> None:
        try:
            self.layout = self.view.layout()
        except StorageError as error:
            raise StorageError(f"{self.names[0]}: {error}") from error

    @property
    def separate(self) -> int:
        """Bytes of a contiguous copy."""
        return prod(self.view.sizes) * self.view.itemsize


class Entries:
    """Tensors that lie in storages, and names of tensors whose place in memory is unknown."""

    def __init__(self) -> None:
        self.placed: list[Entry] = []
        self.unplaced: list[str] = []
        # Entries keep their objects alive, so that no id is used twice.
        self._by_id: dict[int, tuple[object, Entry]] = {}

    def put(self, value: object, entry: Entry) -> None:
        """Add the entry of an object."""
        self._by_id[id(value)] = value, entry
        self.placed.append(entry)

    def items(self) -> Iterable[tuple[object, Entry]]:
        """Each object with its entry."""
        return self._by_id.values()

    def of(self, value: object) -> Entry | None:
        """The entry of an object, if there is one."""
        entry = self._by_id.get(id(value))
        return None if entry is None else entry[1]

    def add(self, name: str, value: object) -> None:
        """Add a tensor, an array or a view. A tensor made of tensors is taken apart."""
        entry = self.of(value)
        if entry is not None:
            entry.names.append(name)
        elif isinstance(value, torch.Tensor):
            self._add_tensor(name, value)
        elif isinstance(value, np.ndarray):
            self.put(value, Entry([name], view_of(value), str(value.dtype), value.shape, "cpu"))
        elif isinstance(value, View):
            device = str(value.space) if isinstance(value.space, (str, torch.device)) else "?"
            self.put(value, Entry([name], value, "?", value.sizes, device))
        elif isinstance(value, torch.ScriptObject):
            self._add_packed(name, value)

    def _add_tensor(self, name: str, tensor: torch.Tensor) -> None:
        memory = memory_of(tensor)
        if isinstance(memory, View):
            dtype = str(tensor.dtype).removeprefix("torch.")
            self.put(tensor, Entry([name], memory, dtype, tuple(tensor.shape), str(tensor.device)))
            if tensor.is_quantized and tensor.qscheme() in _OF_CHANNELS:
                self.add(f"{name}.scales", tensor.q_per_channel_scales())
                self.add(f"{name}.zero_points", tensor.q_per_channel_zero_points())
        elif memory is not None and not tensor._is_zerotensor():  # zeros of autograd have no memory
            for part, part_name in zip(memory.parts, memory.names, strict=True):
                self.add(f"{name}.{part_name}", part)
        elif tensor.layout is of_mkldnn:
            self._add_sized(name, tensor, tensor.nbytes, str(tensor.dtype), tuple(tensor.shape))
        else:
            self.unplaced.append(name)

    def _add_packed(self, name: str, packed: torch.ScriptObject) -> None:
        """Add the weights that a kernel packed in its own way; their state says how large."""
        todo: list[object] = [packed.__getstate__()]
        nbytes = 0
        while todo:
            value = todo.pop()
            if isinstance(value, torch.Tensor):
                nbytes += value.nbytes
            elif isinstance(value, (list, tuple)):
                todo += value
        self._add_sized(name, packed, nbytes, "packed", (nbytes,))

    def _add_sized(
        self, name: str, value: object, nbytes: int, dtype: str, shape: tuple[int, ...]
    ) -> None:
        """Add an object that tells its size but not its place; it shares memory with no other."""
        view = View(("opaque", id(value)), 0, nbytes, sizes=(nbytes,), strides=(1,))
        self.put(value, Entry([name], view, dtype.removeprefix("torch."), shape, "cpu"))


def entries_of(source: object, attributes: bool = False) -> Entries:
    """Named tensors of a module, a mapping or, with `attributes`, of any object."""
    entries = Entries()
    for path, value in named_values(source, attributes):
        if not isinstance(value, torch.nn.Module):
            entries.add(path_text(path) or "<root>", value)
    return entries


class Numbers(NamedTuple):
    """Bytes of one storage, or of several together. `MemoryReport` explains each number."""

    allocated: int = 0
    spanned: int = 0
    touched: int = 0
    shared: int = 0
    wasted: int = 0
    separate: int = 0


def total(numbers: Iterable[Numbers]) -> Numbers:
    """The sum of each number."""
    return Numbers(*map(sum, zip(*numbers, strict=True)))


class TensorNumbers(NamedTuple):
    """Bytes of one tensor, its offset in the storage, and the tensors that it shares with."""

    entry: Entry
    offset: int
    spanned: int = 0
    touched: int = 0
    shared: int = 0
    separate: int = 0
    shares_with: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The tensor and its numbers as JSON types."""
        numbers = self._asdict()
        entry = numbers.pop("entry")
        described = {"names": [*entry.names], "dtype": entry.dtype, "shape": [*entry.shape]}
        return described | numbers | {"shares_with": [*self.shares_with]}


class StorageReport:
    """One storage, or several that share memory, with its tensors."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.device = entries[0].device
        spans = [entry.view.storage_span for entry in entries]
        self.start = min([start for start, _ in spans])
        self.stop = max([stop for _, stop in spans])
        self._filled = [entry for entry in entries if entry.layout is not None]
        self._empty = [entry for entry in entries if entry.layout is None]
        self.layouts = [entry.layout for entry in entries if entry.layout is not None]
        self.numbers = self._counted()
        """Bytes of the storage."""

    def _counted(self) -> Numbers:
        allocated = self.stop - self.start
        if not self.layouts:
            return Numbers(allocated, wasted=allocated)
        counts_twice = [len(entry.names) > 1 for entry in self._filled]
        self._coverage = coverage_of(self.layouts, self.start, counts_twice)
        start = min([layout.start for layout in self.layouts])
        touched = self._coverage.touched
        return Numbers(
            allocated=allocated,
            spanned=max([layout.stop for layout in self.layouts]) - start,
            touched=touched,
            shared=self._coverage.shared,
            wasted=allocated - touched,
            separate=sum([entry.separate * len(entry.names) for entry in self._filled]),
        )

    @cached_property
    def tensors(self) -> list[TensorNumbers]:
        """Bytes of each tensor, ordered by offset."""
        partners = [entry.names[1:] for entry in self._filled]
        if self.numbers.shared and len(self._filled) > 1:
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
        """Bytes that are touched under at least two names, as disjoint sets."""
        return self._coverage.shared_part() if self.numbers.shared else []


def storages_of(entries: Iterable[Entry]) -> list[StorageReport]:
    """Storages, largest first, each with its tensors. Storages that share memory are merged.

    Empty storages are never merged: each tensor in one has its own.
    """
    entries = list(entries)
    groups = sharing_memory([entry.view for entry in entries], range(len(entries)))
    storages = [StorageReport([entries[position] for position in group]) for group in groups]
    return sorted(storages, key=lambda storage: storage.start - storage.stop)
