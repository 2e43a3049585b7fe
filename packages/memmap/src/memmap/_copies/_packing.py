"""What is copied of a group of views, and what of the bytes between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, get_args

from .._views._footprint import Footprint
from .._views._layout import Layout
from .._views._pairs import layout_pairs
from ._buffers import Span, spans_of
from ._compact import Grid, grid_of
from ._disjoint import DisjointSets
from ._plan import Group

Gaps: TypeAlias = Literal["keep", "split", "close"]
"""What becomes of the bytes between views: ``keep`` copies them along, so that all views of a
storage share one; ``split`` leaves out what lies between views whose bounds do not meet; ``close``
also moves views closer together that step over bytes nobody touches."""


def check_gaps(gaps: str) -> None:
    """Check that something says what becomes of gaps.

    Parameters
    ----------
    gaps : str
        Anything.

    Raises
    ------
    ValueError
        If it is no value of `Gaps`.
    """
    if gaps not in get_args(Gaps):
        raise ValueError(
            f"ModuleMemoryMap: gaps must be one of {', '.join(get_args(Gaps))}, got {gaps!r}"
        )


def parts_of(group: Group, gaps: Gaps) -> list[tuple[Span, Grid | None]]:
    """What has to be copied of a group.

    Parameters
    ----------
    group : Group
        Pieces that share memory.
    gaps : str
        See `Gaps`.

    Returns
    -------
    list of (Span, Grid or None)
        Spans to be copied, in full or only a box in them.
    """
    if gaps != "close":
        return [(span, None) for span in spans_of(group, pack=gaps == "split")]
    parts: list[tuple[Span, Grid | None]] = []
    for span in _joined(spans_of(group, pack=True)):
        closer = _closer(span, group)
        saved = (
            span.stop
            - span.start
            - sum(part.stop - part.start if grid is None else grid.nbytes for part, grid in closer)
        )
        # What saves nothing would only take apart what lies together.
        parts += closer if saved > 0 else [(span, None)]
    return parts


def _joined(spans: list[Span]) -> list[Span]:
    """Spans with no gap between them as one."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start):
        if joined and span.start <= joined[-1].stop:
            last = joined[-1]
            joined[-1] = Span(last.start, max(last.stop, span.stop), last.pieces + span.pieces)
        else:
            joined.append(span)
    return joined


def _closer(span: Span, group: Group) -> list[tuple[Span, Grid | None]]:
    """Views of a span as close together as their overlaps allow."""
    pieces = [piece for piece in span.pieces if piece.view.layout() is not None]
    layouts = [layout for piece in pieces if (layout := piece.view.layout()) is not None]
    touched = Footprint(group.space, layouts).nbytes
    if not pieces or touched == span.stop - min(layout.start for layout in layouts):
        return [(span, None)]
    parts: list[tuple[Span, Grid | None]] = []
    rest = [piece for piece in span.pieces if piece.view.layout() is None]
    for members in _components(layouts, group.start):
        together = [pieces[member] for member in members]
        (part,) = spans_of(group._replace(pieces=together), pack=False)
        grid = grid_of(part, group)
        if grid is None:
            rest += together
        else:
            parts.append((part, grid))
    parts += [(part, None) for part in spans_of(group._replace(pieces=rest), pack=True)]
    return parts


def _components(layouts: Sequence[Layout], origin: int) -> Iterable[list[int]]:
    """Positions of sets of bytes that overlap, directly or through others."""
    sets = DisjointSets(len(layouts))
    for first, second in layout_pairs(layouts, origin):
        for a, b in zip(first.tolist(), second.tolist(), strict=True):
            sets.join(a, b)
    components: dict[int, list[int]] = {}
    for position in range(len(layouts)):
        components.setdefault(sets.find(position), []).append(position)
    return components.values()
