"""Where the tensors of a ``.pt`` file lie: a zip archive of a pickle and one record a storage."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath
from typing import NamedTuple, TypeGuard

import torch

from .._errors import CheckpointError
from .._modules._traverse import Path, path_text
from .._views._address import SUB_BYTE_DTYPES
from .._views._view import View
from ._checkpoint_pickle import PERSISTENT, Global, Node, parse_pickle
from ._entry import Entries, Entry

# Names are looked up in tables, never as attributes: modules import things when they are asked.
_DTYPES = {f"torch.{k}": v for k, v in vars(torch).items() if isinstance(v, torch.dtype)}
_STORAGE_DTYPES = {
    f"torch.{name}Storage": dtype
    for name, dtype in {
        "Double": torch.float64,
        "Float": torch.float32,
        "Half": torch.float16,
        "BFloat16": torch.bfloat16,
        "Long": torch.int64,
        "Int": torch.int32,
        "Short": torch.int16,
        "Char": torch.int8,
        "Byte": torch.uint8,
        "Bool": torch.bool,
        "ComplexDouble": torch.complex128,
        "ComplexFloat": torch.complex64,
        "QInt32": torch.qint32,
        "QInt8": torch.qint8,
        "QUInt8": torch.quint8,
        "QUInt4x2": torch.quint4x2,
        "QUInt2x4": torch.quint2x4,
        "storage.Untyped": torch.uint8,
    }.items()
}
_UTILS = "torch._utils."
_TENSORS = frozenset(
    _UTILS + name
    for name in (
        "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor"
    )
)  # fmt: skip
_TYPED = _UTILS + "_rebuild_tensor_v3"  # its dtype is its last argument
_WITHOUT_STORAGE = _UTILS + "_rebuild_meta_tensor_no_storage"
_WRAPPERS = (_UTILS + "_rebuild_parameter", _UTILS + "_rebuild_parameter_with_state")
_FROM_TYPE = "torch._tensor._rebuild_from_type_v2"
_MODULE_DICTS = ("_parameters", "_buffers", "_modules")
_MAX_DEPTH = 1000
# A key of a few bytes in the file may stand in the names of all tensors, many times in each.
_LONGEST_KEY = 1000
_MOST_NAMES = 1 << 25
_LARGEST = 1 << 62


class Storage(NamedTuple):
    """A storage: where it would be loaded to, and its place in an imagined address space."""

    location: str
    address: int
    nbytes: int
    dtype: torch.dtype


def read_torch(path: FilePath) -> Entries:
    """Tensors of a file that ``torch.save`` wrote; nothing in it is executed or imported.

    Parameters
    ----------
    path : pathlib.Path
        A zip archive.

    Returns
    -------
    Entries
        All tensors, also those within objects of unknown classes. Storages have addresses of their
        own, in the order in which they were met.

    Raises
    ------
    CheckpointError
        If the file is damaged, or its tensors do not fit their storages.
    """
    pickle, records = _open(path)
    walk = TensorWalk()
    walk.run(parse_pickle(pickle))
    for key, storage in walk.storages.items():
        if records.get(key) != storage.nbytes:
            raise CheckpointError(
                f"storage {key!r} must have a record of its size of {storage.nbytes} bytes, "
                f"got {records.get(key, 'none')}"
            )
    return walk.entries


def _open(path: FilePath) -> tuple[bytes, dict[str, int]]:
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


class TensorWalk:
    """Walk over a tree: containers once, tensors under every name."""

    def __init__(self) -> None:
        self.entries = Entries()
        self.storages: dict[str, Storage] = {}
        self.n_bytes = 0
        self.n_characters = 0
        self.seen: set[int] = set()
        self.tensors: dict[int, Entry] = {}
        self.wrapped: dict[int, object] = {}  # what a parameter is made from
        self.alive: list[object] = []  # temporary objects, whose ids must not be used again

    def run(self, root: object) -> None:
        todo: list[tuple[object, Path, int]] = [(root, None, 0)]
        while todo:
            value, path, depth = todo.pop()
            if not isinstance(value, (tuple, Node)):
                continue
            if depth > _MAX_DEPTH:
                raise CheckpointError(
                    f"objects must be nested at most {_MAX_DEPTH} deep, got a deeper one"
                )
            if isinstance(value, Node) and id(value) in self.tensors:
                self.tensors[id(value)].names.append(self.name(path))
            elif id(value) in self.wrapped:
                todo.append((self.wrapped[id(value)], path, depth + 1))
            elif id(value) not in self.seen:
                self.seen.add(id(value))
                todo += [
                    (part, (path, text) if text else path, depth + 1)
                    for text, part in reversed(self.parts(value, path))
                ]

    def parts(self, value: tuple[object, ...] | Node, path: Path) -> list[tuple[str, object]]:
        """What is inside of an object; tensors are noted down on the way."""
        if isinstance(value, tuple):
            return _numbered(value)
        maker = value.maker.name if isinstance(value.maker, Global) else ""
        if maker in _TENSORS:
            self.add_tensor(value, maker, path)
            return _numbered(value.arguments, ".arguments")[1:]
        if value.maker is PERSISTENT and _is_class(value):
            return []
        if value.maker is PERSISTENT:
            storage = self.storage(value)
            whole = _view(storage, 0, (storage.nbytes,), (1,), 1)
            self.put(value, whole, storage, torch.uint8, (storage.nbytes,), self.name(path))
            return []
        if maker == _WITHOUT_STORAGE:
            self.entries.unplaced.append(self.name(path))
            return []
        if maker == _FROM_TYPE and len(value.arguments) == 4:
            function, _, arguments, state = value.arguments
            if isinstance(arguments, tuple):
                made = Node(function, arguments)
                self.alive.append(made)
                self.wrapped[id(value)] = made
                return [("", made), (".state", state), *_contents(value, path)]
        if maker in _WRAPPERS and value.arguments:
            data, *_ = value.arguments
            others = _numbered(value.arguments, ".arguments")[1:]
            self.wrapped[id(value)] = data
            return [("", data), *others, *_contents(value, path)]
        return [*_numbered(value.arguments, ".arguments"), *_contents(value, path)]

    def name(self, path: Path) -> str:
        """The name of what was found at the end of a path."""
        name = path_text(path) or "<root>"
        self.n_characters += len(name)
        if self.n_characters > _MOST_NAMES:
            raise CheckpointError(
                f"all names together must have at most {_MOST_NAMES} characters, got more"
            )
        return name

    def add_tensor(self, node: Node, maker: str, path: Path) -> None:
        name = self.name(path)
        if len(node.arguments) < 4:
            raise CheckpointError(f"{name}: a tensor must have a storage, an offset and strides")
        source, offset, sizes, strides = node.arguments[:4]
        storage = self.storage(source)
        dtype = _dtype(node.arguments[-1]) if maker == _TYPED else storage.dtype
        if isinstance(sizes, Node):  # a torch.Size
            sizes = sizes.arguments[0] if sizes.arguments else None
        if not (_are_integers(sizes) and _are_integers(strides) and _are_integers((offset,))):
            raise CheckpointError(f"{name}: offset, sizes and strides must be integers")
        if dtype in SUB_BYTE_DTYPES:
            self.entries.unplaced.append(name)
            return
        assert isinstance(sizes, tuple) and isinstance(strides, tuple) and isinstance(offset, int)
        itemsize = dtype.itemsize
        try:
            view = _view(
                storage, offset * itemsize, sizes, tuple(s * itemsize for s in strides), itemsize
            )
        except ValueError as error:
            raise CheckpointError(f"{name}: {error}") from error
        self.put(node, view, storage, dtype, sizes, name)

    def put(
        self, node: Node, view: View, storage: Storage, dtype: torch.dtype,
        shape: tuple[int, ...], name: str,
    ) -> None:  # fmt: skip
        text = str(dtype).removeprefix("torch.")
        entry = Entry([name], view, text, shape, storage.location)
        self.tensors[id(node)] = entry
        self.entries.placed.append(entry)

    def storage(self, node: object) -> Storage:
        """The storage that a persistent id ``("storage", class, key, location, n)`` stands for."""
        described = node.arguments[0] if isinstance(node, Node) and node.arguments else None
        if (
            not isinstance(node, Node)
            or node.maker is not PERSISTENT
            or not isinstance(described, tuple)
            or len(described) < 5
        ):
            raise CheckpointError("a tensor must lie in a storage of the archive, got none")
        kind, storage_type, key, location, n_elements = described[:5]
        dtype = _STORAGE_DTYPES.get(storage_type.name) if isinstance(storage_type, Global) else None
        if (
            kind != "storage"
            or dtype is None
            or not isinstance(key, str)
            or not isinstance(location, str)
            or not _are_integers((n_elements,))
            or n_elements < 0
        ):
            raise CheckpointError(
                f"a storage must have a known type, a key and a size, got {key_text(key)}"
            )
        nbytes = n_elements * dtype.itemsize
        known = self.storages.get(key)
        if known is None:
            self.storages[key] = known = Storage(location, self.n_bytes, nbytes, dtype)
            self.n_bytes += nbytes
        elif known.nbytes != nbytes:
            raise CheckpointError(
                f"storage {key!r} must have one size, got {known.nbytes} and {nbytes} bytes"
            )
        return known._replace(dtype=dtype)


def _is_class(node: Node) -> bool:
    """Whether an object stored beside the pickle is a module's class, as before torch 1.6."""
    described = node.arguments[0]
    return isinstance(described, tuple) and described[:1] == ("module",)


def _view(
    storage: Storage, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> View:
    return View(storage.location, storage.address, storage.nbytes, offset, sizes, strides, itemsize)


def _dtype(value: object) -> torch.dtype:
    dtype = _DTYPES.get(value.name) if isinstance(value, Global) else None
    if dtype is None:
        came = value.name if isinstance(value, Global) else type(value).__name__
        raise CheckpointError(f"a tensor must have a type that this torch knows, got {came}")
    return dtype


def _are_integers(values: object) -> bool:
    # Larger ones are no sizes, and Python refuses to print the largest.
    return isinstance(values, tuple) and all(
        type(value) is int and -_LARGEST <= value <= _LARGEST for value in values
    )


def _numbered(values: Sequence[object], text: str = "") -> list[tuple[str, object]]:
    return [(f"{text}[{index}]", value) for index, value in enumerate(values)]


def _contents(node: Node, path: Path) -> list[tuple[str, object]]:
    """What was put into an object after it was made."""
    parts = _numbered(node.items)
    for key, value in node.pairs:
        text = f".{key}" if path is None and _is_attribute(key) else f"[{key_text(key)}]"
        parts += [(f".key({key_text(key)})", key), (text, value)]
    for state in node.state:
        parts += _attributes(state)
    return parts


def key_text(key: object) -> str:
    """How to write a key in a name: itself, if it is a text or a number.

    Parameters
    ----------
    key : object
        From a pickle.

    Returns
    -------
    str
        ``"..."`` for anything that may be endless.

    Examples
    --------
    >>> key_text("a"), key_text(3), key_text((1, 2)), key_text(10**5000)
    ("'a'", '3', '...', '...')
    """
    is_text = isinstance(key, (str, bytes)) and len(key) <= _LONGEST_KEY
    is_number = isinstance(key, (float, bool)) or _are_integers((key,))
    return repr(key) if is_text or is_number else "..."


def _attributes(state: object) -> Iterator[tuple[str, object]]:
    """Attributes that a state gives an object; those of a module without the detour."""
    if not isinstance(state, Node):
        yield ".state", state
        return
    yield from _numbered(state.items, ".state")
    for key, value in state.pairs:
        if key in _MODULE_DICTS and isinstance(value, Node):
            yield from ((f".{_attribute(name)}", part) for name, part in value.pairs)
        else:
            yield f".{_attribute(key)}", value


def _attribute(key: object) -> str:
    return key if _is_attribute(key) else f"[{key_text(key)}]"


def _is_attribute(key: object) -> TypeGuard[str]:
    return isinstance(key, str) and len(key) <= _LONGEST_KEY
