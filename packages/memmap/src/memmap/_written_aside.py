"""Files that appear when they are complete."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def written_aside(*paths: Path) -> Iterator[list[Path]]:
    """Yield a path to write to for each path; at the end, these files replace the old ones.

    After an exception, also an interrupt, the files are all the old ones or all the new ones. The
    last of several must be one without which the others are not read: it goes first and comes last,
    so a process that is killed leaves the old files, the new ones, or no last file. In the latter
    case, the old files are in folders ``.writing-*``. The names are the same, because some
    writers read the format from them; the folders are new and beside the old files.
    """
    targets = [path.resolve() for path in paths]  # a link to a file stays a link
    with ExitStack() as stack:
        folders = [stack.enter_context(_folder_beside(target)) for target in targets]
        new = [Path(folder, target.name) for folder, target in zip(folders, targets, strict=True)]
        for target in filter(Path.exists, targets):
            target.open("r+b").close()  # an error for a file that may not be written
        yield new
        for path, target in zip(new, targets, strict=True):
            if target.exists():
                shutil.copymode(target, path)
        _replace(new, targets)


def _folder_beside(target: Path) -> TemporaryDirectory[str]:
    try:
        return TemporaryDirectory(prefix=".writing-", dir=target.parent)
    except OSError as error:
        error.filename = str(target)  # users have not named the folder
        raise


def _replace(new: list[Path], targets: list[Path]) -> None:
    aside = [path.with_name(f"{path.name}.old") for path in new]
    steps = [*zip(new, aside, targets, strict=True)]
    try:
        for _, old, target in reversed(steps):
            if len(steps) > 1 and target.exists():  # a single file is replaced in one step
                target.replace(old)
        for path, _, target in steps:
            path.replace(target)
    except BaseException:
        # Only the files tell how far it came: an interrupt may follow a step that was made.
        for path, old, target in steps if new[-1].exists() else []:
            if old.exists():
                old.replace(target)
            elif not path.exists():
                target.unlink()
        raise
