"""Chains that work slice by slice: what they make on the way stays in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from nameddim import NamedDimension, is_wildcard

from .._base._calls import apply_with_lazy_conjugate, is_hooked
from .._base._cutting import tile_of
from .._base._dimensions import axis_of, lengths_by_occurrence
from .._base._linop import NamedLinop
from .._base._question import Question
from .._base._roles import Role
from .._base._tile import Window
from .._kept import Memo, has_fixed_lengths
from .._kernels._accumulate import accumulate, writing_is_safe
from .._kernels._torch_state import FakeTensor, is_in_forward_mode
from .._kernels._tracing import is_recorded
from ._normal import Normal

CACHE = 2**20
"""Bytes on the way for each thread: about what a core has for itself."""


@Question
def gains_by_slices(linop: NamedLinop) -> bool:
    """Whether slices that fit the processor cache take less time than the whole.

    False by default. Answer True for an operator whose time is that of reading and writing memory:
    elementwise products, sums, transforms of small grids. A chain of such operators is then
    computed slice by slice, along dimensions in which each of them can be cut.

    Examples
    --------
    >>> from linops_core import NamedLinop
    >>> class Halves(NamedLinop):
    ...     @staticmethod
    ...     def fn(linop, x):
    ...         return x / 2
    ...     adj_fn = fn
    >>> @gains_by_slices.register(Halves)
    ... def always(linop):
    ...     return True
    """
    return False


@gains_by_slices.register(Normal)
def _as_its_operator(linop: Normal) -> bool:
    return gains_by_slices(linop.linop)


Tile: TypeAlias = tuple[Sequence[NamedLinop], Window]
"""The operators of a tile of a chain, and its slices."""

TileRow: TypeAlias = Sequence[Tile]
"""Tiles of a chain, whose results are added up: they write the same slice of the output."""


class SlicedChain:
    """The tiles of a chain, one row for each slice of the output."""

    def __init__(
        self, chain: NamedLinop, operands: Sequence[NamedLinop], rows: Sequence[TileRow]
    ) -> None:
        self.rows = rows
        self._ishape, self._oshape = chain.ishape, chain.oshape  # the chain holds this object
        owners = [held for each in chain.modules() for held in (each._parameters, each._buffers)]
        # The dictionaries of weights, which operators share. A buffer that becomes a Parameter may
        # leave for a dictionary that is empty now: then the list of shapes becomes shorter.
        self._owners = [*{id(held): held for held in owners if held}.values()]
        self.shapes = [weight.shape for weight in self.weights()]
        """Of the weights for which it was made."""
        self.operands = operands

    def weights(self) -> list[Tensor]:
        """Return the weights of all operators."""
        return [each for held in self._owners for each in held.values() if each is not None]

    def run(self, x: Tensor) -> Tensor:
        """Return what the chain returns."""
        first, *others = self.rows
        y = accumulate(self._results(first, x))
        if others:
            result, y = y, y.new_empty(self._lengths(y))
            _slice_of(y, self._oshape, first[0][1]).copy_(result)
        for row in others:
            result = accumulate(self._results(row, x))
            _slice_of(y, self._oshape, row[0][1]).copy_(result)
        return y

    def _results(self, row: TileRow, x: Tensor) -> Iterator[Tensor]:
        for tile in row:
            yield self._result(tile, x)

    def _result(self, tile: Tile, x: Tensor) -> Tensor:
        """Return what a tile of the chain returns."""
        operands, window = tile
        y = _slice_of(x, self._ishape, window) if window else x
        for operand in operands:
            y = apply_with_lazy_conjugate(operand, y)
        return y

    def _lengths(self, result: Tensor) -> list[int]:
        """Return the shape of the output, given a slice of it."""
        names, lengths = self._oshape, list(result.shape)
        last = self.rows[-1][0][1]
        for position, dim in enumerate(names):
            if dim in last:
                lengths[axis_of(position, names)] = last[dim].stop
        return lengths


SLICES = Memo[tuple[object, "SlicedChain | None"]]()
"""For a shape, dtype, device and number of threads: how to compute a chain slice by slice."""


def slices_of(chain: NamedLinop, x: Tensor) -> SlicedChain | None:
    """Return how to compute a chain slice by slice; None if it should not be.

    None also if autograd or a hook records intermediate results.
    """
    if is_dynamo_compiling() or type(x) not in (Tensor, FakeTensor):
        return None
    if type(x) is FakeTensor and not has_fixed_lengths(x.shape):
        return None  # before a comparison, which would fix a size that an export leaves free
    key = x.shape, x.dtype, x.device, torch.get_num_threads()
    kept_key, sliced = SLICES.get(chain) or (None, None)
    if kept_key != key:
        if not has_fixed_lengths(x.shape):
            return None
        sliced = SLICES.keep(chain, (key, _planned(chain, chain.flatten(), x)))[1]
    if sliced is None:
        return None  # without a look at the weights: it takes as long as a small product
    if not writing_is_safe() or is_in_forward_mode():
        return None
    weights = sliced.weights()
    if sliced.shapes != [weight.shape for weight in weights]:  # weights were replaced
        sliced = SLICES.keep(chain, (key, _planned(chain, chain.flatten(), x)))[1]
        if sliced is None:
            return None
        weights = sliced.weights()
    is_followed = is_recorded(x, *weights) or any(map(is_hooked, sliced.operands))
    return None if is_followed else sliced


def _planned(chain: NamedLinop, operands: Sequence[NamedLinop], x: Tensor) -> SlicedChain | None:
    lengths = _widest(operands, x)
    # In the dtype of the input: those of all weights take longer to look through.
    nbytes, limit = prod(lengths.values()) * x.element_size(), CACHE * torch.get_num_threads()
    if nbytes <= limit or not x.is_cpu or not all(map(gains_by_slices, operands)):
        return None
    roles = {dim: chain.role(dim) for dim in lengths if not is_wildcard(dim)}
    written: dict[NamedDimension, list[slice]] = {}
    summed: dict[NamedDimension, list[slice]] = {}
    # Dimensions that are summed over come last, so that a slice of the output sums few tiles.
    for dim in sorted(roles, key=lambda dim: roles[dim] in (Role.INPUT, Role.INNER)):
        if nbytes <= limit or lengths[dim] < 2 or roles[dim] in (None, Role.OPAQUE):
            continue
        step = max(1, lengths[dim] * limit // nbytes)
        pieces = [slice(at, min(at + step, lengths[dim])) for at in range(0, lengths[dim], step)]
        (summed if roles[dim] in (Role.INPUT, Role.INNER) else written)[dim] = pieces
        nbytes = nbytes * step // lengths[dim]
    rows = [
        [(tile_of(chain, window).flatten(), window) for window in _windows(summed, outer)]
        for outer in _windows(written, {})
    ]
    return SlicedChain(chain, operands, rows)


def _windows(cuts: Mapping[NamedDimension, Sequence[slice]], outer: Window) -> list[Window]:
    """Return all combinations of slices, each within ``outer``."""
    return [{**outer, **dict(zip(cuts, pieces, strict=True))} for pieces in product(*cuts.values())]


def _widest(operands: Sequence[NamedLinop], x: Tensor) -> dict[NamedDimension, int]:
    """Return the lengths of the largest tensor between operands; nothing if one is not known."""
    run_lengths = lengths_by_occurrence(operands[0].ishape, x.shape)
    lengths = {dim: prod(run) for (dim, _), run in run_lengths.items()}
    widest: dict[NamedDimension, int] = {}
    for operand in operands[:-1]:
        # An operator without lengths is a Fourier transform, which keeps those of its grid.
        previous = [*lengths.values()]
        kept = previous if len(previous) == len(operand.oshape) else [None] * len(operand.oshape)
        output_sizes = [
            lengths.get(dim, same) if size is None else size
            for dim, size, same in zip(operand.oshape, operand.sizes("output"), kept, strict=True)
        ]
        sizes = [size for size in output_sizes if size is not None]
        if len(sizes) < len(output_sizes):
            return {}
        lengths = dict(zip(operand.oshape, sizes, strict=True))
        widest = max(widest, lengths, key=lambda each: prod(each.values()) if each else -1)
    return widest


def _slice_of(x: Tensor, names: tuple[NamedDimension, ...], window: Window) -> Tensor:
    """Return the slice of a vector that is within a window."""
    for position, dim in enumerate(names):
        if dim in window:
            piece = window[dim]
            x = x.narrow(axis_of(position, names), piece.start, piece.stop - piece.start)
    return x
