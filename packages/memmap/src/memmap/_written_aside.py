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

    After an exception, also an interrupt, the old files are as they were. The names are the same,
    because some writers read the format from them; the folders are new and beside the old files.
    """
    targets = [path.resolve() for path in paths]  # a link to a file stays a link
    with ExitStack() as stack:
        folders = [
            stack.enter_context(TemporaryDirectory(prefix=".writing-", dir=target.parent))
            for target in targets
        ]
        new = [Path(folder, target.name) for folder, target in zip(folders, targets, strict=True)]
        for target in filter(Path.exists, targets):
            target.open("r+b").close()  # an error, as before, for a file that may not be written
        yield new
        for path, target in zip(new, targets, strict=True):
            if target.exists():
                shutil.copymode(target, path)
            path.replace(target)
