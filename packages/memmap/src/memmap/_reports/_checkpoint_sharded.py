"""Reading a checkpoint of several files: a folder, an index of shards, a distributed checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path

from .._errors import CheckpointError
from .._views._view import View
from ._checkpoint_distributed import METADATA, read_distributed
from ._numbers import Entries, Entry

INDEX = ".index.json"
_ENDINGS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")


def read_folder(folder: Path, read: Callable[[Path], Entries]) -> Entries:
    """Tensors of all checkpoints in a folder: of a distributed one, an index, or all files."""
    if (folder / METADATA).exists():
        return read_distributed(folder)
    listed = sorted(path for path in folder.iterdir() if path.is_file())
    indexes = [path for path in listed if path.name.endswith(INDEX)]
    if len(indexes) == 1:
        return read_index(indexes[0], read)
    files = [path for path in listed if path.suffix in _ENDINGS]
    if indexes or not files:
        raise CheckpointError(
            f"the folder must hold one {INDEX}, a {METADATA} or files that end in "
            f"{', '.join(_ENDINGS)}, got {len(indexes)} indexes and {len(files)} such files "
            "(of several indexes, give the one to read)"
        )
    return _joined(files, read, prefixed=len(files) > 1)


def read_index(path: Path, read: Callable[[Path], Entries]) -> Entries:
    """Tensors of all shards that an index names; each name must be in its shard."""
    try:
        index = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"the index must be JSON, got something else: {error}") from error
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict) or not all(_is_file_name(name) for name in shards.values()):
        raise CheckpointError(
            "the index must have a weight_map of names to names of files in its folder"
        )
    names: dict[str, set[str]] = {}
    for name, shard in shards.items():
        names.setdefault(shard, set()).add(name)

    def read_shard(file: Path) -> Entries:
        entries = read(file)
        listed = {name for entry in entries.placed for name in entry.names} | {*entries.unplaced}
        missing = min(names[file.name] - listed, default=None)
        if missing is not None:
            raise CheckpointError(f"the shard must hold {missing!r}, got no such name")
        return entries

    return _joined([path.with_name(shard) for shard in sorted(names)], read_shard, prefixed=False)


def _is_file_name(name: object) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and not {*"/\\\0"} & {*name}


def _identity(path: Path) -> Hashable:
    """What links to one file have in common."""
    status = path.stat()
    return status.st_dev, status.st_ino


def _joined(files: Iterable[Path], read: Callable[[Path], Entries], prefixed: bool) -> Entries:
    """Tensors of several files. Files that are links to one file share their memory."""
    entries = Entries()
    by_identity: dict[Hashable, list[tuple[Entry, list[str]]]] = {}
    for file in files:
        prefix, identity = f"{file.name}: " if prefixed else "", _identity(file)
        if identity in by_identity:
            for entry, names in by_identity[identity]:
                entry.names += [f"{prefix}{name}" for name in names]
            continue
        try:
            read_entries = read(file)
        except CheckpointError as error:
            raise CheckpointError(f"{file.name}: {error}") from error
        by_identity[identity] = [(entry, entry.names) for entry in read_entries.placed]
        for entry in read_entries.placed:
            entry.names = [f"{prefix}{name}" for name in entry.names]
            entry.view = View((identity, entry.view.space), *entry.view[1:])
        entries.placed += read_entries.placed
        entries.unplaced += [f"{prefix}{name}" for name in read_entries.unplaced]
    return entries
