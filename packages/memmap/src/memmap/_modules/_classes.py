"""How instances of a class are copied: their kind, their state, and how to rebuild them."""

from __future__ import annotations

import copyreg
import enum
import re
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

import torch

Answer = TypeVar("Answer", bound=int)

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
_REDUCERS = ("__reduce_ex__", "__reduce__")


def cached_by_class(question: Callable[[type[Any]], Answer]) -> Callable[[type[Any]], Answer]:
    """Cache the answers of a function of classes, without keeping the classes alive."""
    answers: dict[int, Answer] = {}

    @wraps(question)
    def ask(cls: type[Any]) -> Answer:
        identity = id(cls)
        answer = answers.get(identity)
        if answer is None:
            answer = answers[identity] = question(cls)
            # When a class dies, its answer is deleted before another class can get its id.
            weakref.finalize(cls, answers.pop, identity, None).atexit = False
        return answer

    return ask


@cached_by_class
def kind_of(cls: type[Any]) -> int:
    """The kind of the instances of a class, one of the constants above."""
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


def has_plain_state(cls: type[Any]) -> bool:
    """Whether instances are copied through their ``__dict__`` and nothing else."""
    # A reducer may be registered at any time.
    return cls not in copyreg.dispatch_table and _takes_no_part_in_reduce(cls)


@cached_by_class
def _takes_no_part_in_reduce(cls: type[Any]) -> bool:
    # The state of a module is its __dict__ without the NO_STATE entry. A parametrized module
    # forbids pickling, but copies itself in the same way. Lists and dictionaries also have items.
    ordinary = (object.__getstate__, getattr(torch.nn.Module, "__getstate__", None))
    return (
        (cls.__getstate__ in ordinary or cls.__getstate__.__module__ == _PARAMETRIZED)
        and all(getattr(cls, name) is getattr(object, name) for name in _REDUCERS)
        and not hasattr(cls, "__getnewargs_ex__")
        and not hasattr(cls, "__getnewargs__")
        and not slot_names(cls)
        and not issubclass(cls, (list, dict))
    )


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
    if has_plain_state(cls):
        attributes = getattr(value, "__dict__", {})
        state = {name: part for name, part in attributes.items() if name != NO_STATE}
        return cls.__new__, (cls,), state, None, None
    reducer = copyreg.dispatch_table.get(cls)
    reduction = reducer(value) if reducer else value.__reduce_ex__(4)
    return (*reduction, None, None, None)[:5] if isinstance(reduction, tuple) else None
