"""A package imports what it declares and nothing else, so these are enough to install it.

A bare environment shows the same, but not for what happens to be installed along: torch brings
sympy, networkx and jinja2.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
ORDER = [
    "nameddim",
    "memmap",
    "linops_core",
    "linops_solvers",
    "linops_imaging",
    "linops_split",
    "linops_multigpu",
    "linops_distributed",
    "torchlinops",
]


IMPORTED_AS = {
    "astra-toolbox": "astra",
    "mri-nufft": "mrinufft",
    "pywavelets": "pywt",
    "scikit-image": "skimage",
}


def import_name(distribution: str) -> str:
    return IMPORTED_AS.get(distribution, distribution.replace("-", "_"))


def imports(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yield the top-level name of each absolute import, and whether it runs at import time."""
    deferred = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) or is_type_checking(outer)
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            names = [node.module]
        for name in names:
            yield name.split(".")[0], id(node) not in deferred


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def undeclared(tree: ast.Module, needed: set[str], optional: set[str]) -> set[str]:
    """Return the names that a module imports without a right to."""
    return {
        name
        for name, at_import in imports(tree)
        if name not in needed | set(sys.stdlib_module_names) and (at_import or name not in optional)
    }


def declared(package: str) -> tuple[set[str], set[str]]:
    """Return the import names of what ``package`` needs, and of what its extras add."""
    text = (ROOT / "packages" / package / "pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    extras = project.get("optional-dependencies", {}).values()
    optional = set().union(*map(distributions, extras))
    return distributions(project["dependencies"]), optional


def distributions(requirements: list[str]) -> set[str]:
    return {import_name(re.split(r"[\[<>=!~; ]", line)[0]) for line in requirements}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_it_declares(package: str) -> None:
    needed, optional = declared(package)
    needed.add(import_name(package))
    sources = sorted((ROOT / "packages" / package / "src").rglob("*.py"))
    assert sources
    for source in sources:
        in_testing = "testing" in source.relative_to(ROOT).with_suffix("").parts
        allowed = needed | {"hypothesis"} if in_testing else needed
        result = undeclared(ast.parse(source.read_text("utf-8")), allowed, optional)
        assert not result, f"{source.relative_to(ROOT)} imports {sorted(result)}, not declared"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_depends_only_on_those_before_it(package: str) -> None:
    needed, _ = declared(package)
    before = set(ORDER[: ORDER.index(import_name(package))])
    assert needed & set(ORDER) <= before


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import torch.nn", set()),
        ("from os import path\nfrom . import sympy\nfrom .sympy import x", set()),
        ("import sympy.core as s", {"sympy"}),
        ("from scipy.sparse import linalg", {"scipy"}),
        ("def f():\n    import scipy", set()),
        ("def f():\n    import sympy", {"sympy"}),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import scipy", set()),
        ("try:\n    import scipy\nexcept ImportError:\n    pass", {"scipy"}),
    ],
)
def test_the_check_sees_what_is_imported(code: str, found: set[str]) -> None:
    assert undeclared(ast.parse(code), {"torch"}, {"scipy"}) == found
