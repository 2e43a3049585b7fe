"""Which memory is which while a function runs: addresses are freed and used again.

A storage is recognised by its object for as long as the trace lasts, also after it has died, so
that a new storage at an old address is other memory. Two living storages at one address, as made by
``from_numpy`` or DLPack, are the same memory.
"""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._views._address import view_of
from .._views._view import StorageSpace, View
from ._spans import SpanIndex


class TracedMemory:
    """Some memory during a trace; an address space of its own.

    Parameters
    ----------
    name : str
        Name to show.
    """

    __slots__ = ("_joined", "_shift", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._joined: TracedMemory | None = None
        self._shift = 0

    def resolve(self) -> tuple[TracedMemory, int]:
        """The memory that this one turned out to be part of.

        Returns
        -------
        memory : TracedMemory
            Itself, if it was not joined to other memory.
        shift : int
            What to add to an address of this one to get an address of that one.
        """
        memory, shift = self, 0
        while memory._joined is not None:
            memory, shift = memory._joined, shift + memory._shift
        return memory, shift

    def join(self, other: TracedMemory, shift: int) -> None:
        """Make this memory a part of another one.

        Parameters
        ----------
        other : TracedMemory
            The memory to keep. Neither has been joined to a third one.
        shift : int
            What to add to an address of this one to get an address of the other.
        """
        self._joined, self._shift = other, shift

    def __repr__(self) -> str:
        return f"TracedMemory({self.name!r})"


class _Storage:
    """One storage object: where it really lies, and where in its traced memory."""

    __slots__ = ("address", "foreign", "memory", "nbytes", "reference", "space")

    def __init__(self, storage: torch.UntypedStorage, name: str) -> None:
        # While a weak reference exists, no other storage object can get this one's identity.
        self.reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]  # torch's
        # Memory that torch did not allocate may outlive its storage and come back in another one:
        # it is kept for as long as the trace lasts, so that its addresses cannot be used again.
        self.foreign = None if storage.resizable() else storage
        self.memory = TracedMemory(name)
        self.space: Hashable = None
        self.address = self.nbytes = 0


class StorageTable:
    """Where tensors lie while a function runs.

    Examples
    --------
    >>> table = StorageTable()
    >>> x = torch.zeros(4)
    >>> table.locate(x, "x").space, table.locate(x[2:], "y").offset
    (TracedMemory('x'), 8)
    """

    def __init__(self) -> None:
        self._storages: dict[int, _Storage] = {}
        self._living: dict[Hashable, SpanIndex[_Storage]] = {}

    def locate(self, tensor: torch.Tensor, name: str) -> View:
        """Where a tensor lies.

        Parameters
        ----------
        tensor : torch.Tensor
            A strided tensor.
        name : str
            Name of its memory, if it is met for the first time.

        Returns
        -------
        View
            Its space is a `TracedMemory`, and its addresses count from the start of that.

        Raises
        ------
        TypeError
            If the tensor has no strided memory.
        """
        view = view_of(tensor)
        storage = tensor.untyped_storage()
        known = self._storages.get(storage._cdata)
        if known is None:
            known = self._storages[storage._cdata] = _Storage(storage, name)
        if (known.space, known.address, known.nbytes) != view[:3]:
            self._place(known, view)
        memory, shift = known.memory.resolve()
        return view._replace(space=memory, storage_address=shift)

    def _place(self, storage: _Storage, view: View) -> None:
        """Note where a storage lies, at first and when it was resized."""
        if storage.space in self._living:
            self._living[storage.space].discard(
                storage.address, storage.address + storage.nbytes, storage
            )
        storage.space, storage.address, storage.nbytes = view[:3]
        if storage.nbytes == 0 or isinstance(storage.space, StorageSpace):
            # A StorageSpace would keep the storage alive.
            storage.space = type(storage.space)
            return
        living = self._living.setdefault(storage.space, SpanIndex())
        span = view.storage_span
        for other in living.meeting(*span):
            if other.reference.expired():  # type: ignore[no-untyped-call]  # torch's
                living.discard(other.address, other.address + other.nbytes, other)
            else:
                _join(storage, other)
        living.add(*span, storage)


def _join(storage: _Storage, other: _Storage) -> None:
    """Note that two living storages share addresses."""
    memory, position = storage.memory.resolve()
    kept, other_position = other.memory.resolve()
    if memory is not kept:
        # Byte 0 of a storage has the address `position` in its traced memory.
        memory.join(kept, storage.address - other.address + other_position - position)
