"""What the pages say of names is so: those listed as here are here, and the others are not."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import torchlinops as tl

ROOT = Path(__file__).parents[1]
MIGRATION = (ROOT / "docs" / "migration.md").read_text("utf-8")
FRONT_PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("packages/*/README.md")]
CODE = re.compile(r"^ *```.*?^ *```|`[^`]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)")
IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*")


def rows(section: str) -> list[list[str]]:
    """Return the cells of the table in a section of the page, without the head."""
    (text,) = re.findall(rf"^## {section}$(.*?)(?=^## |\Z)", MIGRATION, re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names(cell: str) -> list[str]:
    """Return what stands in backticks, as far as it is a name or begins with one."""
    found = [IDENTIFIER.match(text) for text in re.findall("`([^`]*)`", cell)]
    return [match.group() for match in found if match]


def has(path: str) -> bool:
    value: object = tl
    for part in path.split("."):
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


HERE = [
    (module, name)
    for where, listed in rows("The same")
    for module in names(where) or ["methods"]
    for name in names(listed)
]
NOT_HERE = [name for there, _ in rows("Not here") for name in names(there)]


@pytest.mark.parametrize(("module", "name"), HERE)
def test_what_is_listed_as_the_same_is_here(module: str, name: str) -> None:
    if module == "methods":
        owner, _, method = name.partition(".")
        assert hasattr(tl.NamedLinop if owner == "A" else getattr(tl, owner), method)
    else:
        assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", NOT_HERE)
def test_what_is_listed_as_not_here_is_not(name: str) -> None:
    assert not has(name)
    assert not hasattr(tl.NamedLinop, name)


@pytest.mark.parametrize("page", FRONT_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_front_pages_lead_to_files(page: Path) -> None:
    """Sphinx looks at those in docs/; these are read where the repository is."""
    for target in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
        assert "://" in target or (page.parent / target).exists(), target


def test_each_list_is_read() -> None:
    assert len(HERE) >= 70 and ("torchlinops.alg", "power_method") in HERE
    assert len(NOT_HERE) > 30 and "utils.cfftn" in NOT_HERE
