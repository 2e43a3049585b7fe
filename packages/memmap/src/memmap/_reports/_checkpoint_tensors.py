"""Finding the tensors in a pickle of ``torch.save``, without making any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple, TypeAlias, TypeGuard

import torch

from .._errors import CheckpointError
from .._modules._classes import MESH
from .._modules._traverse import Path, path_text
from .._torch import storage_names
from .._views._address import PACKED_DTYPES
from .._views._view import View
from ._checkpoint_pickle import DICT, LIST, PERSISTENT, SET, Global, Node
from ._numbers import Entries, Entry

Members: TypeAlias = Iterator[tuple[str, object]]

# Names are looked up in tables, never as attributes, because a module may import on access.
DTYPES = {f"torch.{k}": v for k, v in vars(torch).items() if isinstance(v, torch.dtype)}
NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPES.values()}
_STORAGE_DTYPES = {f"torch.{name}": dtype for dtype, name in storage_names().items()} | {
    "torch.storage.UntypedStorage": torch.uint8
}
_UTILS = "torch._utils."
_TYPED = _UTILS + "_rebuild_tensor_v3"  # the dtype is the last argument
_TENSORS = (
    _UTILS + "_rebuild_tensor", _UTILS + "_rebuild_tensor_v2", _TYPED, _UTILS + "_rebuild_qtensor"
)  # fmt: skip
_WITHOUT_STORAGE = _UTILS + "_rebuild_meta_tensor_no_storage"
_WRAPPERS = (_UTILS + "_rebuild_parameter", _UTILS + "_rebuild_parameter_with_state")
_FROM_TYPE = "torch._tensor._rebuild_from_type_v2"
_CONTAINERS = {DICT, LIST, SET, Global("collections.OrderedDict")}
_MODULE_DICTS = ("_parameters", "_buffers", "_modules")
_MAX_DEPTH = 1000
# A short key in the file may occur many times in the name of every tensor.
_LONGEST_KEY = 1000
_MOST_NAMES = 1 << 25
_LARGEST = 1 << 62


class Storage(NamedTuple):
    """A storage, which is also an address space: its key, and the device it was saved from."""

    key: str
    location: str
    nbytes: int
    dtype: torch.dtype


class TensorWalk:
    """A walk over a tree that meets containers once, and tensors under every name.

    The mesh of distributed tensors describes processes: its tensors are left out, unless
    `opens_meshes` is set.
    """

    opens_meshes = False

    def __init__(self, root: object) -> None:
        self.entries = Entries()
        self.storages: dict[str, Storage] = {}
        self._n_characters = 0
        self._wrapped: dict[int, object] = {}  # the data of each parameter
        seen: set[int] = set()
        todo: list[tuple[object, Path, int]] = [(root, None, 0)]
        while todo:
            value, path, depth = todo.pop()
            if not _has_members(value):
                continue
            if depth > _MAX_DEPTH:
                raise CheckpointError(
                    f"objects must be nested at most {_MAX_DEPTH} deep, got a deeper one"
                )
            if id(value) not in seen:
                seen.add(id(value))
                members = [
                    (member, (path, text) if text else path, depth + 1)
                    for text, member in self._members(value, path)
                ]
                todo += reversed(members)
            elif (entry := self.entries.of(value)) is not None:
                entry.names.append(self._name(path))
            elif id(value) in self._wrapped:
                todo.append((self._wrapped[id(value)], path, depth + 1))

    def _members(self, value: tuple[object, ...] | Node, path: Path) -> Members:
        """The contents of an object. Tensors are noted on the way."""
        if isinstance(value, tuple):
            yield from _numbered(value)
            return
        maker = value.maker.name if isinstance(value.maker, Global) else ""
        if maker.startswith(f"{MESH}.") and not self.opens_meshes:
            return
        if maker in _TENSORS:
            self._add_tensor(value, maker, self._name(path))
            # The first four are its storage, offset, sizes and strides.
            yield from _numbered(value.arguments, ".arguments", first=4)
        elif maker == _WITHOUT_STORAGE:
            self.entries.unplaced.append(self._name(path))
        elif value.maker is PERSISTENT:
            storage = self._storage(value)
            sizes = (storage.nbytes,)
            self._put(value, self._name(path), storage, torch.uint8, 0, sizes, (1,))
        else:
            match maker, value.arguments:
                case name, (function, _, tuple(inner), state) if name == _FROM_TYPE:
                    self._wrapped[id(value)] = made = Node(function, inner)
                    yield from (("", made), (".state", state))
                case name, (data, *_) if name in _WRAPPERS:
                    self._wrapped[id(value)] = data
                    yield from (("", data), *_numbered(value.arguments, ".arguments", first=1))
                case _:
                    yield ".arguments", value.arguments
            yield from _contents(value, path)

    def _name(self, path: Path) -> str:
        name = path_text(path) or "<root>"
        self._n_characters += len(name)
        if self._n_characters > _MOST_NAMES:
            raise CheckpointError(
                f"all names together must have at most {_MOST_NAMES} characters, got more"
            )
        return name

    def _add_tensor(self, node: Node, maker: str, name: str) -> None:
        if len(node.arguments) < 4:
            raise CheckpointError(f"{name}: a tensor must have a storage, an offset and strides")
        source, offset, sizes, strides = node.arguments[:4]
        storage = self._storage(source)
        dtype = storage.dtype
        if maker == _TYPED:
            typed = node.arguments[-1]
            came = typed.name if isinstance(typed, Global) else type(typed).__name__
            if came not in DTYPES:
                raise CheckpointError(
                    f"a tensor must have a type that this version of torch has, got {came}"
                )
            dtype = DTYPES[came]
        if isinstance(sizes, Node):  # a torch.Size
            sizes = sizes.arguments[0] if sizes.arguments else None
        if not (are_integers(sizes) and are_integers(strides) and _is_integer(offset)):
            raise CheckpointError(f"{name}: offset, sizes and strides must be integers")
        if prod(sizes) > _LARGEST:
            raise CheckpointError(
                f"{name}: a tensor must have at most {_LARGEST} elements, got more"
            )
        if dtype in PACKED_DTYPES:
            self.entries.unplaced.append(name)
        else:
            self._put(node, name, storage, dtype, offset, sizes, strides)

    def _put(
        self, node: Node, name: str, storage: Storage, dtype: torch.dtype, offset: int,
        sizes: tuple[int, ...], strides: tuple[int, ...],
    ) -> None:  # fmt: skip
        size = dtype.itemsize
        try:
            steps = [stride * size for stride in strides]
            view = View(storage.key, 0, storage.nbytes, offset * size, sizes, steps, size)
        except ValueError as error:
            raise CheckpointError(f"{name}: {error}") from error
        self.entries.put(node, Entry([name], view, NAMES[dtype], view.sizes, storage.location))

    def _storage(self, node: object) -> Storage:
        """The storage for a persistent id ``("storage", class, key, location, n)``."""
        described = node.arguments[0] if isinstance(node, Node) and node.maker is PERSISTENT else ()
        if not isinstance(described, tuple) or len(described) < 5:
            raise CheckpointError("a tensor must lie in a storage of the archive, got none")
        kind, class_, key, location, n_elements = described[:5]
        dtype = _STORAGE_DTYPES.get(class_.name) if isinstance(class_, Global) else None
        if (
            kind != "storage"
            or dtype is None
            or not isinstance(key, str)
            or not isinstance(location, str)
            or not _is_integer(n_elements)
            or n_elements < 0
        ):
            raise CheckpointError(
                f"a storage must have a known type, a key and a size, got {key_text(key)}"
            )
        nbytes = n_elements * dtype.itemsize
        storage = self.storages.get(key)
        if storage is None:
            storage = self.storages[key] = Storage(key, location, nbytes, dtype)
        if storage.nbytes != nbytes:
            raise CheckpointError(
                f"storage {key!r} must have one size, got {storage.nbytes} and {nbytes} bytes"
            )
        return storage if storage.dtype is dtype else storage._replace(dtype=dtype)


def _is_integer(value: object) -> TypeGuard[int]:
    # Sizes cannot be larger, and Python refuses to print very large integers.
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return -_LARGEST <= value <= _LARGEST


def are_integers(values: object) -> TypeGuard[tuple[int, ...]]:
    """Whether a value is a tuple of integers of which none is absurdly large."""
    return isinstance(values, tuple) and all([_is_integer(value) for value in values])


def _has_members(value: object) -> TypeGuard[tuple[object, ...] | Node]:
    """Whether a value may contain tensors: most values do not, such as the hooks of a module."""
    if type(value) is Node:
        filled = value.pairs or value.arguments or value.items or value.state
        # Other makers are not hashed, because a tuple may have very many parts.
        return bool(filled) or type(value.maker) is not Global or value.maker not in _CONTAINERS
    return isinstance(value, tuple) and bool(value)


def _numbered(values: Sequence[object], text: str = "", first: int = 0) -> Members:
    """Yield, in order, the values that may contain tensors. There may be very many."""
    for index in range(first, len(values)):
        if _has_members(values[index]):
            yield f"{text}[{index}]", values[index]


def _contents(node: Node, path: Path) -> Members:
    """The contents of an object; attributes of modules have the short names that users know."""
    yield from _numbered(node.items)
    for key, value in node.pairs:
        if _has_members(key):
            yield f".key({key_text(key)})", key
        if _has_members(value):
            yield (_attribute(key) if path is None else f"[{key_text(key)}]"), value
    for state in node.state:
        if not isinstance(state, Node):
            yield ".state", state
            continue
        yield from _numbered(state.items, ".state")
        for key, value in state.pairs:
            if not _has_members(value):
                continue
            if key in _MODULE_DICTS and isinstance(value, Node):
                yield from ((_attribute(name), member) for name, member in value.pairs)
            else:
                yield _attribute(key), value


def key_text(key: object) -> str:
    """A key as part of a name: itself if it is a short text or a number, else an ellipsis.

    >>> key_text("a"), key_text(3), key_text((1, 2)), key_text(10**5000)
    ("'a'", '3', '...', '...')
    """
    is_text = isinstance(key, (str, bytes)) and len(key) <= _LONGEST_KEY
    return repr(key) if is_text or isinstance(key, (float, bool)) or _is_integer(key) else "..."


def _attribute(key: object) -> str:
    is_name = isinstance(key, str) and len(key) <= _LONGEST_KEY
    return f".{key}" if is_name else f"[{key_text(key)}]"
