"""Where the tensors of a ``.pt`` file of torch before 1.6 lie: pickles, then the storages."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import IO, cast

from .._errors import CheckpointError
from ._checkpoint_pickle import LIST, Node, parse_pickle
from ._checkpoint_torch import TensorWalk, key_text
from ._entry import Entries

_VERSION = 1001
_COUNT = 8  # bytes of the number of elements before each block
_ITEMSIZES = (1, 2, 4, 8, 16)


def read_legacy(path: Path) -> Entries:
    """Tensors of a file that ``torch.save`` wrote in its old format; nothing in it is executed.

    Parameters
    ----------
    path : pathlib.Path
        A file that begins with the magic number.

    Returns
    -------
    Entries
        As for the present format.

    Raises
    ------
    CheckpointError
        If the file is damaged, or its tensors do not fit their storages.
    """
    with (
        path.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        # It reads and tells where it is like a file, and never more than there is.
        file = cast("IO[bytes]", mapped)
        _magic, version, _system, root, keys = [parse_pickle(file) for _ in range(5)]
        if version != _VERSION:
            came = key_text(version)
            raise CheckpointError(f"the version of the format must be {_VERSION}, got {came}")
        if not isinstance(keys, Node) or keys.maker is not LIST:
            raise CheckpointError("the keys of the storages must be a list, got something else")
        walk = TensorWalk()
        walk.run(root)
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
