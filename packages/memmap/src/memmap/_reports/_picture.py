"""Map of storages as a picture: where in its storage each tensor lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar
from xml.sax.saxutils import escape

import numpy as np

from .._views._layout import Layout, run_layout
from .._views._runs import Runs, intersect, layout_runs, merge, union_runs
from ._numbers import StorageReport
from ._table import human, printable

Columns: TypeAlias = list[tuple[int, int]]
Place = TypeVar("Place", int, Runs)

# Lengths in pixels.
_WIDTH = 720  # of a storage's bar
_ROW = 22
_BAR = 14
_GAP = 26
_MARGIN = 16
_CHARACTER = 7.3  # of the font at 12 pixels, at most
_MAX_NAME = 44  # characters

_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#24292f}"
    ".title{font-weight:bold}.dim{fill:#6e7781}.free{fill:#e4e7eb}.span{fill:#cfe3f7}"
    ".touched{fill:#3b82c4}.shared{fill:#e8833a}"
)
_LEGEND = (("touched", "touched"), ("shared", "touched under several names"),
           ("span", "between the first byte and the last"), ("free", "not touched"))  # fmt: skip


def picture(storages: Sequence[StorageReport]) -> str:
    """Map of storages in SVG, each at its own scale.

    For each storage a bar with what is touched and shared, and below it a row for each tensor. What
    is smaller than a pixel is drawn a pixel wide.
    """
    texts = [_title(storage) for storage in storages]
    texts += [_label(tensor.entry.names) for part in storages for tensor in part.tensors]
    left = _MARGIN + int(_CHARACTER * max([12, *map(len, texts)])) + 12
    drawing = _Drawing(left)
    drawing.legend()
    for storage in storages:
        drawing.storage(storage)
    return drawing.finish()


class _Drawing:
    """Lines of the picture so far, and where the next row goes."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.top = _MARGIN
        self.width = left + _WIDTH + 90 + _MARGIN
        self.lines: list[str] = []

    def finish(self) -> str:
        size = f'width="{self.width}" height="{self.top}" viewBox="0 0 {self.width} {self.top}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
                f"<style>{_STYLE}</style>",
                f'<rect width="{self.width}" height="{self.top}" fill="#fff"/>',
                *self.lines,
                "</svg>\n",
            ]
        )

    def legend(self) -> None:
        x = self.left
        for style, text in _LEGEND:
            self.lines.append(
                f'<rect class="{style}" x="{x}" y="{self.top}" width="{_BAR}" height="{_BAR}"/>'
            )
            self.text(x + _BAR + 6, text, "dim")
            x += _BAR + 24 + int(_CHARACTER * len(text))
        self.top += _ROW + _GAP // 2

    def storage(self, storage: StorageReport) -> None:
        numbers = storage.numbers
        note = (
            f"touched {human(numbers.touched)}, shared {human(numbers.shared)}, "
            f"wasted {human(numbers.wasted)}"
        )
        self.text(_MARGIN, _title(storage), "title")
        self.text(self.left, note, "dim")
        self.top += _ROW
        scale = _Scale(storage.start, max(numbers.allocated, 1))
        self.text(_MARGIN, "storage", "dim")
        self.columns("free", [(0, _WIDTH)] if numbers.allocated else [])
        self.columns("touched", scale.columns(storage.layouts))
        self.columns("shared", scale.columns(storage.shared))
        self.top += _ROW
        shared_runs = union_runs(storage.shared)
        for tensor in storage.tensors:
            layout = tensor.entry.layout
            self.text(_MARGIN, _label(tensor.entry.names))
            self.text(self.left + _WIDTH + 8, human(tensor.touched), "dim")
            if layout is not None:
                touched = scale.columns([layout])
                self.columns("span", scale.columns([run_layout(layout.start, layout.stop)]))
                self.columns("touched", touched)
                if tensor.shared == tensor.touched:
                    self.columns("shared", touched)
                elif tensor.shared:
                    runs = intersect(layout_runs(layout), shared_runs)
                    self.columns("shared", scale.columns_of_runs(runs))
            self.top += _ROW
        self.top += _GAP

    def columns(self, style: str, columns: Columns) -> None:
        """Draw the same bar over some columns of pixels, as one path."""
        if columns:
            bars = "".join(
                f"M{self.left + low} {self.top}h{high - low}v{_BAR}h{low - high}z"
                for low, high in columns
            )
            self.lines.append(f'<path class="{style}" d="{bars}"/>')

    def text(self, x: float, text: str, style: str = "") -> None:
        words = escape(printable(text))
        self.lines.append(f'<text class="{style}" x="{x}" y="{self.top + _BAR - 3}">{words}</text>')


class _Scale:
    """From addresses in a storage to columns of pixels."""

    def __init__(self, start: int, nbytes: int) -> None:
        self.start = start
        self.nbytes = nbytes

    def columns(self, layouts: Sequence[Layout]) -> Columns:
        """Columns that have a byte of one of the layouts in them."""
        parts = [part for layout in layouts for part in self._columns(layout)]
        return parts if len(parts) < 2 else _merged(np.array(parts))

    def columns_of_runs(self, runs: Runs) -> Columns:
        """Columns that have a byte of one of the runs in them."""
        low, high = (runs - self.start).T
        return _merged(np.stack(self._pixels(low, high), axis=1))

    def _columns(self, layout: Layout) -> Columns:
        # Steps of at most a column leave no column between them free, however many they are: only
        # larger ones, of which few fit into the storage, have to be followed one by one.
        pixel = self.nbytes // _WIDTH
        reach, starts = 1, {layout.start - self.start}
        for stride, count in layout.dims:
            if stride <= max(pixel, reach):
                reach += stride * (count - 1)
            else:
                starts = {start + stride * index for start in starts for index in range(count)}
        return [self._pixels(start, start + reach) for start in starts]

    def _pixels(self, low: Place, high: Place) -> tuple[Place, Place]:
        """First and past-the-last column of intervals of bytes."""
        return low * _WIDTH // self.nbytes, -(high * -_WIDTH // self.nbytes)


def _merged(columns: Runs) -> Columns:
    return [(low, high) for low, high in merge(columns).tolist()]


def _title(storage: StorageReport) -> str:
    return f"{human(storage.stop - storage.start)} on {printable(storage.device)}"


def _label(names: Sequence[str]) -> str:
    text = printable(" = ".join(names))
    return text if len(text) <= _MAX_NAME else text[: _MAX_NAME - 3] + "..."
