"""Which kind of checkpoint a file is, and what lies in it."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from .._errors import CheckpointError
from ._checkpoint_safetensors import read_safetensors
from ._checkpoint_torch import read_archive, read_legacy
from ._entry import Entries

_ZIP = b"PK\x03\x04"
# Protocol 2, a long integer of ten bytes: the magic number of torch.save before version 1.6.
_LEGACY = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"


def read_checkpoint(path: str | PathLike[str]) -> Entries:
    """Tensors of a file of ``torch.save`` or safetensors, told apart by their first bytes.

    Only the description of the tensors is read. Storages of a ``.pt`` file have addresses of their
    own, in the order in which they were met.
    """
    file = Path(path)
    with file.open("rb") as opened:
        start = opened.read(len(_LEGACY))
    if start.startswith(_ZIP):
        return read_archive(file)
    if start == _LEGACY:
        return read_legacy(file)
    if start[8:9] == b"{":
        return read_safetensors(file)
    raise CheckpointError("the file must be a .pt or .safetensors checkpoint, got something else")
