"""Rewriting a checkpoint without the bytes that no tensor touches."""

from __future__ import annotations

import shutil
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from errno import EEXIST
from os import PathLike
from pathlib import Path
from typing import IO, cast

import torch

from .._copies._buffers import Chunk, chunks_of, copied
from .._copies._plan import copy_plan
from .._copies._spans import ByteSpan
from .._errors import CheckpointError
from .._flags import check_flags
from .._modules._traverse import FoundTensor
from .._reports._archive import PORTION, Portions, data_start, portions_of, write_record
from .._reports._checkpoint import kind_of_file, open_archive, read_checkpoint
from .._reports._checkpoint_pickle import Node, PlacedInt, PlacingUnpickler
from .._reports._checkpoint_tensors import Storage, TensorWalk
from .._reports._garbage_collection import collector_paused
from .._reports._numbers import Entry, storages_of
from .._written_aside import written_aside

_CPU = torch.device("cpu")
_ALIGNMENT = 64  # of each chunk of a storage that moves alone
# Only the geometry of tensors counts here.
_TYPES = {
    1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128,
}  # fmt: skip


@collector_paused()
def compact_checkpoint(
    source: str | PathLike[str], target: str | PathLike[str], *, overwrite: bool = False
) -> None:
    """Write a checkpoint again without the bytes that none of its tensors touch.

    ``torch.save`` stores the whole storage of every tensor, so a small view of a large tensor makes
    a large file. In the new file, storages have only the bytes that tensors touch, as far as views
    allow it (as ``ModuleMemoryMap.copy_to`` with ``pack="close"``). All keys and values stay, also
    objects of all classes, and tensors that shared memory still share it. Nothing of the file is
    executed or imported, and at most the bytes that are touched are in memory. If the new file
    would not be smaller, it is an exact copy.

    Parameters
    ----------
    source : str or path-like
        A file that ``torch.save`` wrote (from torch 1.6 on), or a safetensors file. The latter
        holds each tensor alone and has no other bytes.
    target : str or path-like
        The new file, of the same kind. It appears when it is complete. With `overwrite`, it may be
        the source.
    overwrite : bool, optional
        Replace a file that exists. Its mode stays, and a link to it stays a link.

    Raises
    ------
    FileExistsError
        If the target exists and `overwrite` is not set.
    CheckpointError
        If the source is not a checkpoint, is damaged, or is of torch before 1.6.
    OSError
        If a file cannot be read or written.

    Examples
    --------
    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> large, small = os.path.join(folder, "large.pt"), os.path.join(folder, "small.pt")
    >>> torch.save({"row": torch.arange(1_000_000.0).view(1000, 1000)[3]}, large)
    >>> compact_checkpoint(large, small)
    >>> os.path.getsize(large) > 4_000_000, os.path.getsize(small) < 10_000
    (True, True)
    >>> torch.load(small)["row"][:2]
    tensor([3000., 3001.])
    """
    check_flags("compact_checkpoint", overwrite=overwrite)
    source, target = Path(source), Path(target)
    if target.exists() and not overwrite:
        raise FileExistsError(EEXIST, "the file exists, and overwrite is not set", str(target))
    read_checkpoint(source)
    with (
        written_aside(target) as (partial,),
        partial.open("xb") as out,
        source.open("rb") as opened,
    ):
        if kind_of_file(source) == "archive":
            _write_archive(source, opened, out)
        # Aligned records and longer integers may take more than was left out.
        if not 0 < out.tell() < source.stat().st_size:
            for file in (opened, out):
                file.seek(0)
            out.truncate()
            shutil.copyfileobj(opened, out, PORTION)


class _Walk(TensorWalk):
    """A walk that notes every use of a storage, also by elements that share bytes."""

    opens_meshes = True

    def __init__(self, root: object) -> None:
        self.uses: dict[str, list[tuple[Storage, object]]] = defaultdict(list)
        super().__init__(root)

    def _storage(self, node: object) -> Storage:
        storage = super()._storage(node)
        if isinstance(node, Node) and isinstance(node.arguments[0], tuple):
            self.uses[storage.key].append((storage, node.arguments[0][4]))
        return storage

    def wasteful(self) -> dict[str, list[tuple[Node, Entry]]]:
        """The tensors in each storage that has bytes that no tensor touches, by its key."""
        tensors: dict[str, list[tuple[Node, Entry]]] = defaultdict(list)
        for node, entry in self.entries.items():
            tensors[str(entry.view.space)].append((cast(Node, node), entry))
        storages = storages_of(self.entries.placed)
        # A storage is the address space of its tensors. Elements that share bytes have no place.
        keys = [str(s.tensors[0].entry.view.space) for s in storages if s.numbers.wasted]
        return {key: tensors[key] for key in keys if len(tensors[key]) == len(self.uses[key])}


def _write_archive(source: Path, opened: IO[bytes], out: IO[bytes]) -> None:
    """Write an archive again, or nothing if tensors touch all its bytes.

    Integers in its pickle tell where in their storages tensors lie.
    """
    pickled, name, _ = open_archive(source)
    unpickler = PlacingUnpickler(pickled)
    walk = _Walk(unpickler.parsed())
    wasteful, new = walk.wasteful(), _NewIntegers()
    if not wasteful:
        return
    mapped = torch.UntypedStorage.from_file(str(source), False, source.stat().st_size)
    with zipfile.ZipFile(opened) as archive, zipfile.ZipFile(out, "w") as written:
        # The pickle comes last, because the new storages decide its integers.
        for info in sorted(archive.infolist(), key=lambda info: info.filename == name):
            key = info.filename.removeprefix(name.removesuffix(".pkl") + "/")
            start, nbytes = data_start(opened, info), info.file_size
            record: Portions = portions_of(opened, start, nbytes)
            if info.filename == name:
                changed = unpickler.replaced(new.values.values())
                record, nbytes = [changed], len(changed)
            elif key in wasteful:
                stored = mapped[start : start + nbytes]
                compact = _CompactStorage(stored, wasteful[key], walk.uses[key])
                if compact.nbytes < nbytes:
                    new.put(compact)
                    record, nbytes = compact.portions(), compact.nbytes
            write_record(written, out, info.filename, record, nbytes)


class _CompactStorage:
    """A storage without untouched bytes: the chunks that tensors touch, one after the other."""

    def __init__(
        self,
        storage: torch.UntypedStorage,
        tensors: list[tuple[Node, Entry]],
        uses: list[tuple[Storage, object]],
    ) -> None:
        self.uses = uses
        self._nodes: dict[int, Node] = {}
        result = []
        for node, entry in tensors:
            view, empty = entry.view, torch.empty(0, dtype=_TYPES[entry.view.itemsize])
            sizes = [int(size) for size in view.sizes]
            strides = [stride // view.itemsize for stride in view.strides]
            tensor = empty.set_(storage, view.offset // view.itemsize, sizes, strides)
            result.append(FoundTensor(tensor, (None, entry.names[0])))
            self._nodes[id(tensor)] = node
        (self._group,) = copy_plan(result).groups
        self._chunks: list[tuple[int, Chunk]] = []
        self.nbytes = 0
        for chunk in chunks_of(self._group, "close"):
            start = -(-self.nbytes // _ALIGNMENT) * _ALIGNMENT
            self._chunks.append((start, chunk))
            self.nbytes = start + chunk.nbytes
        # A storage has whole elements, whatever type it is used with.
        grain = max(storage.dtype.itemsize for storage, _ in self.uses)
        self.nbytes = -(-self.nbytes // grain) * grain

    def portions(self) -> Portions:
        """The bytes of the new storage. A chunk without gaps is not copied into memory first."""
        reached = 0
        for start, chunk in self._chunks:
            yield bytes(start - reached)
            if chunk.nbytes:
                if isinstance(chunk, ByteSpan):
                    data = chunk.gathered()
                else:
                    data = copied(chunk, self._group, _CPU).data
                yield data.numpy().data
            reached = start + chunk.nbytes
        yield bytes(self.nbytes - reached)

    def tensors(self) -> Iterator[tuple[Node, int, tuple[int, ...]]]:
        """Each tensor, and its new offset and strides in elements."""
        for start, chunk in self._chunks:
            memory = torch.empty(chunk.nbytes, dtype=torch.uint8, device="meta")
            for piece in chunk.pieces:
                made = chunk.view(piece, memory)
                offset = start // made.itemsize + int(made.storage_offset())
                yield self._nodes[id(piece.tensor)], offset, made.stride()


class _NewIntegers:
    """The integers of a pickle that change. One that is used in two ways can only stay."""

    def __init__(self) -> None:
        self.values: dict[int, tuple[PlacedInt, int]] = {}

    def put(self, compact: _CompactStorage) -> None:
        """Note the new size of a storage, and the new places of its tensors."""
        for storage, n_elements in compact.uses:
            self._set(n_elements, compact.nbytes // storage.dtype.itemsize)
        for node, offset, strides in compact.tensors():
            _, old_offset, sizes, old_strides = node.arguments[:4]
            self._set(old_offset, offset)
            sizes = sizes.arguments[0] if isinstance(sizes, Node) else sizes
            for size in cast(tuple[int, ...], sizes):
                self._set(size, size)
            for old, new in zip(cast(tuple[int, ...], old_strides), strides, strict=True):
                self._set(old, new)

    def _set(self, old: object, new: int) -> None:
        if (
            not isinstance(old, PlacedInt)
            or self.values.setdefault(old.start, (old, new))[1] != new
        ):
            raise CheckpointError(
                "an integer in the pickle must belong to one tensor, got one that is used twice "
                "(the file was not written by torch.save)"
            )
