"""Records of the zip archives of ``torch.save``: where they begin, and writing them aligned.

torch's own writer is not used, because it ends the process when the disk is full.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from struct import pack
from typing import IO, TypeAlias

Portions: TypeAlias = Iterable[bytes | memoryview]
"""The bytes of a record, in portions."""

PORTION = 1 << 24
_ALIGNMENT = 64  # of the bytes of each record, as in torch.save, so that they can be mapped
# Bytes of a local header before the name, and of the lengths in it: APPNOTE of PKWARE, 4.3.7.
_HEADER = 30
_LENGTHS = slice(26, 28), slice(28, 30)
_ZIP64_FIELD = 20  # bytes that zipfile adds to the header of a large record
_LARGE = 1 << 30


def data_start(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """The place in the file of the first byte of a record."""
    file.seek(info.header_offset)
    header = file.read(_HEADER)
    lengths = [int.from_bytes(header[field], "little") for field in _LENGTHS]
    return info.header_offset + _HEADER + sum(lengths)


def portions_of(file: IO[bytes], start: int, nbytes: int) -> Portions:
    """Some bytes of a file."""
    for at in range(start, start + nbytes, PORTION):
        file.seek(at)
        yield file.read(min(PORTION, start + nbytes - at))


def write_record(
    archive: zipfile.ZipFile, out: IO[bytes], name: str, record: Portions, nbytes: int
) -> None:
    """Write a record to the end of an archive, at an aligned place in its file `out`."""
    info = zipfile.ZipInfo(name)
    is_large = nbytes > _LARGE
    start = out.tell() + _HEADER + len(name.encode()) + _ZIP64_FIELD * is_large
    padding = -(start + 4) % _ALIGNMENT
    info.extra = pack("<2sH", b"FB", padding) + b"Z" * padding
    info.file_size = nbytes
    with archive.open(info, "w", force_zip64=is_large) as opened:
        for portion in record:
            opened.write(portion)
