"""The map of a storage: pixels against bytes."""

import re
import xml.etree.ElementTree as ElementTree

import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import MemoryReport, View
from memmap._reports._picture import _WIDTH
from memmap.testing import touched_bytes, views

NAMESPACE = "{http://www.w3.org/2000/svg}"


def rows_of(svg: str) -> list[tuple[str, dict[str, set[int]]]]:
    """Text at the left of each row, and the columns of pixels of each class in the row."""
    root = ElementTree.fromstring(svg)
    texts = [t for t in root.iter(f"{NAMESPACE}text") if t.attrib["x"] == "16"]
    paths = list(root.iter(f"{NAMESPACE}path"))
    results: list[list[tuple[str, int, int, int]]] = []
    for path in paths:
        bars = re.findall(r"M(\d+) (\d+)h(\d+)v14h(-\d+)z", path.attrib["d"])
        assert "".join("M{} {}h{}v14h{}z".format(*bar) for bar in bars) == path.attrib["d"]
        assert all(int(width) == -int(back) > 0 for _, _, width, back in bars)
        results.append([(path.attrib["class"], int(x), int(y), int(w)) for x, y, w, _ in bars])
    left = min((x for part in results for _, x, _, _ in part), default=0)
    rows = []
    for text in texts:
        top = int(text.attrib["y"]) - 11
        columns: dict[str, set[int]] = {}
        for style, x, y, width in (bar for part in results for bar in part):
            if y == top:
                columns.setdefault(style, set()).update(range(x - left, x - left + width))
        rows.append((text.text or "", columns))
    return rows


def columns_of(touched: set[int], nbytes: int) -> set[int]:
    """Columns of pixels that a byte of the set lies in, at least in part."""
    return {
        column
        for byte in touched
        for column in range(byte * _WIDTH // nbytes, -((byte + 1) * -_WIDTH // nbytes))
    }


@given(st.lists(views(), min_size=1, max_size=4))
def test_every_byte_has_its_pixels_and_no_other(listed: list[View]) -> None:
    touched = [set(touched_bytes(view)) for view in listed]
    rows = rows_of(MemoryReport({f"v{i}": view for i, view in enumerate(listed)}).to_svg())
    by_name = dict(rows[2:])
    assert len(by_name) == len(listed)
    (_, whole) = rows[1]
    assert whole["free"] == set(range(_WIDTH))
    assert whole.get("touched", set()) == columns_of(set().union(*touched), 64)
    for index, own in enumerate(touched):
        shared = {b for b in own if sum(b in other for other in touched) > 1}
        drawn = by_name[f"v{index}"]
        assert drawn.get("touched", set()) == columns_of(own, 64)
        assert drawn.get("shared", set()) == columns_of(shared, 64)


@given(views(nbytes=30_000, itemsizes=(1, 4)), st.integers(1, 40), st.integers(2, 12))
def test_bytes_smaller_than_pixels_are_drawn_where_they_are(
    view: View, stride: int, count: int
) -> None:
    """Many dimensions in a large storage: some steps are larger than a pixel, some smaller."""
    inner = View(
        "RAM", 0, 30_000 + 40 * 12, view.offset, (*view.sizes, count), (*view.strides, stride),
        view.itemsize,
    )  # fmt: skip
    rows = dict(rows_of(MemoryReport({"v": inner}).to_svg()))
    exact = columns_of(set(touched_bytes(inner)), inner.storage_nbytes)
    drawn = rows["v"].get("touched", set())
    assert exact <= drawn
    pixel = inner.storage_nbytes / _WIDTH
    assert all(any(abs(column - other) <= 1 for other in exact) for column in drawn), (
        f"nothing is drawn a pixel of {pixel} bytes away from a touched byte"
    )


def test_a_storage_of_an_exbibyte_is_drawn_where_it_is() -> None:
    nbytes = 1 << 60
    halves = [View("RAM", 0, nbytes, start, (nbytes // 2,), (1,)) for start in (0, nbytes // 4)]
    rows = dict(rows_of(MemoryReport(dict(zip("ab", halves, strict=True))).to_svg()))
    assert rows["a"]["touched"] == set(range(_WIDTH // 2))
    assert rows["b"]["shared"] == set(range(_WIDTH // 4, _WIDTH // 2))


def test_names_are_escaped_and_shortened() -> None:
    svg = MemoryReport({"<script>&\x00" + "x" * 80: torch.zeros(1)}).to_svg()
    (_, _, (name, _)) = rows_of(svg)
    assert name.startswith(r"<script>&\x00") and name.endswith("...") and len(name) == 44


def test_a_storage_without_bytes_is_drawn_without_bars() -> None:
    rows = rows_of(MemoryReport({"nothing": torch.zeros(0)}).to_svg())
    assert [text for text, _ in rows] == ["0 B on cpu", "storage", "nothing"]
    assert all(columns == {} for _, columns in rows)


def test_a_picture_of_nothing_is_a_picture() -> None:
    assert rows_of(MemoryReport({}).to_svg()) == []
