"""Unused names for many dimensions, one after another."""

from __future__ import annotations

from collections.abc import Iterable

from nameddim import NamedDimension


def unused_names(
    dims: Iterable[NamedDimension], used: Iterable[NamedDimension]
) -> tuple[NamedDimension, ...]:
    """Return the next name of each dimension that is neither used nor returned for another one."""
    names, taken = list[NamedDimension](), set(used)
    for dim in dims:
        names.append(dim.next_unused(taken))
        taken.add(names[-1])
    return tuple(names)
