"""How instances of a class are copied: their kind, their state, and how to rebuild them."""

from __future__ import annotations

import copyreg
import enum
import re
import types
import weakref
from collections import OrderedDict
from functools import partial
from typing import Any, cast

import torch

# Kinds of objects: those used as they are, tensors, modules, dictionaries, other containers,
# those copied through the reduce protocol, and those with a ``__deepcopy__``.
ATOM, TENSOR, MODULE, MAPPING, ITEMS, OBJECT, OPAQUE = range(7)

# An entry in the ``__dict__`` of a module that is not part of its state.
NO_STATE = "_compiled_call_impl"

# Types that copy.deepcopy does not copy, and torch types that hold no tensor.
_ATOMIC_TYPES = (
    type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes, type,
    range, slice, property, weakref.ref, re.Pattern, enum.Enum, types.FunctionType,
    types.BuiltinFunctionType, types.ModuleType, types.CodeType, torch.dtype, torch.device,
    torch.layout, torch.memory_format, torch.Size,
)  # fmt: skip
MESH = "torch.distributed.device_mesh"  # processes share a mesh: its tensors never move
_PARAMETRIZED = "torch.nn.utils.parametrize"


_kinds: dict[int, int] = {}  # by the ids of classes, which it does not keep alive


def kind_of(cls: type[Any]) -> int:
    """The kind of the instances of a class, one of the constants above."""
    identity = id(cls)
    kind = _kinds.get(identity)
    if kind is None:
        kind = _kinds[identity] = _kind_of(cls)
        # When a class dies, its kind is deleted before another class can get its id.
        weakref.finalize(cls, _kinds.pop, identity, None).atexit = False
    return kind


def _kind_of(cls: type[Any]) -> int:
    if issubclass(cls, torch.Tensor):
        return TENSOR
    if issubclass(cls, torch.jit.ScriptModule):
        return OPAQUE  # its tensors live in the interpreter
    if issubclass(cls, torch.nn.Module):
        return MODULE
    if cls in (dict, OrderedDict):
        return MAPPING
    if cls in (list, tuple, set, frozenset):
        return ITEMS
    if issubclass(cls, _ATOMIC_TYPES) or cls.__module__ == MESH:
        return ATOM
    return OPAQUE if hasattr(cls, "__deepcopy__") else OBJECT


def slot_names(cls: type[Any]) -> list[str]:
    """Names of the slots of a class and its bases."""
    return cast(list[str], vars(copyreg)["_slotnames"](cls))


def copies_itself(cls: type[Any]) -> bool:
    """Whether a class of modules has a ``__deepcopy__`` of torch: graphs, TorchScript."""
    home = getattr(getattr(cls, "__deepcopy__", None), "__module__", None) or ""
    # The __deepcopy__ of parametrized modules does the same as for every module.
    return home.startswith("torch.") and home != _PARAMETRIZED


def reduced(value: Any) -> tuple[Any, ...] | None:
    """Function, arguments, state, items and pairs to rebuild an object; None: use it as it is."""
    cls = type(value)
    if cls is types.MethodType:  # copy.deepcopy binds the same function to the copy
        return partial(types.MethodType, value.__func__), (value.__self__,), None, None, None
    if getattr(cls.__getstate__, "__module__", None) == _PARAMETRIZED:
        # It forbids pickling, but copies itself as an ordinary module.
        return cls.__new__, (cls,), torch.nn.Module.__getstate__(value), None, None
    reducer = copyreg.dispatch_table.get(cls)
    reduction = reducer(value) if reducer else value.__reduce_ex__(4)
    return (*reduction, None, None, None)[:5] if isinstance(reduction, tuple) else None
