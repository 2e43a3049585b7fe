"""Chains that work slice by slice: what they make on the way stays in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling

from nameddim import NamedDimension, is_wildcard

from .._base._late_hooks import is_hooked
from .._base._linop import NamedLinop, tile_of
from .._base._roles import Role
from .._base._sides import axis_of, lengths_by_place
from .._base._tile import Window
from .._kernels._accumulate import accumulate, writing_is_safe
from .._kernels._dtype import promoted
from .._kernels._tracing import is_recorded, may_be_remembered

CACHE = 2**20
"""Bytes on the way for each thread: about what a core has for itself."""

Row: TypeAlias = Sequence[tuple[NamedLinop, Window]]
"""Parts whose results are added up: they write the same slice of the output."""


class Slices(NamedTuple):
    """The parts of a chain, one row for each slice of the output."""

    chain: NamedLinop
    rows: Sequence[Row]
    shapes: list[torch.Size]
    """Of the weights for which it was made."""

    def run(self, x: Tensor) -> Tensor:
        """Return what the chain returns."""
        first, *others = self.rows
        result = accumulate(self._results(first, x))
        if not others:
            return result
        y = result.new_empty(self._lengths(result))
        _slice_of(y, self.chain.oshape, first[0][1]).copy_(result)
        for row in others:
            result = accumulate(self._results(row, x))
            _slice_of(y, self.chain.oshape, row[0][1]).copy_(result)
        return y

    def _results(self, row: Row, x: Tensor) -> Iterator[Tensor]:
        for part, window in row:
            yield part._call_again(_slice_of(x, self.chain.ishape, window))

    def _lengths(self, result: Tensor) -> list[int]:
        """Return the shape of the output, given a slice of it."""
        names, lengths = self.chain.oshape, list(result.shape)
        last = self.rows[-1][0][1]
        for place, dim in enumerate(names):
            if dim in last:
                lengths[axis_of(place, names)] = last[dim].stop
        return lengths


def slices_of(chain: NamedLinop, parts: Sequence[NamedLinop], x: Tensor) -> Slices | None:
    """Return how to compute a chain of ``parts`` slice by slice; None if it is not to be.

    None also if autograd or a hook records intermediate results.
    """
    if is_dynamo_compiling() or type(x) is not Tensor:
        return None
    key = x.shape, x.dtype, x.device, torch.get_num_threads()
    known, found = chain._found.get("slices", (None, None))
    if known == key and found is None:
        return None  # without a look at the weights: it takes as long as a small product
    if not writing_is_safe() or forward_ad._current_level >= 0 or not may_be_remembered(x.shape):
        return None
    weights = [*chain.parameters(), *chain.buffers()]
    shapes = [weight.shape for weight in weights]  # others may be in their place by now
    if known != key or found.shapes != shapes:
        found = _planned(chain, parts, x, shapes)
        chain._found["slices"] = key, found
    is_followed = is_recorded(x, *weights) or any(is_hooked(part.__dict__) for part in parts)
    return None if is_followed else found


def _planned(
    chain: NamedLinop, parts: Sequence[NamedLinop], x: Tensor, shapes: list[torch.Size]
) -> Slices | None:
    if x.device.type != "cpu" or not all([part._gains_by_slices() for part in parts]):
        return None
    lengths = _widest(parts, x)
    dtype = promoted([x, *chain.parameters(), *chain.buffers()], x.dtype)
    nbytes, limit = prod(lengths.values()) * dtype.itemsize, CACHE * torch.get_num_threads()
    roles = {dim: chain.role(dim) for dim in lengths if not is_wildcard(dim)}
    written, summed = dict[NamedDimension, list[slice]](), dict[NamedDimension, list[slice]]()
    # Sums last: a slice of the output is made by as few parts as can be.
    for dim in sorted(roles, key=lambda dim: roles[dim] in (Role.INPUT, Role.INNER)):
        if nbytes <= limit or lengths[dim] < 2 or roles[dim] in (None, Role.OPAQUE):
            continue
        step = max(1, lengths[dim] * limit // nbytes)
        pieces = [slice(at, min(at + step, lengths[dim])) for at in range(0, lengths[dim], step)]
        (summed if roles[dim] in (Role.INPUT, Role.INNER) else written)[dim] = pieces
        nbytes = nbytes * step // lengths[dim]
    if not written and not summed:
        return None
    rows = [
        [(tile_of(chain, window), window) for window in _windows(summed, outer)]
        for outer in _windows(written, {})
    ]
    return Slices(chain, rows, shapes)


def _windows(cuts: Mapping[NamedDimension, Sequence[slice]], outer: Window) -> list[Window]:
    """Return all combinations of slices, each within ``outer``."""
    return [{**outer, **dict(zip(cuts, pieces, strict=True))} for pieces in product(*cuts.values())]


def _widest(parts: Sequence[NamedLinop], x: Tensor) -> dict[NamedDimension, int]:
    """Return the lengths of the largest tensor between parts; nothing if one is not known."""
    places = lengths_by_place(parts[0].ishape, x.shape)
    lengths = {dim: prod(own) for (dim, _), own in places.items()}
    widest: dict[NamedDimension, int] = {}
    for part in parts[:-1]:
        # What does not know a length is a Fourier transform, which keeps those of its grid.
        here = [*lengths.values()]
        kept = here if len(here) == len(part.oshape) else [None] * len(part.oshape)
        found = [
            lengths.get(dim, same) if size is None else size
            for dim, size, same in zip(part.oshape, part.sizes("output"), kept, strict=True)
        ]
        sizes = [size for size in found if size is not None]
        if len(sizes) < len(found):
            return {}
        lengths = dict(zip(part.oshape, sizes, strict=True))
        widest = max(widest, lengths, key=lambda each: prod(each.values()) if each else -1)
    return widest


def _slice_of(x: Tensor, names: tuple[NamedDimension, ...], window: Window) -> Tensor:
    """Return the slice of a vector that is within a window."""
    for place, dim in enumerate(names):
        if dim in window:
            piece = window[dim]
            x = x.narrow(axis_of(place, names), piece.start, piece.stop - piece.start)
    return x
