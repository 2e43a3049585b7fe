"""Packages whose names are imported when they are used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

LAZY_MODULES: list[tuple[str, str]] = []
"""The packages with such names, and the modules that have them."""


def loaded_when_used(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a package.

    ``homes`` has the names that each module gives to the package, with spaces between them. The
    last part of the name of a module is that module.
    """
    LAZY_MODULES.extend([(package, home) for home in homes])
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = home_of[name]
        value = import_module(home, package)
        if home.rpartition(".")[2] != name:
            value = getattr(value, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return get, names
