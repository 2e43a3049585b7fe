"""How one tensor is handed to many tiles: each gets a view of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Layout(Protocol):
    """Views of a tensor, one for each of some tiles."""

    def hand_out(self, tensor: Tensor, views: list[Tensor]) -> None:
        """Append the view that each tile has of ``tensor``, in the order of the tiles."""


@dataclass(frozen=True)
class Within:
    """One tile, which has what is within slices of some axes."""

    slices: tuple[tuple[int, slice], ...] = ()

    def hand_out(self, tensor: Tensor, views: list[Tensor]) -> None:
        """Append that part."""
        for axis, piece in self.slices:
            tensor = tensor.narrow(axis, piece.start, piece.stop - piece.start)
        views.append(tensor)


@dataclass(frozen=True)
class Shared:
    """Several layouts, each of the whole tensor."""

    layouts: tuple[Layout, ...] = ()

    def hand_out(self, tensor: Tensor, views: list[Tensor]) -> None:
        """Append what each makes of the tensor."""
        for layout in self.layouts:
            layout.hand_out(tensor, views)


@dataclass(frozen=True)
class Divided:
    """Several layouts, each of a block: the blocks stand side by side along an axis."""

    layouts: tuple[Layout, ...]
    axis: int
    sizes: tuple[int, ...]

    def hand_out(self, tensor: Tensor, views: list[Tensor]) -> None:
        """Append what each makes of its block."""
        blocks = torch.split(tensor, list(self.sizes), self.axis)
        for layout, block in zip(self.layouts, blocks, strict=True):
            layout.hand_out(block, views)
