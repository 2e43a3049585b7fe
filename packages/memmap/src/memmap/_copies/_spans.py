"""Intervals of source addresses that are copied together, unchanged or cast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

import torch

from .._modules._rebuild import bytes_of, strided, view_like
from .._views._footprint import footprint
from .._views._runs import connected_intervals
from ._cast import Cast, Unit
from ._plan import Group, Piece

# Buffers start at multiples of this from the start of their storage, so that memory that was
# aligned for vector instructions stays aligned.
_ALIGNMENT = 64

Pack: TypeAlias = bool | Literal["close"]
"""Which bytes between views to copy. False: all, so that all views of a storage share one buffer.
True: not those between views whose bounds do not meet. ``close``: also move views that step over
untouched bytes closer together."""

CopyPair: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""A view of new memory, and the view of old memory to copy into it."""


class ByteSpan(NamedTuple):
    """All bytes in an interval of source addresses; a cast scales their distances in the copy."""

    start: int
    stop: int
    pieces: list[Piece]
    cast: Cast | None = None

    @property
    def nbytes(self) -> int:
        """Size of the copy."""
        return self._scaled(self.stop - self.start)

    def transfers(self, data: torch.Tensor) -> Iterator[CopyPair]:
        """The transfers to make: bytes from each storage, or for a cast, numbers by their types."""
        if self.cast is None:
            for start, source in self._sources():
                start -= self.start
                yield data[start : start + len(source)], source
            return
        source = self.gathered()
        for offset, sizes, strides, (old, new) in self._numbers(self.cast):
            new_numbers = torch.empty(0, dtype=new, device=data.device)
            old_numbers = torch.empty(0, dtype=old, device=source.device)
            yield (
                strided(data, self._scaled(offset), sizes, strides, new_numbers),
                strided(source, offset, sizes, strides, old_numbers),
            )

    def gathered(self) -> torch.Tensor:
        """The source bytes as one tensor: a view, if one storage holds all of the span."""
        sources = [source for _, source in self._sources()]
        return sources[0] if len(sources) == 1 else torch.cat(sources)

    def holds(self, piece: Piece) -> bool:
        """Whether all bytes of a piece have a place in the copy."""
        low, high = piece.view.span or (piece.view.address, piece.view.address)
        return self.start <= low and high <= self.stop

    def view(self, piece: Piece, data: torch.Tensor) -> torch.Tensor:
        """The copy of a piece, all of whose bytes must have a place in this span."""
        offset = self._scaled(piece.view.address - self.start)
        dtype = self.cast.types[piece.tensor.dtype] if self.cast else None
        return view_like(piece.tensor, data, offset, dtype=dtype)

    def _scaled(self, nbytes: int) -> int:
        """A distance in the source as one in the copy, rounded up."""
        ratio = self.cast.ratio if self.cast else 1.0  # sizes of elements are powers of two
        return nbytes * int(ratio) if ratio >= 1 else -(-nbytes // int(1 / ratio))

    def _sources(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Address and bytes (a view) of each storage, without bytes of the storages before it."""
        covered = self.start
        storages: dict[tuple[int, int], torch.UntypedStorage] = {}
        for piece in self.pieces:
            storages.setdefault(piece.view.storage_span, piece.tensor.untyped_storage())
        for (start, stop), storage in sorted(storages.items(), key=lambda item: item[0]):
            first, last = max(start, covered), min(stop, self.stop)
            if first < last:
                yield first, bytes_of(storage, first - start, last - start)
                covered = last

    def _numbers(self, cast: Cast) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...], Unit]]:
        """The numbers to convert: offset in bytes, sizes and strides in units, and the unit."""
        units = {cast.unit(piece.tensor.dtype) for piece in self.pieces}
        if len(units) == 1:
            (unit,) = units
            itemsize = unit[0].itemsize
            starts = [piece.view.address for piece in self.pieces]
            if all((address - self.start) % itemsize == 0 for address in (self.stop, *starts)):
                yield 0, ((self.stop - self.start) // itemsize,), (1,), unit
                return
        for piece in self.pieces:
            unit = cast.unit(piece.tensor.dtype)
            itemsize = unit[0].itemsize
            layout = piece.view.layout()
            if layout is None:
                continue
            if layout.is_nested:
                dims = layout.dims if layout.dims[0][0] == 1 else ((1, 1), *layout.dims)
                sizes = (dims[0][1] // itemsize, *[count for _, count in dims[1:]])
                strides = (1, *[stride // itemsize for stride, _ in dims[1:]])
                yield layout.start - self.start, sizes, strides, unit
            else:
                for first, past in footprint(piece.view).runs().tolist():
                    yield first - self.start, ((past - first) // itemsize,), (1,), unit


def spans_of(group: Group, pack: Pack, cast: Cast | None = None) -> list[ByteSpan]:
    """Intervals that a copy of a group needs, ascending: one, unless `pack` leaves out gaps.

    With ``pack="close"``, spans that touch stay together, because their pieces may move closer
    together. An empty piece joins the span that holds its address, or gets an empty span.
    """
    bounded: list[tuple[int, int, Piece]] = []
    empty: list[Piece] = []
    touching = int(pack == "close")
    for piece in group.pieces:
        if piece.view.span is None:
            empty.append(piece)
        else:
            # Rounded down, this start may lie in the span before; then the two are joined.
            start, stop = piece.view.span
            bounded.append((start - (start - group.start) % _ALIGNMENT, stop + touching, piece))
    spans: list[ByteSpan] = []
    for component in connected_intervals(bounded) if pack or not bounded else [bounded]:
        starts, stops, pieces = zip(*component, strict=True)
        spans.append(ByteSpan(min(starts), max(stops) - touching, list(pieces), cast))
    for piece in empty:
        home = next((span for span in spans if span.holds(piece)), None)
        if home is None:
            spans.append(ByteSpan(piece.view.address, piece.view.address, [piece], cast))
        else:
            home.pieces.append(piece)
    spans.sort(key=lambda span: span.start)
    return spans
