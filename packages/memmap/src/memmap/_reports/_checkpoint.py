"""Reading a checkpoint: which kind of file it is, and which tensors are in it.

Files of ``torch.save`` are zip archives. `torch.load` cannot be used here: with
``weights_only=True`` it refuses whole modules, subclasses and TorchScript, and on the meta device
it accepts tensors that reach beyond their storage.
"""

from __future__ import annotations

import io
import re
import zipfile
from os import PathLike
from pathlib import Path

from .._errors import CheckpointError
from ._archive import data_start
from ._checkpoint_pickle import InertUnpickler
from ._checkpoint_safetensors import read_safetensors
from ._checkpoint_sharded import INDEX, read_folder, read_index
from ._checkpoint_tensors import TensorWalk
from ._numbers import Entries

_ZIP = b"PK\x03\x04"
# Protocol 2, a long integer of ten bytes: the magic number of torch.save before version 1.6.
_LEGACY = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"


def read_checkpoint(path: str | PathLike[str]) -> Entries:
    """Tensors of a file of ``torch.save`` or safetensors, or of the files of a sharded checkpoint.

    The first bytes of a file tell its kind.
    """
    file = Path(path)
    if file.is_dir():
        return read_folder(file, _read_file)
    return read_index(file, _read_file) if file.name.endswith(INDEX) else _read_file(file)


def _read_file(file: Path) -> Entries:
    return _READERS[kind_of_file(file)](file)


def kind_of_file(path: Path) -> str:
    """The kind of a checkpoint: "archive" or "safetensors"."""
    with path.open("rb") as opened:
        start = opened.read(len(_LEGACY))
    if start.startswith(_ZIP):
        return "archive"
    if start == _LEGACY:
        raise CheckpointError(
            "the file must be of torch 1.6 or later, got an older one (load it and save it again)"
        )
    if start[8:9] == b"{":
        return "safetensors"
    raise CheckpointError("the file must be a .pt or .safetensors checkpoint, got something else")


def _read_archive(path: Path) -> Entries:
    """Tensors of a zip archive, which holds a pickle and one record for each storage."""
    pickled, _, records = open_archive(path)
    walk = TensorWalk(InertUnpickler(io.BytesIO(pickled)).parsed())
    for key, storage in walk.storages.items():
        if records.get(key) != storage.nbytes:
            raise CheckpointError(
                f"storage {key!r} must have a record of its size of {storage.nbytes} bytes, "
                f"got {records.get(key, 'none')}"
            )
    return walk.entries


def open_archive(path: Path) -> tuple[bytes, str, dict[str, int]]:
    """The pickle of an archive, its name, and the size of each of its storages in bytes."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if re.fullmatch(r"[^/]*/data\.pkl", name)]
            if len(names) != 1:
                raise CheckpointError(
                    f"the archive must hold one data.pkl, got {len(names)} "
                    "(it was not written by torch.save)"
                )
            prefix = names[0].removesuffix(".pkl") + "/"
            infos = [info for info in archive.infolist() if info.filename.startswith(prefix)]
            size = path.stat().st_size
            for info in (archive.getinfo(names[0]), *infos):
                fits = info.header_offset + info.compress_size <= size
                if info.compress_type or info.compress_size != info.file_size or not fits:
                    raise CheckpointError(
                        f"the archive must hold its records whole and uncompressed, "
                        f"got {info.filename!r}"
                    )
            records = {info.filename.removeprefix(prefix): info.file_size for info in infos}
            if len(records) != len(infos):
                raise CheckpointError("the archive must name each record once, got two of one name")
            n_before = min(info.header_offset for info in archive.infolist())
            if n_before:
                raise CheckpointError(
                    f"the file must be one archive, got {n_before} bytes before the last one "
                    "(a .distcp shard holds one archive for each tensor)"
                )
            pickled = archive.getinfo(names[0])
            if pickled.CRC:
                return archive.read(pickled), names[0], records
        with path.open("rb") as file:  # torch can save without checksums
            file.seek(data_start(file, pickled))
            return file.read(pickled.file_size), names[0], records
    except CheckpointError:
        raise
    except (
        zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError
    ) as error:  # fmt: skip
        raise CheckpointError(f"the archive must be whole, got a damaged one: {error}") from error


_READERS = {"archive": _read_archive, "safetensors": read_safetensors}
