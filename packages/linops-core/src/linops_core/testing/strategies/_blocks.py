"""Strategies for ArrayToBlocks and BlocksToArray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from hypothesis import strategies as st
from torch import Tensor

from ... import ArrayToBlocks, BlocksToArray
from ._known import Known, leaf, matrix_of_picks
from ._spaces import Spaces, hidden, renamed


@dataclass(frozen=True)
class BlockCut:
    """How an array is cut into blocks, and which of the blocks or of their elements are kept."""

    grids: Spaces
    """From the array to the blocks."""
    block: Sequence[int]
    strides: Sequence[int]
    is_reversed: bool = False
    """Whether the blocks are added up to the array."""
    mask_of: str | None = None
    mask: Tensor | None = None

    def picked(self, array: Tensor) -> Tensor:
        """Return the blocks of an array that are kept."""
        blocks = windows(array, self.block, self.strides)
        if self.mask is None:
            return blocks
        return blocks[self.mask] if self.mask_of == "blocks" else blocks[..., self.mask]


def windows(array: Tensor, block: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Return the blocks of an array, of shape (number along each axis, length along each axis)."""
    for axis, (length, stride) in enumerate(zip(block, strides, strict=True)):
        array = array.unfold(axis, length, stride)
    return array


def cuts_between(where: Spaces) -> list[BlockCut]:
    """Return the ways to cut an array into blocks, or to add them up, without a mask."""
    cuts = []
    for is_reversed in (False, True):
        for grids in renamed(where.reverse if is_reversed else where):
            size, lengths = grids.lengths(grids.grid), grids.lengths(grids.result)
            block = lengths[len(size) :]
            if len(block) != len(size) or any(map(int.__lt__, size, block)):
                continue
            for strides in product(*(range(1, n + 1) for n in size)):
                if [*windows(torch.zeros(size), block, strides).shape] == lengths:
                    cuts.append(BlockCut(grids, block, strides, is_reversed))
    return cuts


@st.composite
def cuts(draw: st.DrawFn) -> BlockCut:
    """Cuts of one or two axes, with masks or without."""
    ndim = draw(st.integers(1, 2))
    size = [draw(st.integers(1, 5 if ndim == 1 else 3)) for _ in range(ndim)]
    block = [draw(st.integers(1, n)) for n in size]
    strides = [draw(st.integers(1, 3)) for _ in size]
    counts = windows(torch.zeros(size), block, strides).shape[:ndim]
    of_array, of_blocks, of_elements = (
        dict(zip(names, lengths, strict=False))
        for names, lengths in (("XY", size), ("QR", counts), ("TU", block))
    )
    mask_of = draw(st.sampled_from([None, "blocks", "elements"]))
    mask = None
    if mask_of is not None:
        masked = torch.Size(counts if mask_of == "blocks" else block)
        n = masked.numel()
        keep = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
        mask = torch.tensor(keep).reshape(masked)
        if mask_of == "blocks":
            of_blocks = {"K": sum(keep)}
        else:
            of_elements = {"K": sum(keep)}
    batch = draw(st.sampled_from([(), ("A",)]))
    sizes = {"A": 2, **of_array, **of_blocks, **of_elements}
    oshape = (*batch, *of_blocks, *of_elements)
    grids = Spaces((*batch, *of_array), oshape, sizes, len(batch))
    return BlockCut(grids, block, strides, draw(st.booleans()), mask_of, mask)


@leaf(cuts_between, anywhere=cuts())
def blocks(draw: st.DrawFn, cut: BlockCut) -> Known:
    """ArrayToBlocks and BlocksToArray: blocks that overlap or do not, with masks or without."""
    grids = cut.grids
    kind = BlocksToArray if cut.is_reversed else ArrayToBlocks
    shapes = (grids.result, grids.grid) if cut.is_reversed else (grids.grid, grids.result)
    batch, size = hidden(draw, grids.batch), grids.lengths(grids.grid)
    linop = kind(size, cut.block, cut.strides, cut.mask, batch, *shapes, mask_of=cut.mask_of)
    matrix = matrix_of_picks(grids, cut.picked)
    if cut.is_reversed:
        return Known(linop, matrix.mH.clone(), grids.reverse)
    return Known(linop, matrix, grids)
