"""New memory for a group of views, and where in it each view lies."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch

from .._modules._rebuild import view_like
from ._allocate import bytes_of, empty_bytes
from ._plan import Group, Piece

# Buffers start at multiples of this from the start of their storage, so that whatever was
# aligned for vector instructions stays so.
_ALIGNMENT = 64


class Span(NamedTuple):
    """An interval of source addresses, and the pieces that lie in it."""

    start: int
    stop: int
    pieces: list[Piece]


def spans_of(group: Group, pack: bool) -> list[Span]:
    """Intervals of source addresses that a copy of a group needs.

    Parameters
    ----------
    group : Group
        Pieces that share memory.
    pack : bool
        Whether to leave out what lies between pieces whose bounds do not meet.

    Returns
    -------
    list of Span
        Ascending; only one from the first byte to the last, unless `pack`. Empty pieces go with
        the span that their address lies in, or get an empty one.

    Examples
    --------
    >>> from ._plan import Found, plan_of
    >>> x = torch.zeros(1000)
    >>> (group,) = plan_of(Found(t, None, True) for t in (x[100:200], x[800:])).groups
    >>> [span.stop - span.start for span in spans_of(group, pack=False)]
    [3616]
    >>> [span.stop - span.start for span in spans_of(group, pack=True)]
    [416, 800]
    """
    bounded, empty = [], []
    for piece in group.pieces:
        layout = piece.view.layout()
        if layout is None:
            empty.append(piece)
        else:
            bounded.append((layout.start, layout.stop, piece))
    bounded.sort(key=lambda bound: bound[:2])
    spans: list[Span] = []
    for start, stop, piece in bounded:
        # A buffer of its own would repeat what rounding down takes in of the one before.
        rounded = start - (start - group.start) % _ALIGNMENT
        if spans and (rounded < spans[-1].stop or not pack):
            last = spans[-1]
            last.pieces.append(piece)
            spans[-1] = last._replace(stop=max(stop, last.stop))
        else:
            spans.append(Span(rounded, stop, [piece]))
    for piece in empty:
        address = piece.view.address
        home = next((span for span in spans if span.start <= address <= span.stop), None)
        if home is None:
            spans.append(Span(address, address, [piece]))
        else:
            home.pieces.append(piece)
    spans.sort(key=lambda span: span.start)
    return spans


class Buffer(NamedTuple):
    """Fresh memory that stands for an interval of source addresses.

    Attributes
    ----------
    start, stop : int
        The source addresses.
    data : torch.Tensor
        uint8, shape (stop - start,).
    """

    start: int
    stop: int
    data: torch.Tensor

    def holds(self, piece: Piece) -> bool:
        """Whether all bytes of a piece have a place here."""
        low, high = piece.view.span or (piece.view.address, piece.view.address)
        return self.start <= low and high <= self.stop

    def view(self, piece: Piece) -> torch.Tensor:
        """The tensor that stands for a piece, which must have its place here."""
        offset = piece.view.address - self.start
        storage = self.data.untyped_storage()
        return view_like(piece.tensor, storage, offset, device=self.data.device)


def copy_span(span: Span, group: Group, device: torch.device, non_blocking: bool) -> Buffer:
    """Fresh memory with the bytes of a span.

    Parameters
    ----------
    span : Span
        What to copy.
    group : Group
        Where the span lies.
    device : torch.device
        Where to.
    non_blocking : bool
        Whether the host may go on before the bytes have arrived.

    Returns
    -------
    Buffer
        As many bytes as the span has, on `device`; nothing else is allocated, unless the pieces
        reach the span through storages of which none holds it whole.
    """
    with fake_mode_of(group):
        data = empty_bytes(span.stop - span.start, device)
        if device.type != "meta" and has_data(group):
            for start, stop, source in sources_of(span):
                target = data[start - span.start : stop - span.start]
                target.copy_(source, non_blocking=non_blocking)
    return Buffer(span.start, span.stop, data)


def sources_of(span: Span) -> Iterable[tuple[int, int, torch.Tensor]]:
    """Bytes of a span, as views of the storages that hold them: start, stop and the bytes."""
    covered = span.start
    storages: dict[tuple[int, int], torch.UntypedStorage] = {}
    for piece in span.pieces:
        storages.setdefault(piece.view.storage_span, piece.tensor.untyped_storage())
    for (start, stop), storage in sorted(storages.items(), key=lambda item: item[0]):
        first, last = max(start, covered), min(stop, span.stop)
        if first < last:
            yield first, last, bytes_of(storage, first - start, last - start)
            covered = last


def gathered(span: Span) -> torch.Tensor:
    """Bytes of a span as one tensor.

    Parameters
    ----------
    span : Span
        What to gather; its bytes must exist.

    Returns
    -------
    torch.Tensor
        uint8, one-dimensional: a view, if one storage holds all of the span, else a copy.
    """
    parts = [source for _, _, source in sources_of(span)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def has_data(group: Group) -> bool:
    """Whether there are bytes to copy: meta and fake tensors have none."""
    return group.pieces[0].tensor.untyped_storage().device.type != "meta"


def fake_mode_of(group: Group) -> AbstractContextManager[Any]:
    """The mode in which the tensors of a group were faked, so that their copies are fakes too."""
    mode = getattr(group.pieces[0].tensor, "fake_mode", None)
    return nullcontext() if mode is None else mode
