"""Reading the metadata of a folder that ``torch.distributed.checkpoint`` wrote."""

from __future__ import annotations

import io
from collections.abc import Sequence
from math import prod
from pathlib import Path

from .._errors import CheckpointError
from .._views._view import View
from ._checkpoint_pickle import DICT, Global, InertUnpickler, Node
from ._checkpoint_tensors import DTYPES, NAMES, are_integers, key_text
from ._numbers import Entries, Entry

METADATA = ".metadata"


def read_distributed(folder: Path) -> Entries:
    """Tensors of a folder of ``.distcp`` files; addresses are places in these files.

    Every chunk of a tensor is an archive in one of the files. Chunks are stored alone, so each has
    a storage of its own. A tensor of several chunks has their bounds in their names.
    """
    metadata = _fields(InertUnpickler(io.BytesIO((folder / METADATA).read_bytes())).parsed())
    views: dict[object, View] = {}
    for index, info in _pairs(metadata.get("storage_data")):
        key = _fields(index)
        name = key.get("fqn")
        if not isinstance(name, str):  # not hashed, because a tuple may have very many parts
            raise _damaged("a place without a name")
        offset = None if key.get("offset") is None else _sizes(key["offset"])
        views[name, offset] = _record(folder, _fields(info))
    entries = Entries()
    for name, described in _pairs(metadata.get("state_dict_metadata")):
        tensor = _fields(described)
        if "chunks" in tensor:  # other objects are not tensors
            _add_tensor(entries, views, name, tensor)
    return entries


def _add_tensor(
    entries: Entries,
    views: dict[object, View],
    name: object,
    tensor: dict[object, object],
) -> None:
    properties, chunks = tensor.get("properties"), tensor["chunks"]
    size = _sizes(tensor.get("size"))
    state = properties.state[0] if isinstance(properties, Node) and properties.state else None
    typed = state[0] if isinstance(state, tuple) and state else None
    dtype = DTYPES.get(typed.name) if isinstance(typed, Global) else None
    if dtype is None or not isinstance(chunks, Node) or not isinstance(name, str):
        raise _damaged(f"a tensor {key_text(name)} without a name, a type of torch, or chunks")
    for number, chunk in enumerate(chunks.items):
        first, sizes = (_sizes(_fields(chunk).get(key)) for key in ("offsets", "sizes"))
        is_whole = sizes == size
        bounds = ", ".join(f"{low}:{low + n}" for low, n in zip(first, sizes, strict=True))
        label = name if is_whole else f"{name}[{bounds}]"
        record = views.get((name, first)) or views.get((name, None))
        nbytes = prod(sizes) * dtype.itemsize
        if record is None or nbytes > record.storage_nbytes:
            raise _damaged(f"no place of {nbytes} bytes for {label!r:.100}")
        # The archive is a little larger than the tensor in it.
        view = View(record.space, record.storage_address, nbytes, 0, (nbytes,), (1,))
        entries.put((name, number), Entry([label], view, NAMES[dtype], sizes, "file"))


def _record(folder: Path, info: dict[object, object]) -> View:
    """The bytes of an archive in a file of the folder."""
    name, numbers = info.get("relative_path"), (info.get("offset"), info.get("length"))
    if not isinstance(name, str) or {*"/\\\0"} & {*name} or not are_integers(numbers):
        raise _damaged(f"a place in {key_text(name)}")
    start, length = numbers
    status = (folder / name).stat()
    if min(start, length) < 0 or start + length > status.st_size:
        raise CheckpointError(
            f"{name}: a shard must hold all of its tensors, "
            f"got {status.st_size} bytes for one that ends at {start + length}"
        )
    return View((status.st_dev, status.st_ino), start, length, 0, (length,), (1,))


def _fields(node: object) -> dict[object, object]:
    """The attributes of an object by name."""
    if not isinstance(node, Node):
        raise _damaged("something else than an object")
    state = node.state[0] if node.state else Node(DICT)
    return {key: value for key, value in _pairs(state) if isinstance(key, str)}


def _pairs(node: object) -> Sequence[tuple[object, object]]:
    if not isinstance(node, Node) or node.maker != DICT:
        raise _damaged("something else than a dict")
    return node.pairs


def _sizes(value: object) -> tuple[int, ...]:
    """The numbers of a torch.Size."""
    sizes = value.arguments[0] if isinstance(value, Node) and value.arguments else value
    if not are_integers(sizes) or min(sizes, default=0) < 0:
        raise _damaged("a size that has other parts than integers from 0 on")
    return sizes


def _damaged(got: str) -> CheckpointError:
    return CheckpointError(f"{METADATA} must be of torch.distributed.checkpoint, got {got}")
