"""Command line: ``memmap report FILE``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ._checkpoint_error import CheckpointError
from ._report import MemoryReport
from ._report_table import printable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process, if not given.

    Returns
    -------
    int
        Exit status: 0, or 2 if a file is no checkpoint or cannot be read or written; then one
        line on standard error says why.
    """
    options = _parser().parse_args(arguments)
    try:
        report = MemoryReport.from_file(options.file)
        text = json.dumps(report.to_dict(), indent=2) if options.json else str(report)
        if options.picture is not None:
            Path(options.picture).write_text(report.to_svg(), encoding="utf-8")
    except (CheckpointError, OSError) as error:
        _write(f"memmap: {options.file}: {error}", sys.stderr)
        return 2
    _write(text, sys.stdout)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="memmap", description="Which bytes do tensors touch?")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser(
        "report",
        help="bytes that the tensors of a checkpoint take, share and waste",
        description="Bytes that the tensors of a checkpoint take, share and waste. Nothing in the "
        "file is executed, and no tensor is loaded.",
    )
    report.add_argument("file", metavar="FILE", help="a .pt or .safetensors checkpoint")
    report.add_argument("--json", action="store_true", help="print JSON instead of a table")
    report.add_argument("--picture", metavar="SVG", help="also write a map of the storages")
    return parser


def _write(text: str, stream: object) -> None:
    """Print lines, with escapes for what the stream cannot encode."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    lines = [printable(line) for line in text.split("\n")]
    safe = "\n".join(lines).encode(encoding, "backslashreplace").decode(encoding)
    print(safe, file=stream)  # type: ignore[call-overload]  # any stream of text


if __name__ == "__main__":
    sys.exit(main())
