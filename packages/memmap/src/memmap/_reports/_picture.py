"""A picture of storages that shows where each tensor lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias
from xml.sax.saxutils import escape

import numpy as np

from .._bytes_text import bytes_text
from .._views._layout import Layout
from .._views._runs import Runs, intersect, layout_runs, merge, union_runs
from ._numbers import StorageReport
from ._table import printable

Columns: TypeAlias = list[tuple[int, int]]

# Lengths in pixels.
_WIDTH = 720  # of the bar of a storage
_ROW = 22
_BAR = 14
_GAP = 26
_MARGIN = 16
_CHARACTER = 7.3  # at most, at a font size of 12 pixels
_MAX_NAME = 44  # characters

_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#24292f}"
    ".title{font-weight:bold}.dim{fill:#6e7781}.free{fill:#e4e7eb}.span{fill:#cfe3f7}"
    ".touched{fill:#3b82c4}.shared{fill:#e8833a}"
)
_LEGEND = (("touched", "touched"), ("shared", "touched under several names"),
           ("span", "between the first byte and the last"), ("free", "not touched"))  # fmt: skip


def picture(storages: Sequence[StorageReport]) -> str:
    """Storages in SVG, each at its own scale. Parts smaller than a pixel take one pixel."""
    texts = [_title(storage) for storage in storages]
    texts += [_label(tensor.entry.names) for part in storages for tensor in part.tensors]
    drawing = _Drawing(_MARGIN + int(_CHARACTER * max([12, *map(len, texts)])) + 12)
    drawing.legend()
    for storage in storages:
        drawing.storage(storage)
    width, height = drawing.left + _WIDTH + 90 + _MARGIN, drawing.top
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f"<style>{_STYLE}</style>",
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *drawing.lines,
            "</svg>\n",
        ]
    )


class _Drawing:
    """The lines of the picture so far, and the place of the next row."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.top = _MARGIN
        self.lines: list[str] = []

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
            f"touched {bytes_text(numbers.touched)}, shared {bytes_text(numbers.shared)}, "
            f"wasted {bytes_text(numbers.wasted)}"
        )
        self.text(_MARGIN, _title(storage), "title")
        self.text(self.left, note, "dim")
        self.top += _ROW
        nbytes = numbers.allocated
        coarse = {layout: _coarse(layout, nbytes // _WIDTH) for layout in storage.layouts}
        shared = union_runs(storage.shared)
        self.text(_MARGIN, "storage", "dim")
        self.bars("free", [(0, _WIDTH)] if nbytes else [])
        self.bars("touched", _columns(union_runs(coarse.values()), storage.start, nbytes))
        self.bars("shared", _columns(shared, storage.start, nbytes))
        self.top += _ROW
        for tensor in storage.tensors:
            layout = tensor.entry.layout
            self.text(_MARGIN, _label(tensor.entry.names))
            self.text(self.left + _WIDTH + 8, bytes_text(tensor.touched), "dim")
            if layout is not None:
                span = np.array([[layout.start, layout.stop]])
                touched = _columns(layout_runs(coarse[layout]), storage.start, nbytes)
                self.bars("span", _columns(span, storage.start, nbytes))
                self.bars("touched", touched)
                if tensor.shared == tensor.touched:
                    self.bars("shared", touched)
                elif tensor.shared:
                    common = intersect(layout_runs(layout), shared)
                    self.bars("shared", _columns(common, storage.start, nbytes))
            self.top += _ROW
        self.top += _GAP

    def bars(self, style: str, columns: Columns) -> None:
        """Draw one bar for each range of columns, as one path."""
        if columns:
            bars = "".join(
                f"M{self.left + low} {self.top}h{high - low}v{_BAR}h{low - high}z"
                for low, high in columns
            )
            self.lines.append(f'<path class="{style}" d="{bars}"/>')

    def text(self, x: float, text: str, style: str = "") -> None:
        words = escape(printable(text))
        self.lines.append(f'<text class="{style}" x="{x}" y="{self.top + _BAR - 3}">{words}</text>')


def _coarse(layout: Layout, pixel: int) -> Layout:
    """A layout that touches the same columns of pixels, with few runs.

    Steps of at most a pixel touch every column in between. There are few larger steps.
    """
    reach, outer = 1, []
    for stride, count in layout.dims:
        if stride <= max(pixel, reach):
            reach += stride * (count - 1)
        else:
            outer.append((stride, count))
    return Layout(layout.start, layout.stop, ((1, reach), *outer))


def _columns(runs: Runs, start: int, nbytes: int) -> Columns:
    """Columns of pixels that contain a byte of some runs of a storage."""
    columns = [
        (low * _WIDTH // nbytes, -(high * -_WIDTH // nbytes))
        for low, high in (runs - start).tolist()  # Python integers: int64 would end at 12 PiB
    ]
    return [(low, high) for low, high in merge(np.array(columns).reshape(-1, 2)).tolist()]


def _title(storage: StorageReport) -> str:
    return f"{bytes_text(storage.numbers.allocated)} on {printable(storage.device)}"


def _label(names: Sequence[str]) -> str:
    text = printable(" = ".join(names))
    return text if len(text) <= _MAX_NAME else text[: _MAX_NAME - 3] + "..."
