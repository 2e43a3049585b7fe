"""New memory for a group of views, and where in it each view lies."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeAlias

import torch

from .._views._footprint import Footprint
from .._views._layout import Layout
from .._views._pairs import layout_pairs
from ._allocate import empty_bytes
from ._cast import Cast
from ._compact import Box, box_of
from ._plan import Group, Piece, components
from ._spans import Pack, Span, spans_of

# Most bytes that are allocated for what is on its way to another device: torch needs memory for
# strided copies and casts between devices, as much as they move at once.
UNDER_WAY = 1 << 26

Part: TypeAlias = Span | Box
"""Bytes of a group that are copied together: a box leaves out what nobody touches."""


class Buffer(NamedTuple):
    """The copy of a part of a group: its bytes, as a tensor of uint8."""

    part: Part
    data: torch.Tensor


def new_views(
    group: Group,
    device: torch.device,
    pack: Pack,
    cast: Cast | None = None,
    non_blocking: bool = False,
) -> dict[int, torch.Tensor]:
    """Plain tensors without history that are copies of all pieces of a group, by their ids."""
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
) -> list[Buffer]:
    """Copies on a device of all that is needed of a group; a cast moves nothing closer together."""
    parts: list[Part] = []
    for span in spans_of(group, pack, cast):
        parts += _closer(span, group) if pack == "close" and cast is None else [span]
    return [copied(part, group, device, non_blocking) for part in parts]


def _closer(span: Span, group: Group) -> list[Part]:
    """Views of a span as close together as their overlaps allow."""
    pieces: list[Piece] = []
    layouts: list[Layout] = []
    rest: list[Piece] = []
    for piece in span.pieces:
        layout = piece.view.layout()
        if layout is None:
            rest.append(piece)
        else:
            pieces.append(piece)
            layouts.append(layout)
    touched = Footprint(group.space, layouts).nbytes
    if not pieces or touched == span.stop - min(layout.start for layout in layouts):
        return [span]
    parts: list[Part] = []
    for together in _overlapping(pieces, layouts, group.start):
        (part,) = spans_of(group._replace(pieces=together), pack=False)
        box = box_of(part, group)
        if box is None:
            rest += together
        else:
            parts.append(box)
    parts += spans_of(group._replace(pieces=rest), pack=True)
    # What saves nothing would only take apart what lies together.
    return parts if sum(part.nbytes for part in parts) < span.nbytes else [span]


def _overlapping(
    pieces: Sequence[Piece], layouts: Sequence[Layout], origin: int
) -> list[list[Piece]]:
    """Pieces that overlap, directly or through others."""
    pairs = (
        pair
        for first, second in layout_pairs(layouts, origin)
        for pair in zip(first.tolist(), second.tolist(), strict=True)
    )
    found: dict[int, list[Piece]] = {}
    for piece, component in zip(pieces, components(len(pieces), pairs), strict=True):
        found.setdefault(component, []).append(piece)
    return list(found.values())


def copied(part: Part, group: Group, device: torch.device, non_blocking: bool = False) -> Buffer:
    """The copy of a part of a group on a device; with `non_blocking`, bytes may arrive later."""
    # Meta and fake tensors have no bytes; copies of fake tensors are fakes, too.
    tensor = group.pieces[0].tensor
    with _fake_mode_of(tensor):
        data = empty_bytes(part.nbytes, device)
        if len(data) and device.type != "meta" and has_data(tensor):
            for target, source in part.transfers(data):
                _send(target, source, non_blocking)
    return Buffer(part, data)


def has_data(tensor: torch.Tensor) -> bool:
    """Whether there are bytes to copy: meta and fake tensors have none."""
    return tensor.untyped_storage().device.type != "meta"


def _fake_mode_of(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    mode = getattr(tensor, "fake_mode", None)
    return nullcontext() if mode is None else mode


def _send(target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> None:
    """Copy in portions, if torch would allocate memory for the journey."""
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
