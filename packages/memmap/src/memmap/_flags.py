"""One check and one wording for the flags that users give."""

from __future__ import annotations

import numpy as np


def check_flags(owner: str, **flags: object) -> None:
    """Raise a `TypeError` if a flag is not True or False, of Python or NumPy."""
    for name, flag in flags.items():
        if not isinstance(flag, bool | np.bool_):
            raise TypeError(f"{owner}: {name} must be True or False, got {flag!r}")
