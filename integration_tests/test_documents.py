"""The links of the front pages lead to files; Sphinx looks at those of the pages in docs/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FRONT_PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("packages/*/README.md")]
CODE = re.compile(r"^ *```.*?^ *```|`[^`]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)")


@pytest.mark.parametrize("page", FRONT_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_front_pages_lead_to_files(page: Path) -> None:
    for target in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
        assert "://" in target or (page.parent / target).exists(), target
