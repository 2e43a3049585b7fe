"""Let a warning in a tutorial end the build, as an error does."""

import warnings
from typing import Any

_outside: list[Any] = []


def raise_warnings(gallery: dict[str, Any], script: str, when: str) -> None:
    """Turn warnings into errors before a script, and back after it."""
    if when == "before":
        _outside[:] = warnings.filters
        warnings.simplefilter("error")
    else:
        warnings.filters[:] = _outside
