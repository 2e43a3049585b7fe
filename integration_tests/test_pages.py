"""The checker of the documentation sees each fault that it is there for, and no other."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

EXTENSIONS = Path(__file__).parents[1] / "docs" / "_extensions"
GOOD = '<h1 id="top">A</h1><h2>B</h2><a href="b.html#there">b</a><img src="c.png" alt="c">'


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(EXTENSIONS)
    yield importlib.import_module("pages")
    sys.modules.pop("pages", None)


def site(folder: Path, page: str) -> Path:
    """Write a site of two pages and a picture."""
    (folder / "a.html").write_text(page, "utf-8")
    (folder / "b.html").write_text('<h1>B</h1><p id="there">', "utf-8")
    (folder / "c.png").touch()
    return folder


def test_pages_without_a_fault(tmp_path: Path, pages: ModuleType) -> None:
    outside = (
        '<a href="https://pytorch.org">there</a><a href="mailto:a@b.c">m</a><a href="#top">t</a>'
    )
    inline = '<img alt="" src="data:image/png;base64,AA==">'
    names = "<p>x_n, __init__, _repr_html_, torch._dynamo, os._exit</p><script>var _a</script>"
    maths = '<span class="math">sum_n <b>x</b> _n</span>'
    assert pages.faults(site(tmp_path, GOOD + outside + inline + names + maths)) == []


def test_sources_may_show_private_names(tmp_path: Path, pages: ModuleType) -> None:
    folder = tmp_path / "_modules"
    folder.mkdir()
    assert pages.faults(site(folder, GOOD + "<p>_base")) == []


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ("<h1>C</h1>", "one heading h1, got 2"),
        ("<h4>C</h4>", "skip a level, got h4 after h2"),
        ('<img src="c.png">', "an alternative text, got none for c.png"),
        ('<script src="https://cdn.org/a.js"></script>', "no network, got https://cdn.org/a.js"),
        ('<img alt="" src="//cdn.org/a.png">', "no network, got //cdn.org/a.png"),
        ('<link href="http://cdn.org/a.css">', "no network, got http://cdn.org/a.css"),
        ('<script src="gone.js"></script>', "lead to a file, got gone.js"),
        ('<a href="gone.html">', "lead to a file, got gone.html"),
        ('<a href="b.html#gone">', "an anchor that is there, got b.html#gone"),
        ('<a href="#gone">', "an anchor that is there, got #gone"),
        ("<p>See <code>linops_core._base</code>", "not show private names, got _base"),
        ("<p>See <code><span>a.</span><span>_b</span></code>", "not show private names, got _b"),
    ],
)
def test_a_fault_is_seen(tmp_path: Path, pages: ModuleType, planted: str, fault: str) -> None:
    (result,) = pages.faults(site(tmp_path, GOOD + planted))
    assert result.startswith("a.html: ") and result.endswith(fault)


def test_a_page_without_a_heading(tmp_path: Path, pages: ModuleType) -> None:
    assert pages.faults(site(tmp_path, "<p>")) == ["a.html: a page must have one heading h1, got 0"]


def test_words_that_the_search_does_not_find(tmp_path: Path, pages: ModuleType) -> None:
    index = tmp_path / "searchindex.js"
    index.write_text('Search.setIndex({"terms":{"radon":1,"tv":[2]},"titleterms":{"nufft":[0]}})')
    assert pages.not_found(index) == ["wavelet"]
