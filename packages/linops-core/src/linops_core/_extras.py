"""Optional libraries."""

from __future__ import annotations

import importlib
from typing import Any


def optional_module(
    module: str, owner: str, extra: str | None = None, package: str = "linops-core"
) -> Any:
    """Return a module of an optional library; the error says how to install it.

    By default, the extra of the package has the name of the library.
    """
    library = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise ImportError(
            f"{owner}: {library} must be installed: pip install '{package}[{extra or library}]'"
        ) from error
