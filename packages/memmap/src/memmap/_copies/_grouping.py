"""Views by the memory their storages share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from .._views._view import View


class Storages(NamedTuple):
    """Storages that are one or share memory, and the views that lie in them.

    Attributes
    ----------
    space : hashable
        The address space.
    start, stop : int
        Addresses of their union.
    members : list of int
        Positions of the views.
    """

    space: Hashable
    start: int
    stop: int
    members: list[int]


def group_views(views: Iterable[tuple[View, Hashable]]) -> list[Storages]:
    """Group views whose storages share memory, directly or through others.

    Parameters
    ----------
    views : iterable of (View, hashable)
        Views, each with what identifies its storage if it has no bytes.

    Returns
    -------
    list of Storages
        In the order of their first views.

    Examples
    --------
    >>> views = [View("RAM", start, size) for start, size in [(0, 8), (4, 8), (12, 4)]]
    >>> [storages.members for storages in group_views((view, None) for view in views)]
    [[0, 1], [2]]
    """
    known: dict[Hashable, Storages] = {}
    for position, (view, identity) in enumerate(views):
        space, start, nbytes = view[:3]
        key = (space, start) if nbytes else (space, start, identity)
        storages = known.get(key)
        if storages is None:
            known[key] = Storages(space, start, start + nbytes, [position])
        else:
            storages.members.append(position)
            if start + nbytes > storages.stop:
                known[key] = storages._replace(stop=start + nbytes)
    merged: list[Storages] = []
    last: dict[Hashable, int] = {}
    for storages in sorted(known.values(), key=lambda storages: storages.start):
        place = last.get(storages.space)
        before = None if place is None else merged[place]
        if place is not None and before and storages.start < min(before.stop, storages.stop):
            before.members.extend(storages.members)
            merged[place] = before._replace(stop=max(before.stop, storages.stop))
        else:
            last[storages.space] = len(merged)
            merged.append(storages)
    for storages in merged:
        storages.members.sort()
    return sorted(merged, key=lambda storages: storages.members[0])
