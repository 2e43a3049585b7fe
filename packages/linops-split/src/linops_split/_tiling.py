"""Tiles in a row: what each reads of the input of the whole, and where its output belongs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate, chain, groupby, repeat

from torch import Tensor

from linops_core import (
    Add,
    Concat,
    NamedLinop,
    Row,
    Window,
    Zero,
    has_hooks,
    n_hooks_registered,
    rows,
)
from nameddim import NamedDimension

from ._axes import axis_of
from ._layout import Divided, Layout, Shared, Within
from ._narrowed import Narrowed


@dataclass(frozen=True)
class Part:
    """One tile of a tiling."""

    linop: NamedLinop
    """From what the tile reads to what it writes."""
    adds: bool
    """Whether what it returns is added to what is there: an earlier tile writes there too."""
    reads: Window
    """Which slice of each dimension of the input; all of those that are left out."""
    writes: Window
    """Which slice of each dimension of the output."""


class Tiling:
    """An operator put together by Add and Concat, taken apart again: its tiles in a row.

    What each tile returns for its view of the input, written to its view of the output or, where
    it adds, added to what is there, is what the operator returns.

    Parameters
    ----------
    whole : NamedLinop

    Raises
    ------
    TypeError
        If it is no operator.

    Attributes
    ----------
    whole : NamedLinop
        The operator that was taken apart.
    parts : list of Part
        The tiles, in the order in which results are summed.
    fills : bool
        Whether they write all of the output. If not, it must begin as zeros.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> A = Diagonal(torch.arange(2.0), ("N",))
    >>> tiling = Tiling(Concat(A, A, idim="N", odim="N"))
    >>> [view.tolist() for view in tiling.inputs(torch.arange(4.0))]
    [[0.0, 1.0], [2.0, 3.0]]
    """

    def __init__(self, whole: NamedLinop) -> None:
        if not isinstance(whole, NamedLinop):
            raise TypeError(f"Tiling: what is taken apart must be a NamedLinop, got {type(whole)}")
        self.whole = whole
        self.parts: list[Part] = []
        self.fills = True
        self._lengths: dict[int, int] = {}  # of the output, along each axis that is divided
        self._joints: list[NamedLinop] = []
        self._n_hooks = n_hooks_registered()
        self._input, self._output = self._taken_apart(whole, False, {}, {})

    def is_of(self, whole: NamedLinop) -> bool:
        """Whether it is one of ``whole``, and nobody has hooked into what was taken apart."""
        if self.whole is not whole:
            return False
        n_hooks = n_hooks_registered()
        if self._n_hooks != n_hooks:
            passed_over = chain(self._joints, *(row.passed_over for row in self.rows))
            if any(has_hooks(linop) for linop in passed_over):
                return False
            self._n_hooks = n_hooks
        return True

    @cached_property
    def _adds(self) -> bool:
        return any(part.adds for part in self.parts)

    @cached_property
    def rows(self) -> list[Row]:
        """The tiles in rows, of which all that are in one read and write alike."""
        return [
            row
            for _, parts in groupby(
                self.parts, lambda part: (_lengths(part.reads), _lengths(part.writes))
            )
            for row in rows([part.linop for part in parts])
        ]

    def has_recorded_weights(self) -> bool:
        """Whether autograd follows a weight of the tiles, which may be replaced at any time."""
        return any(
            tensor is not None and tensor.requires_grad
            for tensors in self._tensors
            for tensor in tensors.values()
        )

    @cached_property
    def _tensors(self) -> list[Mapping[str, Tensor | None]]:
        """The dictionaries of all weights, in which tiles of one operator look them up."""
        found: dict[int, Mapping[str, Tensor | None]] = {}
        for module in self.whole.modules():
            for tensors in (module._parameters, module._buffers):
                found[id(tensors)] = tensors
        return [*found.values()]

    def results(self, views: Sequence[Tensor]) -> Iterator[tuple[Tensor, bool]]:
        """Yield what each tile returns for its view, and whether it is the first of its row.

        Results of one row have one shape and dtype. Callers must have asked
        :func:`linops_core.hooks_are_possible`.
        """
        first = 0
        for row in self.rows:
            stop = first + len(row.tiles)
            is_first = True
            for result in row.results(views[first:stop]):
                yield result, is_first
                del result  # before the next one is made
                is_first = False
            first = stop

    def inputs(self, x: Tensor) -> list[Tensor]:
        """Return the view of the input ``x`` that each tile reads."""
        views: list[Tensor] = []
        self._input.hand_out(x, views)
        return views

    def outputs(self, y: Tensor) -> list[Tensor]:
        """Return the view of the output ``y`` that each tile writes."""
        views: list[Tensor] = []
        self._output.hand_out(y, views)
        return views

    def output_shape(self, of_first: Sequence[int]) -> list[int]:
        """Return the shape of the output, given that of what the first tile returned."""
        shape = list(of_first)
        for axis, length in self._lengths.items():
            shape[axis] = length
        return shape

    def may_add(self, result: Tensor) -> bool:
        """Whether results like this one may be added up where they belong, or none has to be.

        Integers and booleans may not: they are summed in int64, as `Add` does it.
        """
        dtype = result.dtype
        return dtype.is_floating_point or dtype.is_complex or not self._adds

    def output_for(self, result: Tensor) -> Tensor:
        """Return memory for the output, given what the first tile returned."""
        shape = self.output_shape(result.shape)
        return result.new_empty(shape) if self.fills else result.new_zeros(shape)

    def _taken_apart(
        self, node: NamedLinop, adds: bool, reads: Window, writes: Window
    ) -> tuple[Layout, Layout]:
        """Append the tiles of ``node``; return how its input and its output are handed to them.

        It reads and writes within windows of the whole.
        """
        # A subclass may do something else with its operands; and one with threads has to be asked.
        is_joint = type(node) is Add or type(node) is Concat
        if not isinstance(node, (Add, Concat)) or not is_joint or node.threaded or has_hooks(node):
            return self._tile(node, adds, reads, writes)
        self._joints.append(node)
        vars(node)["_has_relatives"] = True  # its operands must not be replaced
        idim, odim = (node.idim, node.odim) if isinstance(node, Concat) else (None, None)
        isizes, osizes = (node.isizes, node.osizes) if isinstance(node, Concat) else ((), ())
        if odim is not None:
            # The outermost one comes first, and is as long as the whole.
            self._lengths.setdefault(axis_of(odim, node.oshape), sum(osizes))
        inputs, outputs = [], []
        windows = zip(_blocks(reads, idim, isizes), _blocks(writes, odim, osizes), strict=False)
        for linop, (read, written) in zip(node.linops, windows, strict=False):
            of_input, of_output = self._taken_apart(linop, adds, read, written)
            inputs.append(of_input)
            outputs.append(of_output)
            adds = adds or odim is None
        return (
            _layout(inputs, idim, node.ishape, isizes),
            _layout(outputs, odim, node.oshape, osizes),
        )

    def _tile(
        self, linop: NamedLinop, adds: bool, reads: Window, writes: Window
    ) -> tuple[Layout, Layout]:
        if adds and isinstance(linop, Zero):
            return Shared(), Shared()  # by no tile at all
        # Hooks see what the tile is handed as a whole.
        if not isinstance(linop, Narrowed) or has_hooks(linop):
            self.parts.append(Part(linop, adds, reads, writes))
            return Within(), Within()
        self._joints.append(linop)
        reads = reduce(_within, linop.reads.items(), reads)
        writes = reduce(_within, linop.writes.items(), writes)
        self.parts.append(Part(linop.part, adds, reads, writes))
        self.fills = self.fills and not linop.writes
        for dim in linop.writes:
            self._lengths.setdefault(axis_of(dim, linop.oshape), linop.full_sizes[dim])
        return (
            Within(tuple((axis_of(dim, linop.ishape), p) for dim, p in linop.reads.items())),
            Within(tuple((axis_of(dim, linop.oshape), p) for dim, p in linop.writes.items())),
        )


def _blocks(window: Window, dim: NamedDimension | None, sizes: tuple[int, ...]) -> Iterator[Window]:
    """Yield the window of each block along ``dim``; without end the whole where there is none."""
    if dim is None:
        yield from repeat(window)
    else:
        for size, stop in zip(sizes, accumulate(sizes), strict=True):
            yield _within(window, (dim, slice(stop - size, stop)))


def _lengths(window: Window) -> dict[NamedDimension, int]:
    return {dim: piece.stop - piece.start for dim, piece in window.items()}


def _within(window: Window, part: tuple[NamedDimension, slice]) -> Window:
    """Return a window inside of a window."""
    dim, piece = part
    offset = window[dim].start if dim in window else 0
    return {**window, dim: slice(offset + piece.start, offset + piece.stop)}


def _layout(
    layouts: list[Layout],
    dim: NamedDimension | None,
    names: tuple[NamedDimension, ...],
    sizes: tuple[int, ...],
) -> Layout:
    if dim is None:
        return Shared(tuple(layouts))
    return Divided(tuple(layouts), axis_of(dim, names), sizes)
