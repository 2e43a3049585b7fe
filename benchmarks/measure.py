"""Run one benchmark in this process, and write what it recorded: ``measure.py SCRIPT JSON``.

A process of its own for each: how much memory a script takes must not depend on others.
"""

from __future__ import annotations

import json
import runpy
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import mean

import torch
from results import LOADS, ROWS


def main() -> None:
    """Run the script as if it had been started alone."""
    script, output = sys.argv[1:]
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")
    rows = [asdict(row) for row in ROWS]
    Path(output).write_text(json.dumps([torch.get_num_threads(), mean(LOADS), rows]))


if __name__ == "__main__":
    main()
