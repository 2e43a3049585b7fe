"""New memory for a group of views, and where in it each view lies.

A group is copied in parts. A part says how large its copy is, what has to be copied to where, and
which view of the copy stands for a piece of the source: `Span` keeps the distances of all bytes,
`CastSpan` scales them, `Box` leaves out bytes that nobody touches. A `Buffer` is the copy of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch

from .._modules._rebuild import bytes_of, view_like
from ._allocate import empty_bytes
from ._plan import Group, Piece

# Buffers start at multiples of this from the start of their storage, so that whatever was
# aligned for vector instructions stays so.
_ALIGNMENT = 64

UNDER_WAY = 1 << 26
"""Most bytes that are allocated for what is on its way to another device: torch needs memory for
strided copies and casts between devices, as much as they move at once."""

Transfer: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""A view of new memory, and the view of old memory that is copied into it."""


class Part(Protocol):
    """Bytes of a group that are copied together."""

    @property
    def pieces(self) -> list[Piece]:
        """The pieces for which this part was made."""

    @property
    def nbytes(self) -> int:
        """Size of the copy."""

    def transfers(self, data: torch.Tensor) -> Iterator[Transfer]:
        """What has to be copied into the bytes of the copy."""

    def holds(self, piece: Piece) -> bool:
        """Whether all bytes of a piece have a place in the copy."""

    def view(self, piece: Piece, data: torch.Tensor) -> torch.Tensor:
        """The tensor in the copy that stands for a piece, all of which must have a place there."""


class Span(NamedTuple):
    """All bytes in an interval of source addresses."""

    start: int
    stop: int
    pieces: list[Piece]

    @property
    def nbytes(self) -> int:
        """Size of the copy."""
        return self.stop - self.start

    def transfers(self, data: torch.Tensor) -> Iterator[Transfer]:
        """Bytes from each of the storages that hold them."""
        for start, source in self._sources():
            start -= self.start
            yield data[start : start + len(source)], source

    def gathered(self) -> torch.Tensor:
        """The source bytes as one tensor: a view, if one storage holds all of the span."""
        parts = [source for _, source in self._sources()]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def holds(self, piece: Piece) -> bool:
        """Whether all bytes of a piece lie in the span."""
        low, high = piece.view.span or (piece.view.address, piece.view.address)
        return self.start <= low and high <= self.stop

    def view(self, piece: Piece, data: torch.Tensor) -> torch.Tensor:
        """The same view, as far from the start of the copy as from that of the span."""
        return view_like(piece.tensor, data, piece.view.address - self.start)

    def _sources(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Address and bytes, as a view, of what each storage has that those before have not."""
        covered = self.start
        storages: dict[tuple[int, int], torch.UntypedStorage] = {}
        for piece in self.pieces:
            storages.setdefault(piece.view.storage_span, piece.tensor.untyped_storage())
        for (start, stop), storage in sorted(storages.items(), key=lambda item: item[0]):
            first, last = max(start, covered), min(stop, self.stop)
            if first < last:
                yield first, bytes_of(storage, first - start, last - start)
                covered = last


class Buffer(NamedTuple):
    """The copy of a part of a group: its bytes, as a tensor of uint8."""

    part: Part
    data: torch.Tensor

    def holds(self, piece: Piece) -> bool:
        """Whether all bytes of a piece have a place here."""
        return self.part.holds(piece)

    def view(self, piece: Piece) -> torch.Tensor:
        """The plain tensor that stands for a piece, which must have its place here."""
        return self.part.view(piece, self.data)


def copied(part: Part, group: Group, device: torch.device, non_blocking: bool = False) -> Buffer:
    """The copy of a part of a group on a device; with `non_blocking`, bytes may arrive later."""
    # Meta and fake tensors have no bytes; copies of fake tensors are fakes, too.
    tensor = group.pieces[0].tensor
    with fake_mode_of(tensor):
        data = empty_bytes(part.nbytes, device)
        if part.nbytes and device.type != "meta" and has_data(tensor):
            for target, source in part.transfers(data):
                _send(target, source, non_blocking)
    return Buffer(part, data)


def has_data(tensor: torch.Tensor) -> bool:
    """Whether there are bytes to copy: meta and fake tensors have none."""
    return tensor.untyped_storage().device.type != "meta"


def fake_mode_of(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """The mode in which a tensor was faked, if it was."""
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


def spans_of(group: Group, pack: bool) -> list[Span]:
    """Intervals of source addresses that a copy of a group needs, ascending.

    There is only one, from the first byte to the last, unless `pack` leaves out what lies between
    pieces whose bounds do not meet. Empty pieces go with the span that their address lies in, or
    get an empty one.

    Examples
    --------
    >>> from ._plan import Found, plan_of
    >>> x = torch.zeros(1000)
    >>> (group,) = plan_of(Found(tensor, None) for tensor in (x[100:200], x[800:])).groups
    >>> [span.nbytes for span in spans_of(group, pack=False)]
    [3616]
    >>> [span.nbytes for span in spans_of(group, pack=True)]
    [416, 800]
    """
    bounded: list[tuple[int, int, Piece]] = []
    empty: list[Piece] = []
    for piece in group.pieces:
        if piece.view.span is None:
            empty.append(piece)
        else:
            bounded.append((*piece.view.span, piece))
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
        home = next((span for span in spans if span.holds(piece)), None)
        if home is None:
            spans.append(Span(piece.view.address, piece.view.address, [piece]))
        else:
            home.pieces.append(piece)
    spans.sort(key=lambda span: span.start)
    return spans


def views_in(buffers: Iterable[Buffer]) -> dict[int, torch.Tensor]:
    """Plain tensors without history for the pieces that buffers were made for, by their ids."""
    return {
        id(piece.tensor): buffer.view(piece) for buffer in buffers for piece in buffer.part.pieces
    }
