"""Where the tensors of a pickle of ``torch.save`` lie, found without making any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple, TypeGuard

import torch

from .._errors import CheckpointError
from .._modules._traverse import Path, path_text
from .._views._address import SUB_BYTE_DTYPES
from .._views._view import View
from ._checkpoint_pickle import PERSISTENT, Global, Node
from ._entry import Entries, Entry

# Names are looked up in tables, never as attributes: modules import things when they are asked.
_DTYPES = {f"torch.{k}": v for k, v in vars(torch).items() if isinstance(v, torch.dtype)}
_STORAGE_DTYPES = {
    f"torch.{name}": dtype for dtype, name in torch.storage._dtype_to_storage_type_map().items()
} | {"torch.storage.UntypedStorage": torch.uint8}
_UTILS = "torch._utils."
_TYPED = _UTILS + "_rebuild_tensor_v3"  # its dtype is its last argument
_TENSORS = (
    _UTILS + "_rebuild_tensor", _UTILS + "_rebuild_tensor_v2", _TYPED, _UTILS + "_rebuild_qtensor"
)  # fmt: skip
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


class TensorWalk:
    """Walk over a tree: containers once, tensors under every name."""

    def __init__(self, root: object) -> None:
        self.entries = Entries()
        self.storages: dict[str, Storage] = {}
        self._n_bytes = 0
        self._n_characters = 0
        self._wrapped: dict[int, object] = {}  # what a parameter is made from
        seen: set[int] = set()
        todo: list[tuple[object, Path, int]] = [(root, None, 0)]
        while todo:
            value, path, depth = todo.pop()
            if not isinstance(value, (tuple, Node)):
                continue
            if depth > _MAX_DEPTH:
                raise CheckpointError(
                    f"objects must be nested at most {_MAX_DEPTH} deep, got a deeper one"
                )
            entry = self.entries.of(value)
            if entry is not None:
                entry.names.append(self._name(path))
            elif id(value) in self._wrapped:
                todo.append((self._wrapped[id(value)], path, depth + 1))
            elif id(value) not in seen:
                seen.add(id(value))
                todo += [
                    (part, (path, text) if text else path, depth + 1)
                    for text, part in reversed(self._parts(value, path))
                ]

    def _parts(self, value: tuple[object, ...] | Node, path: Path) -> list[tuple[str, object]]:
        """What is inside of an object; tensors are noted down on the way."""
        if isinstance(value, tuple):
            return _numbered(value)
        maker = value.maker.name if isinstance(value.maker, Global) else ""
        arguments = value.arguments
        if maker in _TENSORS:
            self._add_tensor(value, maker, path)
            return _numbered(arguments, ".arguments")[1:]
        if maker == _WITHOUT_STORAGE:
            self.entries.unplaced.append(self._name(path))
            return []
        if value.maker is PERSISTENT:
            # Before torch 1.6 the classes of modules were stored beside the pickle, too.
            if not (isinstance(arguments[0], tuple) and arguments[0][:1] == ("module",)):
                storage = self._storage(value)
                sizes = (storage.nbytes,)
                self._put(value, self._name(path), storage, torch.uint8, 0, sizes, (1,))
            return []
        parts: list[tuple[str, object]] = [(".arguments", arguments)]
        if maker == _FROM_TYPE and len(arguments) == 4 and isinstance(arguments[2], tuple):
            made = self._wrapped[id(value)] = Node(arguments[0], arguments[2])
            parts = [("", made), (".state", arguments[3])]
        elif maker in _WRAPPERS and arguments:
            self._wrapped[id(value)] = arguments[0]
            parts = [("", arguments[0]), *_numbered(arguments, ".arguments")[1:]]
        return [*parts, *_contents(value, path)]

    def _name(self, path: Path) -> str:
        name = path_text(path) or "<root>"
        self._n_characters += len(name)
        if self._n_characters > _MOST_NAMES:
            raise CheckpointError(
                f"all names together must have at most {_MOST_NAMES} characters, got more"
            )
        return name

    def _add_tensor(self, node: Node, maker: str, path: Path) -> None:
        name = self._name(path)
        if len(node.arguments) < 4:
            raise CheckpointError(f"{name}: a tensor must have a storage, an offset and strides")
        source, offset, sizes, strides = node.arguments[:4]
        storage = self._storage(source)
        dtype = _dtype(node.arguments[-1]) if maker == _TYPED else storage.dtype
        if isinstance(sizes, Node):  # a torch.Size
            sizes = sizes.arguments[0] if sizes.arguments else None
        if not (_are_integers(sizes) and _are_integers(strides) and _is_integer(offset)):
            raise CheckpointError(f"{name}: offset, sizes and strides must be integers")
        if prod(sizes) > _LARGEST:
            raise CheckpointError(
                f"{name}: a tensor must have at most {_LARGEST} elements, got more"
            )
        if dtype in SUB_BYTE_DTYPES:
            self.entries.unplaced.append(name)
        else:
            self._put(node, name, storage, dtype, offset, sizes, strides)

    def _put(
        self, node: Node, name: str, storage: Storage, dtype: torch.dtype, offset: int,
        sizes: tuple[int, ...], strides: tuple[int, ...],
    ) -> None:  # fmt: skip
        size = dtype.itemsize
        try:
            view = View(storage.location, storage.address, storage.nbytes, offset * size,
                        sizes, [stride * size for stride in strides], size)  # fmt: skip
        except ValueError as error:
            raise CheckpointError(f"{name}: {error}") from error
        text = str(dtype).removeprefix("torch.")
        self.entries.put(node, Entry([name], view, text, view.sizes, storage.location))

    def _storage(self, node: object) -> Storage:
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
            or not _is_integer(n_elements)
            or n_elements < 0
        ):
            raise CheckpointError(
                f"a storage must have a known type, a key and a size, got {key_text(key)}"
            )
        nbytes = n_elements * dtype.itemsize
        known = self.storages.get(key)
        if known is None:
            self.storages[key] = known = Storage(location, self._n_bytes, nbytes, dtype)
            self._n_bytes += nbytes
        elif known.nbytes != nbytes:
            raise CheckpointError(
                f"storage {key!r} must have one size, got {known.nbytes} and {nbytes} bytes"
            )
        return known._replace(dtype=dtype)


def _dtype(value: object) -> torch.dtype:
    dtype = _DTYPES.get(value.name) if isinstance(value, Global) else None
    if dtype is None:
        came = value.name if isinstance(value, Global) else type(value).__name__
        raise CheckpointError(f"a tensor must have a type that this torch knows, got {came}")
    return dtype


def _is_integer(value: object) -> TypeGuard[int]:
    # Larger ones are no sizes, and Python refuses to print the largest.
    return type(value) is int and -_LARGEST <= value <= _LARGEST


def _are_integers(values: object) -> TypeGuard[tuple[int, ...]]:
    return isinstance(values, tuple) and all(map(_is_integer, values))


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
    """A key in a name: itself if it is a short text or a number; others may be endless.

    >>> key_text("a"), key_text(3), key_text((1, 2)), key_text(10**5000)
    ("'a'", '3', '...', '...')
    """
    is_text = isinstance(key, (str, bytes)) and len(key) <= _LONGEST_KEY
    return repr(key) if is_text or isinstance(key, (float, bool)) or _is_integer(key) else "..."


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
