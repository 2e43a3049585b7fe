"""Managed memory: every byte of it has one owner."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Hashable

import torch

from .._layout import Layout
from .._overlap import layouts_overlap
from .._place import view_of
from .._view import StorageSpace
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
    """The bytes that one owner holds; the owner may be gone."""

    __slots__ = ("index", "layout", "owner")

    def __init__(self, owner: Owner) -> None:
        self.owner = weakref.ref(owner)
        self.index: LayoutIndex[_Holding] | None = None
        self.layout: Layout | None = None


_lock = threading.RLock()
# Only what is held in a space keeps its index, and nothing here keeps the memory.
_spaces: weakref.WeakValueDictionary[Hashable, LayoutIndex[_Holding]] = (
    weakref.WeakValueDictionary()
)
_holdings: weakref.WeakKeyDictionary[Owner, _Holding] = weakref.WeakKeyDictionary()
# An owner may be collected at any moment, also while an index is being changed: what it held is
# taken out later.
_orphans: deque[_Holding] = deque()


def claim(owner: Owner, tensor: torch.Tensor) -> None:
    """Make the bytes of a tensor those of an owner, in the place of those that it had.

    Parameters
    ----------
    owner : Owner
        The new owner. It loses the bytes that it owned before.
    tensor : torch.Tensor
        A strided tensor.

    Raises
    ------
    OwnershipError
        If some byte belongs to another owner; nothing is changed then.
    TypeError
        If the tensor has no strided memory.
    """
    with _lock:
        other = owner_of(tensor, besides=owner)
        if other is not None:
            raise OwnershipError(
                f"{owner}: memory must have one owner, got memory that belongs to {other}"
            )
        holding = _holdings.get(owner)
        if holding is None:
            holding = _holdings[owner] = _Holding(owner)
            weakref.finalize(owner, _orphans.append, holding).atexit = False
        _withdraw(holding)
        view = view_of(tensor)
        layout = view.layout()
        if layout is not None:
            index = _spaces.setdefault(_key(view.space), LayoutIndex())
            index.add(layout, holding)
            holding.index, holding.layout = index, layout


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
            _withdraw(_orphans.popleft())
        view = view_of(tensor)
        layout, index = view.layout(), _spaces.get(_key(view.space))
        if layout is None or index is None:
            return None
        for holding in index.may_meet(layout):
            owner = holding.owner()
            if owner is None or owner is besides or holding.layout is None:
                continue
            if layouts_overlap(holding.layout, layout):
                return owner
    return None


def _withdraw(holding: _Holding) -> None:
    """Take a holding out of the index that it is in."""
    if holding.index is not None and holding.layout is not None:
        holding.index.discard(holding.layout, holding)
        holding.index = holding.layout = None


def _key(space: Hashable) -> Hashable:
    """Name an address space without the storage that it may hold."""
    return (StorageSpace, space.identity) if isinstance(space, StorageSpace) else space
