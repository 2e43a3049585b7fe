"""Every value in a module, a mapping or another object that may hold tensors, with its path."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

from .._torch import shows_its_parts
from .._views._view import View
from ._classes import ATOM, NO_STATE, kind_of
from ._traverse import (
    FoundModule,
    FoundTensor,
    Path,
    _attributes,
    _items,
    _members,
    _numbered,
    attributes_of,
    path_text,
)

Source: TypeAlias = torch.nn.Module | Mapping[Any, Any]
"""What the functions on modules take: a module, or a mapping of any depth with tensors in it."""

_STATE = ("_parameters", "_buffers", "_modules", NO_STATE)
_ITEMS = (list, tuple, set, frozenset, deque)
_LEAVES = (torch.Tensor, np.ndarray, View, torch.ScriptObject)


def named_values(source: object, attributes: bool = False) -> Iterator[tuple[Path, Any]]:
    """Tensors, arrays, views, packed weights and modules, in order; tensors under every name.

    Mappings, lists, tuples and sets of any depth are opened. Of modules, the parameters and
    buffers are listed. With `attributes`, attributes of modules, tensors and all other objects are
    followed, too; without, other objects raise `TypeError`. Gradients come after their tensors.
    """
    seen: dict[int, object] = {}  # keeps the objects alive, so that no id is used twice
    todo: list[tuple[Path, Any]] = [(None, source)]
    while todo:
        path, value = todo.pop()
        is_leaf = isinstance(value, _LEAVES)
        if is_leaf:
            yield path, value
        is_new = id(value) not in seen
        seen[id(value)] = value
        if isinstance(value, torch.Tensor):
            contents: Iterable[tuple[str, object]] = _members_of_tensor(
                value, attributes and is_new
            )
        elif is_leaf or not is_new:
            continue
        elif isinstance(value, torch.nn.Module):
            yield path, value
            contents = _members_of_module(value, attributes)
        elif isinstance(value, Mapping):
            contents = _items(value.items(), path is None)
        elif isinstance(value, _ITEMS):
            contents = _numbered(value)
        elif kind_of(type(value)) == ATOM or isinstance(value, np.generic):
            continue
        elif attributes:
            contents = (dict(_members(value)) | dict(_attributes(value))).items()
        else:
            raise TypeError(
                f"{path_text(path)}: a value must be a tensor, a NumPy array, a View, a module, a "
                f"container of these, or a plain number or text, got {type(value).__name__} "
                "(attributes=True follows the attributes of objects)"
            )
        todo += reversed([((path, text) if text else path, member) for text, member in contents])


def contents_of(source: Source) -> tuple[list[FoundTensor], list[FoundModule]]:
    """Parameters, buffers and gradients of a module, or all tensors of a mapping; and the modules.

    Each is listed once.
    """
    tensors: dict[int, FoundTensor] = {}
    modules: list[FoundModule] = []
    for path, value in named_values(source):
        if isinstance(value, torch.Tensor):
            tensors.setdefault(id(value), FoundTensor(value, path))
        elif isinstance(value, torch.nn.Module):
            modules.append((path, value))
    return list(tensors.values()), modules


def _members_of_tensor(tensor: torch.Tensor, attributes: bool) -> Iterator[tuple[str, object]]:
    if tensor.is_leaf and tensor.grad is not None:
        yield ".grad", tensor.grad
    if attributes:
        # The parts of a wrapper belong to it already.
        is_whole = shows_its_parts(tensor)
        inner = tensor.__tensor_flatten__()[0] if is_whole else ()  # type: ignore[attr-defined]
        for name, member in attributes_of(tensor).items():
            if name not in inner:
                yield f".{name}", member


def _members_of_module(module: torch.nn.Module, attributes: bool) -> Iterable[tuple[str, object]]:
    state = module.__dict__
    for members in (module._parameters, module._buffers, module._modules):
        yield from ((f".{name}", member) for name, member in members.items() if member is not None)
    if attributes:
        yield from ((f".{name}", member) for name, member in state.items() if name not in _STATE)
