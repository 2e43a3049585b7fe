"""Command line: ``memmap report FILE``."""

from __future__ import annotations

import argparse
import atexit
import gc
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ._errors import CheckpointError
from ._reports._report import MemoryReport
from ._reports._table import printable
from ._reports._uncollected import uncollected

_COLUMNS = """\
columns:
  allocated      bytes of the storage
  spanned        from the first byte that a tensor touches to the last
  touched        bytes that at least one tensor touches
  shared         bytes that are touched under at least two names
  wasted         bytes that no tensor touches
  separate       bytes if each name had contiguous memory of its own
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default the one of the process, and return its exit status.

    The status is 0 on success, 1 if the reader of the output stopped reading, and 2 if a file is
    not a checkpoint or cannot be read or written. With status 2, one line on standard error says
    why.
    """
    # Python scans all objects when it exits, also those of torch, which takes 0.4 s.
    atexit.register(gc.freeze)
    with uncollected():
        return _report(_parser().parse_args(arguments))


def _report(options: argparse.Namespace) -> int:
    picture: Path | None = options.picture
    try:
        if picture is not None and picture.exists() and picture.samefile(options.file):
            return _failed(f"--picture must be another file than the checkpoint, got {picture}")
        report = MemoryReport.from_file(options.file)
        text = json.dumps(report.to_dict(), indent=2) if options.json else str(report)
        if picture is not None:
            picture.write_text(report.to_svg(), encoding="utf-8")
    except CheckpointError as error:
        return _failed(f"{options.file}: {error}")
    except OSError as error:
        return _failed(f"{error.filename or options.file}: {error.strerror or error}")
    try:
        print(_encodable(text, sys.stdout.encoding), flush=True)
    except OSError as error:
        # Otherwise Python would try again to write the rest of the output when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 1
        return _failed(f"standard output: {error.strerror or error}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="memmap", description="Which bytes do tensors touch?")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser(
        "report",
        help="bytes that the tensors of a checkpoint take, share and waste",
        description="Bytes that the tensors of a checkpoint take, share and waste.\n"
        "Executes no code from the file and loads no tensor.",
        epilog=_COLUMNS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    report.add_argument("file", metavar="FILE", help="a .pt or .safetensors checkpoint")
    report.add_argument("--json", action="store_true", help="print JSON instead of a table")
    report.add_argument(
        "--picture", metavar="SVG", type=Path, help="also write a map of the storages"
    )
    return parser


def _failed(reason: str) -> int:
    # A file name may contain line breaks.
    print(_encodable(f"memmap: {printable(reason)}", sys.stderr.encoding), file=sys.stderr)
    return 2


def _encodable(text: str, encoding: str | None) -> str:
    """Escape characters that a terminal would interpret or that a stream cannot encode."""
    encoding = encoding or "utf-8"  # a stream in memory has none
    lines = [printable(line) for line in text.split("\n")]
    return "\n".join(lines).encode(encoding, "backslashreplace").decode(encoding)


if __name__ == "__main__":
    sys.exit(main())
