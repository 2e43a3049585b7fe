"""Libraries that need not be installed."""

from __future__ import annotations

import importlib
from typing import Any


def needed(module: str, who: str, extra: str) -> Any:
    """Return the module of another library; the error says what to install if it is not there."""
    library = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise ImportError(
            f"{who}: {library} must be installed, as by pip install 'linops-imaging[{extra}]'"
        ) from error
