"""What is copied of a group of views, and what of the bytes between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch

from .._views._footprint import Footprint
from .._views._layout import Layout
from .._views._pairs import layout_pairs
from ._buffers import Buffer, Part, Span, copied, spans_of
from ._cast import Cast, CastSpan
from ._compact import box_of
from ._plan import Group, Piece, components

Pack: TypeAlias = bool | Literal["close"]
"""What becomes of the bytes between views: False copies them along, so that all views of a storage
share one; True leaves out what lies between views whose bounds do not meet; ``close`` also moves
views closer together that step over bytes nobody touches."""


def new_buffers(
    group: Group,
    device: torch.device,
    pack: Pack,
    cast: Cast | None = None,
    non_blocking: bool = False,
) -> list[Buffer]:
    """Copies on a device of all that is needed of a group."""
    parts = parts_of(group, pack, cast)
    return [copied(part, group, device, non_blocking) for part in parts]


def parts_of(group: Group, pack: Pack, cast: Cast | None) -> Sequence[Part]:
    """What has to be copied of a group; a cast moves nothing closer together."""
    if cast is not None:
        return [CastSpan(span, cast) for span in spans_of(group, bool(pack))]
    if pack != "close":
        return spans_of(group, pack)
    parts: list[Part] = []
    for span in _joined(spans_of(group, pack=True)):
        closer = _closer(span, group)
        # What saves nothing would only take apart what lies together.
        saves = sum(part.nbytes for part in closer) < span.nbytes
        parts += closer if saves else [span]
    return parts


def _joined(spans: list[Span]) -> list[Span]:
    """Ascending spans with no gap between them as one."""
    joined: list[Span] = []
    for span in spans:
        if joined and span.start <= joined[-1].stop:
            last = joined[-1]
            joined[-1] = Span(last.start, max(last.stop, span.stop), last.pieces + span.pieces)
        else:
            joined.append(span)
    return joined


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
    return [*parts, *spans_of(group._replace(pieces=rest), pack=True)]


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
