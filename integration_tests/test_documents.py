"""The links of the front pages lead to files, and pages show what their blocks print.

Sphinx looks at the links of the pages in docs/.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sybil import Document
from sybil.parsers.markdown import CodeBlockParser

ROOT = Path(__file__).parents[1]
FRONT_PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("packages/*/README.md")]
CODE = re.compile(r"^ *```.*?^ *```|`[^`]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)")


@pytest.mark.parametrize("page", FRONT_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_front_pages_lead_to_files(page: Path) -> None:
    for target in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
        assert "://" in target or (page.parent / target).exists(), target


def test_places_where_a_change_begins_are_there() -> None:
    """The table of CONTRIBUTING.md: what is changed, the package, paths in its sources."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("| Begin at |\n")[2]
    rows = [row.split("|") for row in text.partition("\n\n")[0].splitlines()[1:]]
    assert rows
    for _, _, package, places, _ in rows:
        sources = ROOT / "packages" / package.strip() / "src" / package.strip().replace("-", "_")
        paths = re.findall(r"`([\w/]+(?:/|\.py|\.json))`", places)
        assert paths and all((sources / path).exists() for path in paths), places


PRINTING = "```python\nprint(2 + 3)\nprint('b')\n```\n"
SILENT = "```python\nx = 5\n```\n"


def run(text: str, folder: Path, config: pytest.Config) -> None:
    """Run the blocks of a page as the root conftest does."""
    conftest = config.pluginmanager.get_plugin(str(ROOT / "conftest.py"))
    assert conftest is not None
    page = folder / "page.md"
    page.write_text(text, "utf-8")
    parser = CodeBlockParser("python", conftest.ShowingEvaluator())
    for example in Document.parse(str(page), parser).examples():
        example.evaluate()


@pytest.mark.parametrize(
    "text",
    [
        PRINTING + "\n```text\n5\nb\n```\n",
        PRINTING + "```text\n...\nb\n```\n",
        SILENT + "\nThe file is\n\n```text\n5\n```\n",
        SILENT,
    ],
)
def test_a_page_that_shows_what_it_prints(
    text: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    run(text, tmp_path, pytestconfig)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (PRINTING, "nothing"),
        (PRINTING + "\n```text\n5\nc\n```\n", "5\nc"),
        (PRINTING + "\n```text\n5\n```\n", "5"),
        (PRINTING + "\nIt prints\n\n```text\n5\nb\n```\n", "nothing"),
        (PRINTING + "\n```python\nx = 5\n```\n\n```text\n5\nb\n```\n", "nothing"),
        (SILENT + "\n```text\n5\n```\n", "5"),
    ],
)
def test_a_page_that_does_not_is_seen(
    text: str, shown: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    with pytest.raises(AssertionError, match=rf"(?s)shown below it.*the page shows\n{shown}\n?$"):
        run(text, tmp_path, pytestconfig)
