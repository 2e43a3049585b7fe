"""New memory for a group of views, and the copy of each view in it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple, TypeAlias

import torch

from .._modules._refcounts import one_at_a_time
from .._views._footprint import Footprint
from .._views._pairs import layout_pairs
from ._allocate import empty_bytes
from ._cast import Cast
from ._compact import Box, box_of
from ._plan import Group, Piece, components
from ._spans import ByteSpan, Pack, spans_of

# The most temporary memory for a transfer between devices. torch allocates a temporary for strided
# copies and casts between devices, as large as the bytes that move at once.
UNDER_WAY = 1 << 26

Part: TypeAlias = ByteSpan | Box
"""Bytes of a group that are copied together. A box leaves out untouched bytes."""


class PartBuffer(NamedTuple):
    """The copy of a part of a group; its bytes are a tensor of uint8."""

    part: Part
    data: torch.Tensor


def new_views(
    group: Group,
    device: torch.device,
    pack: Pack,
    cast: Cast | None = None,
    non_blocking: bool = False,
) -> dict[int, torch.Tensor]:
    """Copies of all pieces of a group, by the ids of the pieces: plain tensors without history."""
    return {
        id(piece.tensor): part.view(piece, data)
        for part, data in new_buffers(group, device, pack, cast, non_blocking)
        for piece in part.pieces
    }


def new_buffers(
    group: Group,
    device: torch.device,
    pack: Pack,
    cast: Cast | None = None,
    non_blocking: bool = False,
) -> list[PartBuffer]:
    """Copies of the needed bytes of a group on a device; with a cast, gaps are not closed."""
    return [copied(part, group, device, non_blocking) for part in parts_of(group, pack, cast)]


def parts_of(group: Group, pack: Pack, cast: Cast | None = None) -> list[Part]:
    """The parts of a group that are needed; with a cast, gaps are not closed."""
    parts: list[Part] = []
    for span in spans_of(group, pack, cast):
        parts += _closer(span, group) if pack == "close" and cast is None else [span]
    return parts


def _closer(span: ByteSpan, group: Group) -> list[Part]:
    """Move the views of a span as close together as their overlaps allow."""
    bounded = [(piece, layout) for piece in span.pieces if (layout := piece.view.layout())]
    rest = [piece for piece in span.pieces if piece.view.span is None]
    layouts = [layout for _, layout in bounded]
    touched = Footprint(group.space, layouts).nbytes
    if not bounded or touched == span.stop - min(layout.start for layout in layouts):
        return [span]
    parts: list[Part] = []
    pairs = (
        pair
        for first, second in layout_pairs(layouts, group.start)
        for pair in zip(first.tolist(), second.tolist(), strict=True)
    )
    overlapping: dict[int, list[Piece]] = {}
    for (piece, _), component in zip(bounded, components(len(bounded), pairs), strict=True):
        overlapping.setdefault(component, []).append(piece)
    for pieces in overlapping.values():
        (part,) = spans_of(group._replace(pieces=pieces), pack=False)
        box = box_of(part, group)
        if box is None:
            rest += pieces
        else:
            parts.append(box)
    parts += spans_of(group._replace(pieces=rest), pack=True)
    # If this saves nothing, keep the views together.
    return parts if sum(part.nbytes for part in parts) < span.nbytes else [span]


def copied(
    part: Part, group: Group, device: torch.device, non_blocking: bool = False
) -> PartBuffer:
    """The copy of a part of a group on a device; with `non_blocking`, bytes may arrive later."""
    # Meta and fake tensors have no bytes. Copies of fake tensors are fake, too.
    tensor = group.pieces[0].tensor
    with getattr(tensor, "fake_mode", None) or nullcontext():
        data = empty_bytes(part.nbytes, device)
        if len(data) and device.type != "meta" and has_data(tensor):
            with one_at_a_time:
                _fill(part, data, non_blocking)
    return PartBuffer(part, data)


def _fill(part: Part, data: torch.Tensor, non_blocking: bool) -> None:
    """Copy bytes. Views of the source die with this call, so no other thread counts them."""
    for target, source in part.transfers(data):
        _send(target, source, non_blocking)


def has_data(tensor: torch.Tensor) -> bool:
    """Whether there are bytes to copy: meta and fake tensors have none."""
    return tensor.untyped_storage().device.type != "meta"


def _send(target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> None:
    """Copy in portions if torch would allocate a temporary for the transfer."""
    is_direct = source.device == target.device or (
        source.dtype == target.dtype and source.is_contiguous() and target.is_contiguous()
    )
    nbytes = source.numel() * max(source.itemsize, target.itemsize)
    if is_direct or nbytes <= UNDER_WAY:
        target.copy_(source, non_blocking=non_blocking)
        return
    axis = next(axis for axis, size in enumerate(source.shape) if size > 1)
    for portions in zip(target.tensor_split(2, axis), source.tensor_split(2, axis), strict=True):
        _send(*portions, non_blocking)
