"""The tree says what a new operator or proximal map still lacks: laws, a strategy, a size."""

from __future__ import annotations

import importlib
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import linops_solvers
from linops_core import NamedLinop

PACKAGES = Path(__file__).parents[1] / "packages"
# Base classes, and what only compositions make.
BASES = {"Composite", "GridOperator", "NamedLinop", "Normal", "SliceableLinop", "Wrapper"}
# Names under which the tests make them.
MADE_AS = {"Pad": "PadLast", "Tiled": "batch_linop"}
# Laws of these are those of their compositions on several devices or ranks, in tests of their own.
OF_SEVERAL = {"BatchedLinop", "DeviceReplica", "DistributedLinop", "ToDevice"}
# Maps that are made of the map that they get.
DERIVED = {"conjugate", "from_proximal", "from_pyproximal", "separable"}


def operators(*packages: str) -> Iterator[tuple[str, str]]:
    """Yield the package and the name of each public operator that is no base class."""
    for package in packages:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            is_operator = isinstance(value, type) and issubclass(value, NamedLinop)
            if is_operator and name not in BASES:
                yield package.replace("_", "-"), name


def texts(folder: Path, containing: str) -> str:
    """Return all files of Python in a folder that have a word, one after the other."""
    result = (file.read_text("utf-8") for file in sorted(folder.rglob("*.py")))
    return "\n".join(text for text in result if containing in text)


def names(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


ALL = ["linops_core", "linops_imaging", "linops_split", "linops_multigpu", "linops_distributed"]


@pytest.mark.parametrize("package", [*ALL, "linops_solvers", "memmap", "nameddim"])
def test_what_a_readme_lists_is_there(package: str) -> None:
    module = importlib.import_module(package)
    text = (PACKAGES / package.replace("_", "-") / "README.md").read_text("utf-8")
    section = text.partition("## What is here")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*`)[^|]*\|", section, re.M)
    names = re.findall(r"`([A-Za-z_]\w*)`", " ".join(cells))
    assert names and [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize(("package", "name"), [*operators(*ALL)])
def test_an_operator_has_a_class_of_laws(package: str, name: str) -> None:
    tests = texts(PACKAGES / package / "tests", "BaseNamedLinopTests)")
    bodies = re.findall(r"\((?:BaseNamedLinopTests|OfFunctions)\):\n((?:(?:    .*)?\n)+)", tests)
    made = names(MADE_AS.get(name, name), "".join(bodies))
    assert made or name in OF_SEVERAL, "add a subclass of BaseNamedLinopTests that makes it"


@pytest.mark.parametrize(("package", "name"), [*operators("linops_core")])
def test_an_operator_of_the_core_has_a_strategy(package: str, name: str) -> None:
    strategies = texts(PACKAGES / package / "src/linops_core/testing/strategies", "import")
    assert names(name, strategies) or name in MADE_AS, "add a strategy, to LEAVES or trees"


def test_a_proximal_map_has_the_laws_of_its_function() -> None:
    tests = (PACKAGES / "linops-solvers/tests/_proximals/test_values.py").read_text("utf-8")
    known = set(re.findall(r"^    \"(\w+)(?: [\w ]+)?\": ", tests, re.M))
    makers = {
        name
        for name in dir(linops_solvers)
        if getattr(getattr(linops_solvers, name), "__annotations__", {}).get("return")
        == "ProximalMap"
    }
    assert makers - DERIVED <= known, "add it to KNOWN or SETS of test_values.py"


def test_a_public_function_has_an_entry_of_large_sizes() -> None:
    before, path = {*sys.modules}, [*sys.path]
    try:
        result = runpy.run_path(str(PACKAGES.parent / "benchmarks/large/run.py"))["missing"]()
    finally:  # modules there have names like "files"
        sys.path[:] = path
        for name in {*sys.modules} - before:
            if "." not in name and "benchmarks" in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
    assert result == [], "it needs other arguments than most: give them in benchmarks/large"


def test_a_new_operator_would_be_noticed() -> None:
    assert not names("Wavelets", texts(PACKAGES / "linops-imaging" / "tests", "Base"))
    assert ("linops-core", "FFT") in [*operators("linops_core")]
