"""Strategies for ArrayToBlocks and BlocksToArray."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from hypothesis import strategies as st

from ... import ArrayToBlocks, BlocksToArray
from ._known import Known, leaf, matrix_of
from ._spaces import Grids, Index, Spaces, grids_of, hidden


@dataclass(frozen=True)
class Cut:
    """How an array is cut into blocks, and which of the blocks or of their elements are kept."""

    grids: Grids
    """From the array to the blocks."""
    block: Sequence[int]
    strides: Sequence[int]
    is_reversed: bool = False
    """Whether the blocks are added up to the array."""
    mask_of: str | None = None
    keep: Sequence[bool] = ()

    @property
    def counts(self) -> list[int]:
        """The number of blocks along each axis, kept or not."""
        axes = zip(self.grids.lengths(self.grids.here), self.block, self.strides, strict=True)
        return [(size - length) // stride + 1 for size, length, stride in axes]

    def positions(self) -> list[tuple[int, ...]]:
        """Return where in the array each element of each block is, in the order of the output."""
        firsts, inside = indices(self.counts), indices(self.block)
        if self.mask_of == "blocks":
            firsts = [first for first, kept in zip(firsts, self.keep, strict=True) if kept]
        if self.mask_of == "elements":
            inside = [at for at, kept in zip(inside, self.keep, strict=True) if kept]
        return [
            tuple(n * s + m for n, s, m in zip(first, self.strides, at, strict=True))
            for first, at in product(firsts, inside)
        ]


def indices(lengths: Sequence[int]) -> list[tuple[int, ...]]:
    """Return all indices into a tensor of these lengths, the last axis fastest."""
    return list(product(*map(range, lengths)))


def cuts_between(where: Spaces) -> list[Cut]:
    """Return the ways to cut an array into blocks, or to add them up, without a mask."""
    found = []
    for is_reversed in (False, True):
        for grids in grids_of(where.reverse if is_reversed else where):
            ndim = len(grids.here)
            if not grids.is_renamed or len(grids.there) != 2 * ndim:
                continue
            counts, block = grids.lengths(grids.there[:ndim]), grids.lengths(grids.there[ndim:])
            for strides in product(*(range(1, n + 1) for n in grids.lengths(grids.here))):
                cut = Cut(grids, block, strides, is_reversed)
                fits = all(n >= m for n, m in zip(grids.lengths(grids.here), block, strict=True))
                found += [cut] if fits and cut.counts == counts else []
    return found


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    """Cuts of one or two axes, with masks or without."""
    ndim = draw(st.integers(1, 2))
    size = {dim: draw(st.integers(1, 5 if ndim == 1 else 3)) for dim in "XY"[:ndim]}
    block = {dim: draw(st.integers(1, n)) for dim, n in zip("TU", size.values(), strict=False)}
    strides = [draw(st.integers(1, 3)) for _ in size]
    mask_of = draw(st.sampled_from([None, "blocks", "elements"]))
    batch = draw(st.sampled_from([(), ("A",)]))
    bare = Grids((*batch, *size), (), {"A": 2, **size}, len(batch))
    count = dict(zip("QR", Cut(bare, [*block.values()], strides).counts, strict=False))
    masked = {"blocks": count, "elements": block}.get(mask_of or "", {})
    n_masked = math.prod(masked.values())
    keep = draw(st.lists(st.booleans(), min_size=n_masked, max_size=n_masked).filter(any))
    kept = {"K": sum(keep)}
    of_blocks = kept if mask_of == "blocks" else count
    of_elements = kept if mask_of == "elements" else block
    sizes = {**bare.sizes, **of_blocks, **of_elements}
    grids = Grids(bare.ishape, (*batch, *of_blocks, *of_elements), sizes, len(batch))
    return Cut(grids, [*block.values()], strides, draw(st.booleans()), mask_of, keep)


@leaf(cuts_between, anywhere=cuts())
def blocks(draw: st.DrawFn, cut: Cut) -> Known:
    """ArrayToBlocks and BlocksToArray: blocks that overlap or do not, with masks or without."""
    grids = cut.grids
    masked = {"blocks": cut.counts, "elements": cut.block}.get(cut.mask_of or "")
    mask = None if masked is None else torch.tensor(cut.keep).reshape(list(masked))
    batch, shapes = hidden(draw, grids.batch), (grids.here, grids.there)
    kind = BlocksToArray if cut.is_reversed else ArrayToBlocks
    shapes = shapes[::-1] if cut.is_reversed else shapes
    size = grids.lengths(grids.here)
    linop = kind(size, cut.block, cut.strides, mask, batch, *shapes, mask_of=cut.mask_of)
    outputs = indices(grids.lengths(grids.there))
    positions = dict(zip(outputs, cut.positions(), strict=True))

    def entry(o: Index, i: Index) -> complex:
        place = positions[tuple(o[dim] for dim in grids.there)]
        return grids.same_batch(o, i) and place == tuple(i[dim] for dim in grids.here)

    matrix = matrix_of(entry, grids)
    if cut.is_reversed:
        return Known(linop, matrix.mH.clone(), grids.reverse)
    return Known(linop, matrix, grids)
