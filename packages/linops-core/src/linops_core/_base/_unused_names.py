"""Unused names for many dimensions, one after another."""

from __future__ import annotations

from collections.abc import Iterable

from nameddim import NamedDimension


def unused_names(
    dims: Iterable[NamedDimension], used: set[NamedDimension]
) -> tuple[NamedDimension, ...]:
    """Return :meth:`nameddim.NamedDimension.next_unused` of each dimension, and mark it as used."""
    found = []
    for dim in dims:
        found.append(dim.next_unused(used))
        used.add(found[-1])
    return tuple(found)
