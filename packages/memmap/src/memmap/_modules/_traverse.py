"""Every tensor that a deep copy of a module reaches, with its path."""

from __future__ import annotations

import copyreg
import types
from collections import deque
from collections.abc import Iterable, Iterator
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
)
from ._rebuild import slots_of

Path: TypeAlias = "tuple[Path, str] | None"
"""Linked list ``(path of the owner, text)``: joined only when somebody wants to read it."""


class Found(NamedTuple):
    """A tensor, and where it was found first.

    Attributes
    ----------
    tensor : torch.Tensor
        The tensor.
    path : Path
        Where it was found; `path_text` spells it out.
    owned : bool
        Whether ordinary objects lead to it. An object with a ``__deepcopy__`` of its own decides
        itself what becomes of the tensors in it.
    """

    tensor: torch.Tensor
    path: Path
    owned: bool


def path_text(path: Path) -> str:
    """Path as one would write it after the module: ``encoder.weight.grad``.

    Parameters
    ----------
    path : Path
        A linked list of texts.

    Returns
    -------
    str
        The texts joined, without the first dot.

    Examples
    --------
    >>> path_text(((None, ".layers"), "[0]"))
    'layers[0]'
    """
    texts = []
    while path is not None:
        path, text = path
        texts.append(text)
    return "".join(reversed(texts)).removeprefix(".")


class Traversal(NamedTuple):
    """What a walk found.

    Attributes
    ----------
    found : list of Found
        Every tensor once: nearest first, those of modules' states before those in other
        attributes, and those that are not owned last.
    seen : set of int
        Ids of all objects that were met, tensors included.
    alive : list
        Objects that exist for the walk only: as long as this is kept, `seen` is true.
    attributed : set of int
        Ids of the tensors that carry a gradient or attributes.
    """

    found: list[Found]
    seen: set[int]
    alive: list[object]
    attributed: set[int]


def traverse(root: object, path: Path = None) -> Traversal:
    """Tensors that ``copy.deepcopy(root)`` reaches, each once.

    Objects are followed as a deep copy follows them: through their reduce protocol, so that
    what ``__getstate__`` drops is not reached, and objects shared by two owners are met once.

    Parameters
    ----------
    root : object
        A module, most often.
    path : Path, optional
        What all paths begin with.

    Returns
    -------
    Traversal
        The tensors and all other objects that were met.

    Examples
    --------
    >>> layer = torch.nn.Linear(2, 2)
    >>> layer.history = [torch.zeros(3)]
    >>> [path_text(found.path) for found in traverse(layer).found]
    ['weight', 'bias', 'history[0]']
    """
    walk = _Walk()
    walk.meet(root, path, True)
    walk.run()
    return Traversal(walk.found, walk.seen, walk.alive, walk.attributed)


_new_tuple = tuple.__new__  # quicker than that of a named tuple, for each of many tensors
_TENSOR_DICTS = ("_parameters", "_buffers")
_HANDLED = (*_TENSOR_DICTS, "_modules", NO_STATE)


class _Walk:
    """Breadth-first walk: states of modules first, objects that copy themselves last."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        self.seen: set[int] = set()
        self.alive: list[object] = []  # temporary objects, whose ids must not be used again
        self.attributed: set[int] = set()
        self.modules: deque[tuple[torch.nn.Module, Path, bool]] = deque()
        self.others: deque[tuple[Any, Path]] = deque()
        self.opaque: deque[tuple[Any, Path]] = deque()

    def run(self) -> None:
        while True:
            if self.modules:
                self.open_module(*self.modules.popleft())
            elif self.others:
                value, path = self.others.popleft()
                self.meet_all(_parts(value, self.alive), path, True)
            elif self.opaque:
                value, path = self.opaque.popleft()
                self.meet_all(_attributes(value), path, False)
            else:
                return

    def meet_all(self, parts: Iterable[tuple[str, object]], path: Path, owned: bool) -> None:
        for text, part in parts:
            self.meet(part, (path, text), owned)

    def meet(self, value: object, path: Path, owned: bool) -> None:
        kind = kind_of(type(value))
        if kind == ATOM or id(value) in self.seen:
            return
        if kind == TENSOR:
            self.meet_tensor(value, path, owned)  # type: ignore[arg-type]  # see kind_of
            return
        self.seen.add(id(value))
        if kind == MODULE:
            self.modules.append((value, path, owned))  # type: ignore[arg-type]  # see kind_of
        elif kind == OPAQUE or not owned:
            self.opaque.append((value, path))
        elif kind == OBJECT or value:
            self.others.append((value, path))

    def meet_tensor(self, tensor: torch.Tensor, path: Path, owned: bool) -> None:
        identity = id(tensor)
        if identity in self.seen:
            return
        self.seen.add(identity)
        self.found.append(_new_tuple(Found, (tensor, path, owned)))
        if tensor.is_leaf and (grad := tensor.grad) is not None:
            self.attributed.add(identity)
            self.meet_tensor(grad, (path, ".grad"), owned)
        if attributes := tensor.__dict__:
            self.attributed.add(identity)
            self.meet_all(_dotted(attributes), path, owned)
        if type(tensor) in PLAIN_TENSORS:
            return
        for name in slots_of(tensor):
            self.attributed.add(identity)
            self.meet(getattr(tensor, name), (path, f".{name}"), owned)

    def open_module(self, module: torch.nn.Module, path: Path, owned: bool) -> None:
        if has_plain_state(type(module)) or copies_itself(type(module)):
            state: Any = module.__dict__
        else:
            state = _state_of(module, self.alive)
            if not isinstance(state, dict):
                self.meet(state, path, owned)
                return
        for name in _TENSOR_DICTS:
            for key, tensor in state.get(name, {}).items():
                if tensor is not None:
                    self.meet_tensor(tensor, (path, f".{key}"), owned)
        for key, child in state.get("_modules", {}).items():
            if child is not None:
                self.meet(child, (path, f".{key}"), owned)
        for key, value in state.items():
            if kind_of(type(value)) != ATOM and key not in _HANDLED:
                self.meet(value, (path, f".{key}"), owned)


def _dotted(attributes: dict[Any, Any]) -> Iterator[tuple[str, object]]:
    for name, value in attributes.items():
        yield f".{name}", value


def _attributes(value: Any) -> Iterator[tuple[str, object]]:
    """What an object that copies itself holds, as far as containers and attributes tell."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    yield from _dotted(getattr(value, "__dict__", {}))
    for name in copyreg._slotnames(type(value)):  # type: ignore[attr-defined]  # not in the stubs
        if hasattr(value, name):
            yield f".{name}", getattr(value, name)


def _parts(value: Any, alive: list[object]) -> Iterator[tuple[str, object]]:
    """What a deep copy of an ordinary object copies, too."""
    kind = kind_of(type(value))
    if kind == MAPPING:
        for key, item in value.items():
            yield f".key({key!r})", key
            yield f"[{key!r}]", item
    elif kind == ITEMS:
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif has_plain_state(type(value)) and hasattr(value, "__dict__"):
        yield from _dotted(value.__dict__)
    else:
        yield from _reduced_parts(value, alive)


def _reduced_parts(value: Any, alive: list[object]) -> Iterator[tuple[str, object]]:
    reduced = _reduce(value, alive)
    if not isinstance(reduced, tuple):
        return
    _, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    names = {id(part): text for text, part in (*_members(value), *_attributes(value))}
    for index, part in enumerate(arguments):
        yield names.get(id(part), f".<argument {index}>"), part
    # Slots come as a second dictionary: (attributes or None, slots).
    for index, part in enumerate(state if isinstance(state, tuple) else [state]):
        if isinstance(part, dict) and id(part) not in names:
            yield from _dotted(part)
        else:
            yield names.get(id(part), f".<state {index}>"), part
    yield from ((f"[{index}]", item) for index, item in enumerate(items or ()))
    for key, item in pairs or ():
        yield f".key({key!r})", key
        yield f"[{key!r}]", item


def _members(value: Any) -> Iterator[tuple[str, object]]:
    """What types written in C show of themselves, as the arguments of a ``functools.partial``."""
    for cls in type(value).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType) and hasattr(value, name):
                yield f".{name}", getattr(value, name)


def _state_of(module: torch.nn.Module, alive: list[object]) -> object:
    reduced = _reduce(module, alive)
    return reduced[2] if isinstance(reduced, tuple) and len(reduced) > 2 else None


def _reduce(value: Any, alive: list[object]) -> object:
    reducer = copyreg.dispatch_table.get(type(value))
    try:
        reduced: object = reducer(value) if reducer else value.__reduce_ex__(4)
    except TypeError:
        return None  # what cannot be reduced cannot be copied: the copy itself will say so
    alive.append(reduced)
    return reduced
