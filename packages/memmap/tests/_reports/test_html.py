from html.parser import HTMLParser

import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import MemoryReport, html_table

VOID = {"br", "img", "hr"}


class Page(HTMLParser):
    """Tags and texts of the cells of some HTML, in which all that is opened must be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.cells and {"td", "th"} & {*self.open}:
            self.cells[-1] += data


@given(st.lists(st.lists(st.text(), min_size=2, max_size=2), max_size=3), st.text())
def test_a_table_shows_its_texts_and_has_no_other_tags(rows: list[list[str]], caption: str) -> None:
    page = Page(html_table(["a", "<b>"], rows, caption, right=["a"]))
    assert page.tags <= {"div", "table", "thead", "tbody", "tr", "th", "td", "span"}
    assert len(page.cells) == 2 + 2 * len(rows) and page.cells[1] == "<b>"
    texts = [text for row in rows for text in row]
    pairs = zip(texts, page.cells[2:], strict=True)
    assert all(cell == text.strip() or cell == text for text, cell in pairs if text.isprintable())


def test_a_report_is_a_table_without_a_value_read() -> None:
    name = "<script>alert(1)</script>"
    weight = torch.empty(1 << 20, device="meta")
    page = Page(MemoryReport({name: weight[:5], "other": weight})._repr_html_())
    assert "script" not in page.tags
    assert any(name in cell for cell in page.cells) and "4.0 MiB" in page.cells
    assert Page(MemoryReport({})._repr_html_()).cells[0] == "allocated"
