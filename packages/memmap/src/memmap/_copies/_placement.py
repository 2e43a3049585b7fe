"""What lies on a device for the modules of a map, to be found again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._errors import StorageError
from .._modules._counters import Counters
from .._modules._traverse import Found, path_text
from .._views._address import view_of
from .._views._footprint import Footprint, footprint
from .._views._view import View
from ._plan import Group, Piece, plan_of
from ._regions import Region, Regions
from ._spans import Pack

_HINT = "(register all modules before the first of them is placed)"


class DeviceMemory:
    """What lies on one device: it is changed in a copy, which takes its place at the end."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.regions = Regions()
        self.copies: dict[int, Copied] = {}  # by the id of the source
        self.counters = Counters()

    def copy(self) -> DeviceMemory:
        """The same; what is changed in the copy is not changed here."""
        made = DeviceMemory(self.device)
        made.regions, made.copies = self.regions.copy(), self.copies.copy()
        made.counters = self.counters.copy()
        return made

    def place(
        self, group: Group, registered: Mapping[int, Group], pack: Pack, non_blocking: bool
    ) -> dict[int, torch.Tensor]:
        """Plain tensors on the device for all pieces of a group, by their ids.

        What is placed now has room for all `registered` tensors, given by their storages. It is a
        `StorageError` if a piece would not be related to what was placed before: because they
        overlap in part, or through a storage that was not known then.
        """
        known = (self.regions.by_storage.get(storage) for storage in group.storages)
        region = next((region for region in known if region is not None), None)
        if region is None:
            # Memory that was made only now, for what has none of its own, is not registered.
            group_there = registered.get(group.storages[0], group)
            self._check_unknown(group_there)
            region = Region(group_there, self.device, pack, non_blocking)
            self.regions.put(region)
        missing = region.missing(group.pieces)
        if missing:
            self._check_apart(region, missing)
            wider = region.with_pieces(missing)
            self.regions.put(wider, instead_of=region)
            region = wider
        return region.views(group.pieces)

    def _check_unknown(self, group: Group) -> None:
        region = self.regions.meeting(group)
        if region is None:
            return
        piece = next(piece for piece in group.pieces if region.is_met_by(piece))
        raise StorageError(
            f"{path_text(piece.path)}: storages that share memory must be known before one of "
            f"them is placed, got another one of what is on {self.device} already {_HINT}"
        )

    def _check_apart(self, region: Region, pieces: Sequence[Piece]) -> None:
        layouts = [view.layout() for view in region.buffer_of]
        placed = Footprint(region.span.space, [layout for layout in layouts if layout is not None])
        for piece in pieces:
            if not placed.isdisjoint(footprint(piece.view)):
                raise StorageError(
                    f"{path_text(piece.path)}: a view to be placed must lie within or apart from "
                    f"what is on {self.device} already, got one that overlaps it in part {_HINT}"
                )


class Copied(NamedTuple):
    """The copy of a tensor, the tensor (so that no other gets its id), and its look then."""

    source: torch.Tensor
    copy: torch.Tensor
    look: list[object]


def look_of(source: torch.Tensor) -> list[object]:
    """All that a copy of a tensor and its gradients takes over, but values and attributes."""
    look: list[object] = []
    tensor: torch.Tensor | None = source
    while tensor is not None:
        look += [type(tensor), tensor.requires_grad, tensor.device, tensor.dtype]
        for part, view in _parts_of(tensor):
            look += [part.dtype, StorageWeakRef(part.untyped_storage()), view]
        tensor = tensor.grad if tensor.is_leaf else None
    return look


def _parts_of(tensor: torch.Tensor) -> list[tuple[torch.Tensor, View]]:
    """The strided tensors that a tensor is made of, and where they lie."""
    with suppress(TypeError):
        return [(tensor, view_of(tensor))]
    pieces = plan_of([Found(tensor, None)], detach=True).pieces
    return [(piece.tensor, piece.view) for piece in pieces]
