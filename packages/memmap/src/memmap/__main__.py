"""Command line: ``memmap report FILE``, ``memmap compact IN OUT``, ``memmap diff A B``."""

from __future__ import annotations

import argparse
import atexit
import gc
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ._bytes_text import bytes_text
from ._checkpoints._compact_checkpoint import compact_checkpoint
from ._checkpoints._diff import diff_reports
from ._errors import CheckpointError
from ._reports._garbage_collection import collector_paused
from ._reports._report import MemoryReport
from ._reports._table import printable

_COLUMNS = """\
columns:
  allocated      bytes of the storage
  spanned        from the first byte that a tensor touches to the last
  touched        bytes that at least one tensor touches
  shared         bytes that are touched under at least two names
  wasted         bytes that no tensor touches
  separate       bytes if each name had contiguous memory of its own
"""
_SAFE = "Executes no code from the files and loads no tensor."
_KINDS = "a .pt or .safetensors checkpoint, the .index.json of a sharded one, or a folder"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default the one of the process, and return its exit status.

    The status is 0 on success, 1 if the reader of the output stopped reading, and 2 if a file is
    not a checkpoint or cannot be read or written. With status 2, one line on standard error says
    why.
    """
    # Python scans all objects when it exits, also those of torch, which takes 0.4 s.
    atexit.register(gc.freeze)
    with collector_paused():
        return _run(_parser().parse_args(arguments))


def _run(options: argparse.Namespace) -> int:
    try:
        text = options.command(options)
    except CheckpointError as error:
        return _failed(str(error))
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


def _report(options: argparse.Namespace) -> str:
    picture: Path | None = options.picture
    if picture is not None and picture.exists() and picture.samefile(options.file):
        raise CheckpointError(f"--picture must be another file than the checkpoint, got {picture}")
    report = _read(options.file)
    text = json.dumps(report.to_dict(), indent=2) if options.json else str(report)
    if picture is not None:
        picture.write_text(report.to_svg(), encoding="utf-8")
    return text


def _compact(options: argparse.Namespace) -> str:
    with _naming(options.file):
        before = Path(options.file).stat().st_size
        compact_checkpoint(options.file, options.target, overwrite=options.overwrite)
    after = Path(options.target).stat().st_size
    if after == before:
        return f"{options.target}: a copy of {bytes_text(after)}, because a new file is not smaller"
    return f"{options.target}: {bytes_text(after)} instead of {bytes_text(before)}"


def _diff(options: argparse.Namespace) -> str:
    diff = diff_reports(_read(options.file), _read(options.after))
    return json.dumps(diff.to_dict(), indent=2) if options.json else str(diff)


def _read(path: str) -> MemoryReport:
    with _naming(path):
        return MemoryReport.from_file(path)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Put the path before what is wrong with a file."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="memmap", description="Which bytes do tensors touch?")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser(
        "report",
        help="bytes that the tensors of a checkpoint take, share and waste",
        description="Bytes that the tensors of a checkpoint take, share and waste.\n" + _SAFE,
        epilog=_COLUMNS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    report.add_argument("file", metavar="FILE", help=_KINDS)
    report.add_argument("--json", action="store_true", help="print JSON instead of a table")
    report.add_argument(
        "--picture", metavar="SVG", type=Path, help="also write a map of the storages"
    )
    report.set_defaults(command=_report)
    compact = commands.add_parser(
        "compact",
        help="write a checkpoint again without the bytes that no tensor touches",
        description="Write a checkpoint again without the bytes that no tensor touches. "
        "All keys, values and what tensors share stay. Executes no code from the file.",
    )
    compact.add_argument("file", metavar="IN", help="a .pt or .safetensors checkpoint")
    compact.add_argument("target", metavar="OUT", help="the new file")
    compact.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    compact.set_defaults(command=_compact)
    diff = commands.add_parser(
        "diff",
        help="tensors that are new, gone, or changed in dtype, shape or sharing",
        description="Tensors that are new, gone, or changed in dtype, shape or sharing.\n" + _SAFE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    diff.add_argument("file", metavar="A", help=_KINDS)
    diff.add_argument("after", metavar="B", help="the same, to compare with A")
    diff.add_argument("--json", action="store_true", help="print JSON instead of lines")
    diff.set_defaults(command=_diff)
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
