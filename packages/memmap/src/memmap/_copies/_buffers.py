"""New memory for a group of views, and the copy of each view in it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple, TypeAlias

import torch

from .._components import components
from .._modules._refcounts import one_at_a_time
from .._views._footprint import Footprint
from .._views._pairs import layout_pairs
from ._allocate import empty_bytes
from ._cast import Cast
from ._compact import Box, box_of
from ._plan import Group, Piece
from ._spans import ByteSpan, Pack, spans_of

# The most temporary memory for a transfer between devices. torch allocates a temporary for strided
# copies and casts between devices, as large as the bytes that move at once.
UNDER_WAY = 1 << 26

Chunk: TypeAlias = ByteSpan | Box
"""Bytes of a group that are copied together. A box leaves out untouched bytes."""


class ChunkBuffer(NamedTuple):
    """The copy of a chunk of a group; its bytes are a tensor of uint8."""

    chunk: Chunk
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
        id(piece.tensor): chunk.view(piece, data)
        for chunk, data in new_buffers(group, device, pack, cast, non_blocking)
        for piece in chunk.pieces
    }


def new_buffers(
    group: Group,
    device: torch.device,
    pack: Pack,
    cast: Cast | None = None,
    non_blocking: bool = False,
) -> list[ChunkBuffer]:
    """Copies of the needed bytes of a group on a device; with a cast, gaps are not closed."""
    return [copied(chunk, group, device, non_blocking) for chunk in chunks_of(group, pack, cast)]


def chunks_of(group: Group, pack: Pack, cast: Cast | None = None) -> list[Chunk]:
    """The chunks of a group that are needed; with a cast, gaps are not closed."""
    chunks: list[Chunk] = []
    for span in spans_of(group, pack, cast):
        chunks += _closer(span, group) if pack == "close" and cast is None else [span]
    return chunks


def _closer(span: ByteSpan, group: Group) -> list[Chunk]:
    """Move the views of a span as close together as their overlaps allow."""
    bounded = [(piece, layout) for piece in span.pieces if (layout := piece.view.layout())]
    rest = [piece for piece in span.pieces if piece.view.span is None]
    layouts = [layout for _, layout in bounded]
    touched = Footprint(group.space, layouts).nbytes
    if not bounded or touched == span.stop - min(layout.start for layout in layouts):
        return [span]
    chunks: list[Chunk] = []
    pairs = (
        pair
        for first, second in layout_pairs(layouts, group.start)
        for pair in zip(first.tolist(), second.tolist(), strict=True)
    )
    overlapping: dict[int, list[Piece]] = {}
    for (piece, _), component in zip(bounded, components(len(bounded), pairs), strict=True):
        overlapping.setdefault(component, []).append(piece)
    for pieces in overlapping.values():
        (chunk,) = spans_of(group._replace(pieces=pieces), pack=False)
        box = box_of(chunk, group)
        if box is None:
            rest += pieces
        else:
            chunks.append(box)
    chunks += spans_of(group._replace(pieces=rest), pack=True)
    # If this saves nothing, keep the views together.
    return chunks if sum(chunk.nbytes for chunk in chunks) < span.nbytes else [span]


def copied(
    chunk: Chunk, group: Group, device: torch.device, non_blocking: bool = False
) -> ChunkBuffer:
    """The copy of a chunk of a group on a device; with `non_blocking`, bytes may arrive later."""
    # Meta and fake tensors have no bytes. Copies of fake tensors are fake, too.
    tensor = group.pieces[0].tensor
    with getattr(tensor, "fake_mode", None) or nullcontext():
        data = empty_bytes(chunk.nbytes, device)
        if len(data) and device.type != "meta" and has_data(tensor):
            with one_at_a_time:
                _fill(chunk, data, non_blocking)
    return ChunkBuffer(chunk, data)


def _fill(chunk: Chunk, data: torch.Tensor, non_blocking: bool) -> None:
    """Copy bytes. Views of the source die with this call, so no other thread counts them."""
    for target, source in chunk.transfers(data):
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
