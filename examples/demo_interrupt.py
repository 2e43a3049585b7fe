"""What a demo does on Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn


def end_in_one_line(*_: object) -> NoReturn:
    """End the process with one line and exit status 130; also a handler of signals."""
    sys.stdout.flush()
    line = f"{Path(sys.argv[0]).stem}: interrupted"
    print(f"{chr(10) if sys.stderr.isatty() else ''}{line}", file=sys.stderr, flush=True)
    os._exit(128 + signal.SIGINT)
