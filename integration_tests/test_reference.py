"""The reference has every public name, and no other."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
PACKAGES = [
    "nameddim",
    "memmap",
    "linops_core",
    "linops_solvers",
    "linops_imaging",
    "linops_split",
    "linops_multigpu",
    "linops_distributed",
]
IN_MRI = ("linops_imaging.coil_maps", "linops_imaging.epi")
"""Modules whose names are listed as those of ``linops_imaging.mri``."""
GROUP = re.compile(r"^\.\. public:: (\S+)\n(?:   :.*\n)*\n((?:   .+\n)+)", re.MULTILINE)


def public_modules() -> list[str]:
    """Return the modules that users import from."""
    results = list(PACKAGES)
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        results += [module.name for module in pkgutil.walk_packages(path, f"{package}.")]
    results = [
        name for name in results if not any(part.startswith("_") for part in name.split("."))
    ]
    return [*results, "torchlinops.recon"]


def made_in(module: ModuleType) -> set[str]:
    """Return the public names of ``module`` that are no modules, settings, or others' names."""
    package = module.__name__.split(".")[0]
    names = set(getattr(module, "__all__", ()))
    if module.__name__ != package:  # what the package has too is listed there
        names -= set(importlib.import_module(package).__all__)
    if module.__name__ in IN_MRI:
        names -= set(importlib.import_module("linops_imaging.mri").__all__)
    values = {name: getattr(module, name) for name in names}
    return {
        name
        for name, value in values.items()
        if not isinstance(value, ModuleType | bool)
        and not (isinstance(value, type | FunctionType) and home(value) != package)
    }


def home(value: type | FunctionType) -> str:
    """Return the package in which a class or a function was made."""
    return value.__module__.split(".")[0]


def listed_for(module: str) -> list[str]:
    """Return the names of ``module`` that the pages list."""
    pages = "".join(page.read_text("utf-8") for page in REFERENCE.glob("*.md"))
    groups = [names.split() for result, names in GROUP.findall(pages) if result == module]
    return [name for group in groups for name in group]


@pytest.mark.parametrize("module", public_modules())
def test_every_public_name_is_listed_once(module: str) -> None:
    assert sorted(listed_for(module)) == sorted(made_in(importlib.import_module(module)))


def test_new_arguments_have_the_usual_names() -> None:
    """As CONTRIBUTING.md says under Words; the others are older."""
    arguments = {
        (argument.name, "Sequence" in str(argument.annotation))
        for package in map(importlib.import_module, PACKAGES)
        for value in (getattr(package, name) for name in package.__all__)
        if isinstance(value, type | FunctionType)
        and BaseException not in getattr(value, "__mro__", ())
        for argument in inspect.signature(value).parameters.values()
    }
    numbers = {name for name, _ in arguments if name.startswith(("num_", "max_num_"))}
    assert numbers == {"num_workers", "num_samples", "max_num_iters"}
    sizes = {name for name, is_sequence in arguments if is_sequence and name.endswith("_size")}
    older = {"im_size", "crop_im_size", "pad_im_size", "input_size", "block_size", "kernel_size"}
    assert sizes - {"grid_size"} == older


def test_the_lists_are_read() -> None:
    assert "FFT" in listed_for("linops_core") and "simulated" in listed_for(
        "linops_multigpu.testing"
    )


@pytest.mark.parametrize("module", public_modules())
def test_a_traceback_shows_the_public_name_of_an_exception(module: str) -> None:
    values = vars(importlib.import_module(module))
    for name in getattr(importlib.import_module(module), "__all__", ()):
        value = values[name]
        if isinstance(value, type) and issubclass(value, Exception):
            assert getattr(importlib.import_module(value.__module__), name) is value
            assert not any(part.startswith("_") for part in value.__module__.split("."))
