"""PartSlices: the slices of one tensor that the parts of a table read, or write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import TypeAlias

from torch import Tensor

from linops_core import Window
from nameddim import ELLIPSES, NamedDimension

Slices: TypeAlias = tuple[tuple[NamedDimension, int, int], ...]
"""A window as a hashable value: each dimension with start and stop of its slice."""


class PartSlices:
    """The slice of a tensor that belongs to each part of a table.

    ``names`` are the dimensions of the tensor. A window holds the slices of a part: one for each
    dimension of which the part has only a slice. ``lengths`` are the full lengths of these
    dimensions.
    """

    def __init__(
        self,
        names: tuple[NamedDimension, ...],
        windows: Sequence[Window],
        lengths: Mapping[NamedDimension, int],
    ) -> None:
        self.axes = {dim: _axis_of(dim, names) for dim in names if dim in lengths}
        self.windows: list[Window] = [
            {dim: piece for dim, piece in window.items() if dim in self.axes} for window in windows
        ]
        self.lengths = lengths

    def views(self, tensor: Tensor) -> list[Tensor]:
        """Return the view of ``tensor`` for each part."""
        views = []
        for steps in self.steps:
            view = tensor
            for axis, start, length in steps:
                view = view.narrow(axis, start, length)
            views.append(view)
        return views

    def shape(self, of_part: Sequence[int]) -> list[int]:
        """Return the shape of the tensor, given the shape of one part's slice."""
        shape = list(of_part)
        for dim, axis in self.axes.items():
            shape[axis] = self.lengths[dim]
        return shape

    @cached_property
    def groups(self) -> list[list[int]]:
        """Groups of part numbers; slices of different groups have no common elements.

        Groups are found by cutting along one dimension after another, between slices. Slices that
        cannot be separated in this way are in one group.
        """
        numbers: dict[Slices, list[int]] = defaultdict(list)
        for number, key in enumerate(self.keys):
            numbers[key].append(number)
        groups = _separated(list(numbers), [*self.axes])
        return [sorted(n for key in group for n in numbers[key]) for group in groups]

    @cached_property
    def keys(self) -> list[Slices]:
        """The slices of each part, as hashable values."""
        axes = self.axes
        return [
            tuple([(dim, window[dim].start, window[dim].stop) for dim in axes if dim in window])
            for window in self.windows
        ]

    @cached_property
    def overlaps(self) -> bool:
        """Whether different slices may have common elements."""
        return any(len({self.keys[n] for n in group}) > 1 for group in self.groups)

    @cached_property
    def is_summed(self) -> bool:
        """Whether an element may belong to several parts."""
        return len(self.groups) < len(self.windows)

    @cached_property
    def adds(self) -> list[bool]:
        """Whether each part adds to what earlier parts wrote (or to zeros) instead of writing."""
        first = set() if self.overlaps else {group[0] for group in self.groups}
        return [number not in first for number in range(len(self.windows))]

    @cached_property
    def fills(self) -> bool:
        """Whether the first parts of all groups write everything, so that no zeros are needed."""
        total = prod(self.lengths[dim] for dim in self.axes)
        firsts = [self.windows[group[0]] for group in self.groups]
        return not self.overlaps and total == sum(map(self._volume, firsts))

    def _volume(self, window: Window) -> int:
        lengths = {dim: piece.stop - piece.start for dim, piece in window.items()}
        return prod(lengths.get(dim, self.lengths[dim]) for dim in self.axes)

    @cached_property
    def steps(self) -> list[list[tuple[int, int, int]]]:
        """Axis, start and length of each slice, for each part."""
        return [
            [(self.axes[dim], p.start, p.stop - p.start) for dim, p in window.items()]
            for window in self.windows
        ]


def _axis_of(dim: NamedDimension, names: tuple[NamedDimension, ...]) -> int:
    position = names.index(dim)
    return position - len(names) if ELLIPSES in names[:position] else position


def cut_apart(
    keys: Sequence[Slices], dims: Iterable[NamedDimension]
) -> tuple[NamedDimension, list[list[Slices]]] | None:
    """Return a dimension along which slices can be separated, and the groups between the cuts.

    Return None if there is no such dimension.
    """
    for dim in dims:
        ends = {key: (a, b) for key in keys for name, a, b in key if name == dim}
        if len(ends) < len(keys):
            continue  # one of them has the whole dimension
        groups: list[list[Slices]] = []
        stop = 0
        for key in sorted(keys, key=ends.__getitem__):
            if not groups or ends[key][0] >= stop:
                groups.append([])
            groups[-1].append(key)
            stop = max(stop, ends[key][1])
        if len(groups) > 1:
            return dim, groups
    return None


def _separated(keys: list[Slices], dims: Sequence[NamedDimension]) -> Iterator[list[Slices]]:
    """Yield groups of slices that can be separated by cuts."""
    cuts = cut_apart(keys, dims)
    if cuts is None:
        yield keys
    else:
        for group in cuts[1]:
            yield from _separated(group, dims)
