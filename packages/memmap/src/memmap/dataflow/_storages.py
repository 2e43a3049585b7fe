"""Identifying memory while a function runs, although addresses are freed and used again.

A storage is identified by its object until the trace ends, even after it was freed. So a new
storage at an old address is other memory. Two storages that exist at the same time at one address,
as made by ``from_numpy`` or DLPack, are the same memory.
"""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._views._address import view_of
from .._views._layout import run_layout
from .._views._layout_index import LayoutIndex
from .._views._view import View


class TracedMemory:
    """A piece of memory during a trace, with its own address space."""

    __slots__ = ("joined", "name", "shift")

    def __init__(self, name: str) -> None:
        self.name = name
        self.joined: TracedMemory | None = None  # the larger memory that this is a part of
        self.shift = 0

    def resolve(self) -> tuple[TracedMemory, int]:
        """The memory that this one is part of, and the shift of its addresses there."""
        memory, shift = self, 0
        while memory.joined is not None:
            memory, shift = memory.joined, shift + memory.shift
        return memory, shift

    def __repr__(self) -> str:
        return f"TracedMemory({self.name!r})"


class TracedView:
    """One strided view of memory that a traced function touched.

    Operations that use the same bytes in the same way have the same `TracedView`.

    Attributes
    ----------
    name : str
        Name of the memory, with the range of bytes if the view does not span all of it.
    """

    __slots__ = ("_view", "name")

    def __init__(self, place: View) -> None:
        self._view = place
        self.name = str(getattr(place.space, "name", place.space))
        span = place.span
        if span is not None and span != place.storage_span:
            self.name += f"[{span[0]}:{span[1]}]"

    @property
    def memory(self) -> View:
        """The view in bytes, in an address space of its own memory."""
        view = self._view
        if not isinstance(view.space, TracedMemory):
            return view
        memory, shift = view.space.resolve()
        if memory is view.space:
            return view
        return view._replace(space=memory, storage_address=view.storage_address + shift)

    def __repr__(self) -> str:
        return f"TracedView({self.name!r})"


class _Storage:
    """One storage object, with its real addresses and its place in traced memory."""

    __slots__ = ("foreign", "memory", "reference", "span")

    def __init__(self, storage: torch.UntypedStorage, name: str) -> None:
        # While a weak reference exists, no other storage object can get the same identity.
        self.reference = StorageWeakRef(storage)
        # Memory that torch did not allocate may outlive its storage and appear in another one. It
        # is kept until the trace ends, so that its addresses cannot be used again.
        self.foreign = None if storage.resizable() else storage
        self.memory = TracedMemory(name)
        self.span: tuple[Hashable, int, int] | None = None


class StorageTable:
    """The views of tensors in memory while a function runs."""

    def __init__(self) -> None:
        self._storages: dict[int, _Storage] = {}
        self._living: LayoutIndex[_Storage] = LayoutIndex()

    def locate(self, tensor: torch.Tensor, name: str) -> View:
        """The view of a tensor in a `TracedMemory`; `name` is used if the memory is new."""
        view, storage = view_of(tensor), tensor.untyped_storage()
        entry = self._storages.get(storage._cdata)
        if entry is None:
            entry = self._storages[storage._cdata] = _Storage(storage, name)
        # A storage as the space would be kept alive. Storages without addresses are never joined.
        has_addresses = view.storage_nbytes and view.space is not storage
        span = (view.space, *view.storage_span) if has_addresses else None
        if span != entry.span:
            self._move(entry, span)
        memory, shift = entry.memory.resolve()
        return view._replace(space=memory, storage_address=shift)

    def _move(self, storage: _Storage, span: tuple[Hashable, int, int] | None) -> None:
        """Note the addresses of a storage, for the first time or after it was resized."""
        self._discard(storage)
        storage.span = span
        if span is None:
            return
        space, start, stop = span
        for other in self._living.may_meet(space, run_layout(start, stop)):
            if other.reference.expired():
                self._discard(other)
                continue
            assert other.span is not None  # two existing storages share addresses
            memory, position = storage.memory.resolve()
            kept, other_position = other.memory.resolve()
            if memory is not kept:
                # Byte 0 of a storage has the address `position` in its traced memory.
                memory.joined = kept
                memory.shift = start - other.span[1] + other_position - position
        self._living.add(space, run_layout(start, stop), storage)

    def _discard(self, storage: _Storage) -> None:
        if storage.span is not None:
            space, start, stop = storage.span
            self._living.discard(space, run_layout(start, stop), storage)
