"""Which line of a program asked for something."""

from __future__ import annotations

import contextlib
import sys
import weakref
from pathlib import Path

import torch

_PLUMBING = (
    str(Path(__file__).parents[1]),
    str(Path(torch.__file__).parent),
    contextlib.__file__,
    weakref.__file__,
    "<string>",
)


def calling_line() -> str:
    """Return the innermost line of source that is neither of this package nor of torch."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PLUMBING):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
