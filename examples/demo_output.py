"""The folder of files that a demo writes: all of them, or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from demo_input import BadInput


@contextmanager
def output_folder(folder: Path, names: Sequence[str]) -> Iterator[None]:
    """Make the output folder and try to write there before any work; leave no empty folder."""
    new: list[Path] = []
    try:
        _make(folder, names, new)
        yield
    finally:
        for path in new:
            with suppress(OSError):  # it is not empty
                path.rmdir()


def _make(folder: Path, names: Sequence[str], new: list[Path]) -> None:
    """Make the folder; put those folders that did not exist into ``new``, the innermost first."""
    try:
        new += [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with _unfinished(folder / names[0]):
            pass
    except OSError as error:
        raise BadInput(
            f"--output must be a folder to write to, got {str(folder)[:80]}: {error.strerror}"
        ) from error
    for name in names:
        if (folder / name).is_dir():
            raise BadInput(f"--output: {folder / name} must be a file, got a folder")


def write_together(folder: Path, writers: Mapping[str, Callable[[Path], object]]) -> list[Path]:
    """Write files into ``folder`` and return their paths; the functions get where to write.

    None is put in place before all are complete.
    """
    places = {folder / name: write for name, write in writers.items()}
    try:
        with ExitStack() as stack:
            unfinished = {path: stack.enter_context(_unfinished(path)) for path in places}
            for path, write in places.items():
                write(unfinished[path])
            for path in places:
                os.replace(unfinished[path], path)
    except OSError as error:
        raise BadInput(f"--output: the files could not be written to {folder}: {error}") from error
    return [*places]


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """Make an empty file beside ``path`` that is gone in the end if nobody has moved it."""
    beside = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        beside.touch()
        yield beside
    finally:
        beside.unlink(missing_ok=True)
