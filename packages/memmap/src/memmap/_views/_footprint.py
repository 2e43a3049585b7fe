"""The set of bytes that one or more views touch: number, span, runs, union, intersection."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property

import torch

from ._address import by_space, view_of
from ._arrays import Array
from ._coverage import n_touched
from ._layout import Layout, run_layout
from ._overlap import layouts_overlap
from ._runs import Runs, connected_intervals, intersect, union_runs
from ._view import View


class Footprint:
    """A set of bytes of one address space.

    Footprints are values: ``|`` and ``&`` make new ones, ``==`` compares the sets of bytes.
    Expensive parts (the runs of a view with gaps) are computed when first needed.

    Parameters
    ----------
    space : hashable
        The address space; see `View`.
    layouts : iterable of Layout
        Sets of bytes. The footprint is their union.

    Examples
    --------
    >>> x = torch.zeros(4, 4)
    >>> rows, column = footprint(x[:2]), footprint(x[:, 1])
    >>> rows.nbytes, column.nbytes, (rows | column).nbytes, (rows & column).nbytes
    (32, 16, 40, 8)
    """

    def __init__(self, space: Hashable, layouts: Iterable[Layout] = ()) -> None:
        self.space = space
        self._layouts = tuple(dict.fromkeys(layouts))

    @cached_property
    def nbytes(self) -> int:
        """Number of bytes in the set."""
        return sum(n_touched(component) for component in connected_intervals(self._layouts))

    @property
    def span(self) -> tuple[int, int] | None:
        """Addresses ``(start, stop)`` of the first byte and past the last; None if empty."""
        if not self._layouts:
            return None
        starts, stops = zip(*[(start, stop) for start, stop, _ in self._layouts], strict=True)
        return min(starts), max(stops)

    def runs(self) -> Runs:
        """Maximal runs of contiguous bytes, ascending, as a new array.

        The array is int64, of shape (n, 2): the first address and one past the last of each run.

        Examples
        --------
        >>> footprint(View("RAM", 0, 24, sizes=(3,), strides=(8,), itemsize=4)).runs().tolist()
        [[0, 4], [8, 12], [16, 20]]
        """
        return self._runs.copy()

    @cached_property
    def _runs(self) -> Runs:
        return union_runs(self._layouts)

    def isdisjoint(self, other: Footprint) -> bool:
        """Whether no byte belongs to both. Footprints of different spaces are always disjoint."""
        if not isinstance(other, Footprint):
            raise TypeError(
                f"Footprint: the other set must be a Footprint, got {type(other).__name__}"
            )
        if self.space != other.space:
            return True
        if len(self._layouts) * len(other._layouts) <= 16:
            return not any(layouts_overlap(a, b) for a in self._layouts for b in other._layouts)
        return self.nbytes + other.nbytes == (self | other).nbytes

    def __or__(self, other: Footprint) -> Footprint:
        """Bytes that belong to either one."""
        if not isinstance(other, Footprint):
            return NotImplemented
        self._require_same_space(other, "|")
        return Footprint(self.space, self._layouts + other._layouts)

    def __and__(self, other: Footprint) -> Footprint:
        """Bytes that belong to both."""
        if not isinstance(other, Footprint):
            return NotImplemented
        self._require_same_space(other, "&")
        common = intersect(self._runs, other._runs)
        return Footprint(self.space, [run_layout(low, high) for low, high in common.tolist()])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Footprint):
            return NotImplemented
        if not (self._layouts or other._layouts):
            return True
        return self.space == other.space and (
            self._layouts == other._layouts or self.nbytes == other.nbytes == (self | other).nbytes
        )

    def __hash__(self) -> int:
        return hash(self.span)

    def __repr__(self) -> str:
        return f"Footprint(space={self.space!r}, nbytes={self.nbytes}, span={self.span})"

    def _require_same_space(self, other: Footprint, operator: str) -> None:
        if self.space != other.space:
            raise ValueError(
                f"Footprint: both sides of {operator} must lie in one address space, "
                f"got {self.space!r} and {other.space!r}"
            )


def footprint(tensor: torch.Tensor | Array | View) -> Footprint:
    """Set of the bytes that a tensor touches. The data are not read and not kept alive.

    Parameters
    ----------
    tensor : torch.Tensor, numpy.ndarray or View
        One strided tensor.

    Raises
    ------
    TypeError
        If the argument has no strided memory (see `view_of`).
    ValueError
        If an element lies outside its storage.

    Examples
    --------
    >>> footprint(torch.zeros(3, 4).expand(5, 3, 4)).nbytes
    48
    """
    view = view_of(tensor)
    layout = view.layout()
    return Footprint(view.space, () if layout is None else (layout,))


def union_nbytes(tensors: Iterable[torch.Tensor | Array | View]) -> int:
    """Number of bytes that some tensors touch together, each byte counted once.

    Parameters
    ----------
    tensors : iterable of torch.Tensor, numpy.ndarray or View
        Strided tensors on any devices; the numbers of different address spaces are added. Raises
        the errors of `footprint`.

    Examples
    --------
    >>> x = torch.zeros(10)
    >>> union_nbytes([x[:6], x[4:], x[::2], torch.zeros(1)])
    44
    """
    return sum(
        n_touched([layout for _, _, layout, _ in part], origin=part[0][3])
        for spans in by_space(tensors).values()
        for part in connected_intervals([(*layout[:2], layout, at) for _, at, layout in spans])
    )


def tensor_memory_span(tensor: torch.Tensor | Array | View) -> tuple[int, int] | None:
    """First and last element of its storage that a tensor touches.

    Returns
    -------
    tuple of int or None
        First and last position, both inclusive, in elements of the tensor's type from the start of
        its storage. None for a tensor without elements.

    Raises
    ------
    TypeError, ValueError
        As for `footprint`; `ValueError` also if the first byte is not at a multiple of the element
        size from the start of the storage.

    Examples
    --------
    >>> x = torch.zeros(4, 5)
    >>> tensor_memory_span(x[1:3, ::2]), tensor_memory_span(x[:0])
    ((5, 14), None)
    """
    view = view_of(tensor)
    span = view.span
    if span is None:
        return None
    first, stop = span[0] - view.storage_address, span[1] - view.storage_address
    if first % view.itemsize:
        raise ValueError(
            f"tensor_memory_span: elements must start at a multiple of their size in the "
            f"storage, got a view of {view.itemsize}-byte elements at byte {first}"
        )
    return first // view.itemsize, stop // view.itemsize - 1
