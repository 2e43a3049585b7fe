"""Finding every tensor that a deep copy of a module reaches, with its path."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch

from .._views._address import PLAIN_TENSORS
from ._classes import (
    ATOM,
    ITEMS,
    MAPPING,
    MODULE,
    NO_STATE,
    OBJECT,
    OPAQUE,
    TENSOR,
    copies_itself,
    has_plain_state,
    kind_of,
    reduced,
    slot_names,
)

Path: TypeAlias = "tuple[Path, str] | None"
"""Linked list ``(path of the owner, text)``; joined only when the text is needed."""


FoundModule: TypeAlias = tuple[Path, torch.nn.Module]
"""A module and its first path."""


class FoundTensor(NamedTuple):
    """A tensor, its first path, and whether no object that copies itself owns it."""

    tensor: torch.Tensor
    path: Path
    owned: bool = True


def path_text(path: Path) -> str:
    """The path as in source code after the module: ``encoder.weight.grad``."""
    texts = []
    while path is not None:
        path, text = path
        texts.append(text)
    return "".join(reversed(texts)).removeprefix(".")


def is_step_count(path: Path) -> bool:
    """Whether a path ends as that of the count of steps in the state of an optimizer."""
    match path:
        case (((_, ".state" | "['state']"), _), "['step']"):
            return True
    return False


def traverse(root: object, path: Path = None) -> Traversal:
    """Tensors and modules that ``copy.deepcopy(root)`` reaches, nearest first, each once.

    Objects are followed as in a deep copy: through their reduce protocol. So tensors that
    ``__getstate__`` drops are not reached.
    """
    traversal = Traversal()
    traversal.meet(root, path, True)
    traversal.run()
    return traversal


_TENSOR_DICTS = ("_parameters", "_buffers")
_HANDLED = (*_TENSOR_DICTS, "_modules", NO_STATE)


class Traversal:
    """A breadth-first walk: states of modules first, objects that copy themselves last."""

    def __init__(self) -> None:
        self.tensors: list[FoundTensor] = []
        self.modules: list[FoundModule] = []
        self.seen: set[int] = set()  # ids of all objects that were met, tensors included
        self._alive: list[object] = []  # keeps temporary objects, so that no id is used twice
        # Objects still to open: modules, other objects, and objects that copy themselves.
        self._queues: list[deque[Callable[[], None]]] = [deque(), deque(), deque()]

    def run(self) -> None:
        while queue := next(filter(None, self._queues), None):
            queue.popleft()()

    def meet_all(self, members: Iterable[tuple[str, object]], path: Path, owned: bool) -> None:
        for text, member in members:
            self.meet(member, (path, text), owned)

    def meet(self, value: Any, path: Path, owned: bool) -> None:
        kind = kind_of(type(value))
        if kind == ATOM or id(value) in self.seen:
            return
        if kind == TENSOR:
            self.meet_tensor(value, path, owned)
            return
        self.seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            self.modules.append((path, value))
        if kind == MODULE:
            self._queues[0].append(partial(self.open_module, value, path, owned))
        elif kind == OPAQUE or not owned:
            self._queues[2].append(partial(self.meet_all, _attributes(value), path, False))
        elif kind == OBJECT or value:
            self._queues[1].append(partial(self.meet_all, self.members_of(value, path), path, True))

    def meet_tensor(self, tensor: torch.Tensor, path: Path, owned: bool) -> None:
        if id(tensor) in self.seen:
            return
        self.seen.add(id(tensor))
        self.tensors.append(FoundTensor(tensor, path, owned))
        if tensor.is_leaf and (grad := tensor.grad) is not None:
            self.meet_tensor(grad, (path, ".grad"), owned)
        self.meet_all(_dotted(attributes_of(tensor)), path, owned)

    def open_module(self, module: torch.nn.Module, path: Path, owned: bool) -> None:
        state: Any = module.__dict__
        if not (has_plain_state(type(module)) or copies_itself(type(module))):
            state = self._reduced(module)[2]
            if not isinstance(state, dict):
                self.meet(state, path, owned)
                return
        for name in _TENSOR_DICTS:
            for key, tensor in state.get(name, {}).items():
                if tensor is not None:
                    self.meet_tensor(tensor, (path, f".{key}"), owned)
        self.meet_all(_dotted(state.get("_modules", {})), path, owned)
        for key, value in state.items():
            if kind_of(type(value)) != ATOM and key not in _HANDLED:
                self.meet(value, (path, f".{key}"), owned)

    def members_of(self, value: Any, path: Path = None) -> Iterator[tuple[str, object]]:
        """The members of an ordinary object that a deep copy copies, too."""
        kind = kind_of(type(value))
        if kind == MAPPING:
            yield from _items(value.items(), path is None)
        elif kind == ITEMS:
            yield from _numbered(value)
        elif has_plain_state(type(value)):
            yield from _dotted(getattr(value, "__dict__", {}))
        else:
            yield from self.reduced_members(value)

    def reduced_members(self, value: object) -> Iterator[tuple[str, object]]:
        _, arguments, state, items, pairs = self._reduced(value)
        names = {id(member): text for text, member in (*_members(value), *_attributes(value))}
        for index, member in enumerate(arguments):
            yield names.get(id(member), f".<argument {index}>"), member
        # Slots come as a second dictionary: (attributes or None, slots).
        for index, member in enumerate(state if isinstance(state, tuple) else [state]):
            if isinstance(member, dict) and id(member) not in names:
                yield from _dotted(member)
            else:
                yield names.get(id(member), f".<state {index}>"), member
        yield from _numbered(items or ())
        yield from _items(pairs or ())

    def _reduced(self, value: object) -> tuple[Any, ...]:
        try:
            reduction = reduced(value)
        except Exception:  # a class may raise anything
            reduction = None  # an object that cannot be reduced makes the copy itself raise later
        self._alive.append(reduction)
        return reduction or (None, (), None, None, None)


def attributes_of(tensor: torch.Tensor) -> dict[str, Any]:
    """Attributes of a tensor in its ``__dict__`` and in its slots."""
    attributes = tensor.__dict__
    if type(tensor) in PLAIN_TENSORS:
        return attributes
    return attributes | _slots(tensor)


def _slots(value: object) -> dict[str, Any]:
    names = slot_names(type(value))
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _attributes(value: Any) -> Iterator[tuple[str, object]]:
    """Contents of an object that copies itself, as far as items and attributes show them."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from _numbered(value)
    yield from _dotted(getattr(value, "__dict__", {}))
    yield from _dotted(_slots(value))


def _members(value: object) -> Iterator[tuple[str, object]]:
    """Members that C types expose, such as the arguments of a ``functools.partial``."""
    for cls in type(value).__mro__:
        for name, member in vars(cls).items():
            is_member = isinstance(member, types.MemberDescriptorType) and name != "__dict__"
            if is_member and hasattr(value, name):
                yield f".{name}", getattr(value, name)


def _dotted(attributes: dict[Any, Any]) -> Iterator[tuple[str, object]]:
    return ((f".{name}", value) for name, value in attributes.items())


def _numbered(items: Iterable[object]) -> Iterator[tuple[str, object]]:
    return ((f"[{index}]", item) for index, item in enumerate(items))


def _items(
    pairs: Iterable[tuple[object, object]], is_root: bool = False
) -> Iterator[tuple[str, object]]:
    """Keys that are neither text nor numbers may hold tensors; they are named by their number."""
    for index, (key, item) in enumerate(pairs):
        if isinstance(key, (str, bytes, int, float)) or key is None:
            yield (f".{key}" if is_root and isinstance(key, str) else f"[{key!r}]"), item
        else:
            yield f".key({index})", key
            yield f"[key {index}]", item
