"""Map of storages as a picture: where in its storage each tensor lies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

import numpy as np

from ._footprint import Footprint
from ._layout import Layout
from ._report_numbers import StorageReport
from ._report_table import human, printable
from ._runs import Runs, merge

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
    """Map of storages in SVG.

    Parameters
    ----------
    storages : sequence of StorageReport
        In the order in which they are to be drawn, each at its own scale.

    Returns
    -------
    str
        For each storage a bar with what is touched and shared, and below it a row for each
        tensor: the bytes that it touches, the names at the left, the bytes at the right. What is
        smaller than a pixel is drawn a pixel wide.
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
        layouts = [layout for layout in storage.layouts if layout is not None]
        self.text(_MARGIN, "storage", "dim")
        self.columns("free", np.array([[0, _WIDTH]] if numbers.allocated else []).reshape(-1, 2))
        self.columns("touched", scale.columns(layouts))
        self.columns("shared", scale.columns(_layouts(storage.shared)))
        self.top += _ROW
        for tensor in storage.tensors:
            layout = tensor.entry.view.layout()
            own = [] if layout is None else [layout]
            self.text(_MARGIN, _label(tensor.entry.names), "")
            self.columns("span", scale.columns([_solid(part) for part in own]))
            self.columns("touched", scale.columns(own))
            if tensor.shared and layout is not None:
                both = Footprint(storage.shared.space, [layout]) & storage.shared
                self.columns("shared", scale.columns(_layouts(both)))
            self.text(self.left + _WIDTH + 8, human(tensor.touched), "dim")
            self.top += _ROW
        self.top += _GAP

    def columns(self, style: str, columns: Runs) -> None:
        """Draw the same bar over some columns of pixels, as one path."""
        if len(columns):
            bars = "".join(
                f"M{self.left + low} {self.top}h{high - low}v{_BAR}h{low - high}z"
                for low, high in columns.tolist()
            )
            self.lines.append(f'<path class="{style}" d="{bars}"/>')

    def text(self, x: float, text: str, style: str) -> None:
        words = escape(printable(text))
        self.lines.append(f'<text class="{style}" x="{x}" y="{self.top + _BAR - 3}">{words}</text>')


class _Scale:
    """From addresses in a storage to columns of pixels."""

    def __init__(self, start: int, nbytes: int) -> None:
        self.start = start
        self.nbytes = nbytes

    def columns(self, layouts: Iterable[Layout]) -> Runs:
        """Columns that have a byte of one of the layouts in them."""
        parts = [self._columns(layout) for layout in layouts]
        return merge(np.concatenate(parts)) if parts else np.empty((0, 2), np.int64)

    def _columns(self, layout: Layout) -> Runs:
        # Steps of at most a column leave no column between them free, however many they are: only
        # larger ones, of which few fit into the storage, have to be followed one by one.
        pixel = self.nbytes // _WIDTH
        reach = 1
        starts = np.zeros(1, np.int64)
        for stride, count in layout.dims:
            if stride <= max(pixel, reach):
                reach += stride * (count - 1)
            else:
                moves = stride * np.arange(count, dtype=np.int64)
                starts = np.unique((starts[:, None] + moves).ravel())
        first = (layout.start - self.start) + starts
        low = first * _WIDTH // self.nbytes
        high = -((first + reach) * -_WIDTH // self.nbytes)
        return np.stack([low, high], axis=1)


def _layouts(part: Footprint) -> list[Layout]:
    return [Layout(low, high, ((1, high - low),)) for low, high in part.runs().tolist()]


def _solid(layout: Layout) -> Layout:
    return Layout(layout.start, layout.stop, ((1, layout.stop - layout.start),))


def _title(storage: StorageReport) -> str:
    return f"{human(storage.stop - storage.start)} on {printable(storage.device)}"


def _label(names: Sequence[str]) -> str:
    text = printable(" = ".join(names))
    return text if len(text) <= _MAX_NAME else text[: _MAX_NAME - 3] + "..."
