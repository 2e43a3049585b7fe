"""Files that ``torch.save`` wrote: a zip archive, or pickles and blocks before torch 1.6."""

from __future__ import annotations

import io
import mmap
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

from .._errors import CheckpointError
from ._checkpoint_pickle import LIST, Node, parse_pickle
from ._checkpoint_tensors import TensorWalk, key_text
from ._entry import Entries

_LEGACY_VERSION = 1001
_COUNT = 8  # bytes of the number of elements before each block
_ITEMSIZES = (1, 2, 4, 8, 16)


def read_archive(path: Path) -> Entries:
    """Tensors of a zip archive of a pickle and one record a storage."""
    pickle, records = _open(path)
    walk = TensorWalk(parse_pickle(io.BytesIO(pickle)))
    for key, storage in walk.storages.items():
        if records.get(key) != storage.nbytes:
            raise CheckpointError(
                f"storage {key!r} must have a record of its size of {storage.nbytes} bytes, "
                f"got {records.get(key, 'none')}"
            )
    return walk.entries


def _open(path: Path) -> tuple[bytes, dict[str, int]]:
    """The pickle of an archive, and the bytes of each of its storages."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            pickles = [info for info in infos if _is_main_pickle(info.filename)]
            if len(pickles) != 1:
                raise CheckpointError(
                    f"the archive must hold one data.pkl, got {len(pickles)} "
                    "(it was not written by torch.save)"
                )
            prefix = pickles[0].filename.removesuffix(".pkl") + "/"
            storages = [info for info in infos if info.filename.startswith(prefix)]
            _check_records([*pickles, *storages], path.stat().st_size)
            records = {info.filename.removeprefix(prefix): info.file_size for info in storages}
            return archive.read(pickles[0]), records
    except CheckpointError:
        raise
    except (
        zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError
    ) as error:  # fmt: skip
        raise CheckpointError(f"the archive must be whole, got a damaged one: {error}") from error


def _is_main_pickle(name: str) -> bool:
    return name.endswith("/data.pkl") and name.count("/") == 1


def _check_records(infos: Sequence[zipfile.ZipInfo], size: int) -> None:
    if len({info.filename for info in infos}) != len(infos):
        raise CheckpointError("the archive must name each record once, got two of one name")
    for info in infos:
        fits = info.header_offset + info.compress_size <= size
        if info.compress_type or info.compress_size != info.file_size or not fits:
            raise CheckpointError(
                f"the archive must hold its records whole and uncompressed, got {info.filename!r}"
            )


def read_legacy(path: Path) -> Entries:
    """Tensors of a file of torch before 1.6: five pickles, then a block for each storage."""
    with (
        path.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        # It reads and tells where it is like a file, and never more than there is.
        file = cast("IO[bytes]", mapped)
        _magic, version, _system, root, keys = [parse_pickle(file) for _ in range(5)]
        if version != _LEGACY_VERSION:
            raise CheckpointError(
                f"the version of the format must be {_LEGACY_VERSION}, got {key_text(version)}"
            )
        if not isinstance(keys, Node) or keys.maker is not LIST:
            raise CheckpointError("the keys of the storages must be a list, got something else")
        walk = TensorWalk(root)
        missing = set(walk.storages).difference(key for key in keys.items if isinstance(key, str))
        if missing:
            raise CheckpointError(f"every storage must be in the file, got none for {min(missing)}")
        for key in keys.items:
            storage = walk.storages.get(key) if isinstance(key, str) else None
            if storage is None:
                raise CheckpointError(
                    f"every storage must belong to the pickle, got {key_text(key)}"
                )
            n_elements = int.from_bytes(file.read(_COUNT), "little", signed=True)
            end = file.tell() + storage.nbytes
            if all(n_elements * size != storage.nbytes for size in _ITEMSIZES) or end > len(mapped):
                raise CheckpointError(
                    f"storage {key!r} must have a block of its size of {storage.nbytes} bytes, "
                    f"got {n_elements} elements and {len(mapped) - file.tell()} bytes"
                )
            file.seek(end)
    return walk.entries
