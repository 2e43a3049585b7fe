"""What docs/migration.md says is so: programs that run in torch-named-linops and in ours.

The programs in the text files here are what a user of torch-named-linops 0.8.3 writes. Below each
line is what it prints; of an error, its class. Where the two libraries differ, ``there:`` is what
torch-named-linops prints, ``here:`` what ours does, and ``Page:`` how the row of the page begins
that says so. ``./nox -s reference`` runs the same tests with torch-named-linops itself.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import math
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import torchlinops as tl

IS_OURS = importlib.util.find_spec("linops_core") is not None
PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text("utf-8")
PUBLIC = (Path(__file__).parent / "public_names.list").read_text("utf-8").split()
PROGRAM = re.compile(r"^# (.+)\n(?:Page: (.+)\n)?((?:(?!# ).*\n)*)", re.MULTILINE)
NUMBER = re.compile(r"[+-]?\d+\.?\d*(?:e[+-]?\d+)?")
IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*")
only_ours = pytest.mark.skipif(not IS_OURS, reason="is about names of ours")


class Program(NamedTuple):
    """What a user writes, and the row of the page that says how the libraries differ in it."""

    title: str
    row: str
    lines: list[doctest.Example]


def programs() -> Iterator[Program]:
    for file in sorted(Path(__file__).parent.glob("*.txt")):
        for title, row, text in PROGRAM.findall(file.read_text("utf-8")):
            yield Program(title, row, doctest.DocTestParser().get_examples(text))


PROGRAMS = list(programs())


def recorded(want: str, library: str) -> str:
    """Return what a line prints in one of the libraries, ``there`` or ``here``."""
    if not want.startswith("there: "):
        return want
    result = re.findall(rf"^{library}: (.*)", want, re.MULTILINE)
    return "" if result == ["(nothing)"] else "\n".join(result)


def printed(line: doctest.Example, names: dict[str, object]) -> str:
    """Return what a line prints, or the class of its error."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        try:
            exec(compile(line.source, "<program>", "single"), names)
        except Exception as error:
            print(type(error).__name__)
    return output.getvalue()


def is_same(one: str, other: str) -> bool:
    """Whether two outputs are the same, up to spaces and the rounding of numbers."""
    one, other = one.replace("<BLANKLINE>", ""), other.replace("<BLANKLINE>", "")
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=False)
    return NUMBER.sub("#", "".join(one.split())) == NUMBER.sub("#", "".join(other.split())) and all(
        math.isclose(float(a), float(b), rel_tol=1e-3, abs_tol=1e-3) for a, b in pairs
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.title for program in PROGRAMS])
def test_each_line_of_a_program_prints_what_is_recorded(program: Program) -> None:
    names: dict[str, object] = {}
    for line in program.lines:
        expected = recorded(line.want, "here" if IS_OURS else "there")
        result = printed(line, names)
        assert is_same(result, expected), f"{line.source}prints\n{result}and not\n{expected}"


def rows(section: str) -> list[list[str]]:
    """Return the cells of the table in a section of the page, without the head."""
    (text,) = re.findall(rf"^## {section}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names(cell: str) -> list[str]:
    """Return what stands in backticks, as far as it is a name or begins with one."""
    results = [IDENTIFIER.match(text) for text in re.findall("`([^`]*)`", cell)]
    return [match.group() for match in results if match]


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
DIFFERENT = [there for there, *_ in rows("What differs, and why")]


@only_ours
@pytest.mark.parametrize(("module", "name"), HERE)
def test_what_is_listed_as_the_same_is_here(module: str, name: str) -> None:
    if module == "methods":
        owner, _, method = name.partition(".")
        assert hasattr(tl.NamedLinop if owner == "A" else getattr(tl, owner), method)
    else:
        assert hasattr(importlib.import_module(module), name)


@only_ours
@pytest.mark.parametrize("name", NOT_HERE)
def test_what_is_listed_as_not_here_is_not(name: str) -> None:
    assert not has(name)
    assert not hasattr(tl.NamedLinop, name)


@pytest.mark.parametrize(("module", "name"), HERE)
def test_what_is_listed_as_the_same_gives_the_same_in_a_program(module: str, name: str) -> None:
    method = name.partition(".")[2]
    called = re.compile(rf"\.{method}\b" if method else rf"\b{name}\b")
    for program in PROGRAMS:
        source = "".join(line.source for line in program.lines)
        # A line that prints something, and the same in both.
        same = any(line.want and not line.want.startswith("there: ") for line in program.lines)
        if called.search(source) and same:
            return
    raise AssertionError(f"no program uses {name} of {module}")


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.title for program in PROGRAMS])
def test_a_program_that_differs_names_the_row_that_says_so(program: Program) -> None:
    differs = any(line.want.startswith("there: ") for line in program.lines)
    results = [there for there in DIFFERENT if program.row and there.startswith(program.row)]
    assert len(results) == (1 if differs else 0), program.row


@pytest.mark.parametrize("there", DIFFERENT)
def test_a_program_shows_what_differs(there: str) -> None:
    assert any(program.row and there.startswith(program.row) for program in PROGRAMS)


def test_a_recorded_difference_is_one() -> None:
    for line in (line for program in PROGRAMS for line in program.lines):
        if line.want.startswith("there: "):
            assert not is_same(recorded(line.want, "there"), recorded(line.want, "here")), line.want


@pytest.mark.parametrize(
    "other", ["tensor([1., 2.1])", "tensor([1.])", "array([1., 2.])", "tensor([-1., 2.])", ""]
)
def test_other_outputs_are_seen(other: str) -> None:
    assert is_same("tensor([1.,  2.])\n", "tensor([1.0000e+00, 2.00001])")
    assert not is_same("tensor([1., 2.])", other)


def public_names() -> set[str]:
    """Return what torch-named-linops exports, by walking over its modules."""
    modules = [info.name for info in pkgutil.walk_packages(tl.__path__, "torchlinops.")]
    result: set[str] = set()
    for name in ["torchlinops", *modules]:
        if any(part.startswith("_") or part in ("tests", "scripts") for part in name.split(".")):
            continue
        module = importlib.import_module(name)
        exported = getattr(module, "__all__", None)
        for attribute in exported or dir(module):
            value = getattr(module, attribute, None)
            home = str(getattr(value, "__module__", ""))
            if not attribute.startswith("_") and not isinstance(value, ModuleType):
                result |= {attribute} if exported or home.startswith("torchlinops") else set()
    return result


@pytest.mark.skipif(IS_OURS, reason="is about names of the reference")
def test_the_list_has_the_names_that_the_reference_exports() -> None:
    assert public_names() == {*PUBLIC}


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_name_is_on_the_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)


def test_everything_is_read() -> None:
    assert len(HERE) >= 70 and ("torchlinops.alg", "power_method") in HERE
    assert len(NOT_HERE) > 30 and "utils.cfftn" in NOT_HERE
    assert len(DIFFERENT) > 50 and len(PROGRAMS) > 200
    headings = "".join(
        file.read_text("utf-8") for file in Path(__file__).parent.glob("*.txt")
    ).count("# ")
    assert headings == len(PROGRAMS) == len({program.title for program in PROGRAMS})
