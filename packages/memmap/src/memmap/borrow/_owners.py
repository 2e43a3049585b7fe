"""Managed memory: every byte of it has one owner."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Hashable, Iterable, Sequence

import torch

from .._modules._at_once import Call, at_once, attribute_set
from .._views._address import view_of
from .._views._overlap import layouts_overlap, overlaps
from .._views._view import StorageSpace
from ..dataflow._layout_index import LayoutIndex


class OwnershipError(ValueError):
    """Memory was offered to one owner that belongs to another one."""


class Owner:
    """Something that owns memory: a shared variable, or a borrowed output of a function.

    Parameters
    ----------
    name : str
        Name to show.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


class _Holding:
    """What one owner holds; the owner may be gone."""

    __slots__ = ("claim", "owner")

    def __init__(self, owner: Owner) -> None:
        self.owner = weakref.ref(owner)
        self.claim: _Claim | None = None


class _Claim:
    """Some bytes of an owner. Only the one that its holding refers to counts."""

    __slots__ = ("_index", "holding", "layout")

    def __init__(self, holding: _Holding, tensor: torch.Tensor) -> None:
        self.holding = holding
        view = view_of(tensor)
        self.layout = view.layout()
        self._index: LayoutIndex[_Claim] | None = None
        if self.layout is not None:
            self._index = _spaces.setdefault(_key(view.space), LayoutIndex())

    def enter(self) -> None:
        if self._index is not None and self.layout is not None:
            self._index.add(self.layout, self)

    def withdraw(self) -> None:
        if self._index is not None and self.layout is not None:
            self._index.discard(self.layout, self)


_lock = threading.RLock()
# Only what is held in a space keeps its index, and nothing here keeps the memory.
_spaces: weakref.WeakValueDictionary[Hashable, LayoutIndex[_Claim]] = weakref.WeakValueDictionary()
_holdings: weakref.WeakKeyDictionary[Owner, _Holding] = weakref.WeakKeyDictionary()
# An owner may be collected at any moment, also while an index is being changed: what it held is
# taken out later.
_orphans: deque[_Holding] = deque()


def claim(claims: Sequence[tuple[Owner, torch.Tensor]], calls: Iterable[Call] = ()) -> None:
    """Make the bytes of tensors those of owners, in the place of those that they had.

    Parameters
    ----------
    claims : sequence of (Owner, torch.Tensor)
        The new owners, and strided tensors. An owner loses the bytes that it owned before.
    calls : iterable of Call, optional
        What is done together with it: an interrupt finds all of it done, or nothing.

    Raises
    ------
    OwnershipError
        If some byte belongs to another owner; nothing is changed then.
    TypeError
        If a tensor has no strided memory.
    """
    with _lock:
        changes: list[tuple[_Claim | None, _Claim]] = []
        try:
            for position, (owner, tensor) in enumerate(claims):
                other = owner_of(tensor, besides=owner) or next(
                    (its for its, known in claims[:position] if overlaps(known, tensor)), None
                )
                if other is not None:
                    raise OwnershipError(
                        f"{owner}: memory must have one owner, got memory that belongs to {other}"
                    )
                holding = _holding_of(owner)
                changes.append((holding.claim, _Claim(holding, tensor)))
                changes[-1][1].enter()
            owned = [attribute_set(new.holding, "claim", new, old)[0] for old, new in changes]
            at_once([*calls, *owned])
        finally:
            for old, new in changes:
                outdated = old if new.holding.claim is new else new
                if outdated is not None:
                    outdated.withdraw()


def _holding_of(owner: Owner) -> _Holding:
    holding = _holdings.get(owner)
    if holding is None:
        holding = _Holding(owner)
        weakref.finalize(owner, _orphans.append, holding).atexit = False
        _holdings[owner] = holding
    return holding


def owner_of(tensor: torch.Tensor, besides: Owner | None = None) -> Owner | None:
    """The owner of some byte of a tensor.

    Parameters
    ----------
    tensor : torch.Tensor
        A strided tensor.
    besides : Owner, optional
        An owner that does not count.

    Returns
    -------
    Owner or None
        One of them, if there are several; None if every byte is free.
    """
    with _lock:
        while _orphans:
            orphan = _orphans.popleft()
            if orphan.claim is not None:
                orphan.claim.withdraw()
        view = view_of(tensor)
        layout, index = view.layout(), _spaces.get(_key(view.space))
        if layout is None or index is None:
            return None
        for known in index.may_meet(layout):
            owner = known.holding.owner()
            if owner is None or owner is besides or known.holding.claim is not known:
                continue
            if known.layout is not None and layouts_overlap(known.layout, layout):
                return owner
    return None


def _key(space: Hashable) -> Hashable:
    """Name an address space without the storage that it may hold."""
    return (StorageSpace, space.identity) if isinstance(space, StorageSpace) else space
