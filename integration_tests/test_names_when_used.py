"""Packages whose names are imported when they are used: type checkers and programs see the same."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from linops_imaging import NUFFT

PACKAGES = ["memmap", "linops_core", "linops_solvers", "linops_imaging"]
ALONE = """
import sys, torch
import linops_solvers
A = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
linops_solvers.conjugate_gradients(lambda x: A @ x, torch.ones(2))
loaded = [name for name in sys.modules if name.startswith("linops_") and "._" in name]
print(*(name for name in loaded if "._operators" in name or "._splitting" in name))
"""


def for_type_checkers(package: str) -> dict[str, str]:
    """Return the module of each name that the package imports for type checkers alone."""
    path = importlib.import_module(package).__file__
    assert path is not None
    tree = ast.parse(Path(path).read_text("utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    # Type checkers would hide each name that a declared `__all__` does not list.
    assert not any(isinstance(node, ast.AnnAssign) for node in block.body)
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {
        alias.name: f"{package}.{node.module or alias.name}"
        for node in imports
        for alias in node.names
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_is_that_of_the_module_that_type_checkers_know(package: str) -> None:
    module, homes = importlib.import_module(package), for_type_checkers(package)
    assert homes.keys() == set(module.__all__) - {"config"}
    for name, home in homes.items():
        result = importlib.import_module(home)
        assert getattr(module, name) is (
            result if name in home.split(".") else getattr(result, name)
        )
        assert name in dir(module)
    with pytest.raises(AttributeError, match=rf"module '{package}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_a_solver_of_a_plain_function_loads_no_operators() -> None:
    run = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert run.stdout == "\n", run.stdout + run.stderr


def test_an_import_of_everything_loads_few_modules() -> None:
    code = (
        "import sys, torch, torchlinops\n"
        "print(sum(name.startswith(('linops_', 'memmap', 'nameddim', 'torchlinops'))"
        " for name in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert int(run.stdout) <= 110, run.stdout + run.stderr


@pytest.mark.parametrize("package", ["linops_imaging", "torchlinops"])
def test_files_are_loaded_by_a_process_that_has_used_no_operator(
    package: str, tmp_path: Path
) -> None:
    torch.save(NUFFT(torch.rand(9, 2), (8, 8)), tmp_path / "A.pt")
    code = f"""
import {package}, torch
from linops_core import safe_globals
with torch.serialization.safe_globals(safe_globals()):
    print(torch.load(r"{tmp_path / "A.pt"}", weights_only=True).ishape[1:])
"""
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert result.stdout == "('Nx', 'Ny')\n"
