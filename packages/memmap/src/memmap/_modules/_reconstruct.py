"""Copying modules and the objects in them, after their tensors have been copied."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from ._classes import copies_itself, reduced
from ._named import Source

M = TypeVar("M", bound=Source)

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device})


def reconstruct(
    module: M, memo: dict[int, Any], complete: Callable[[], object] = lambda: None
) -> M:
    """Deep copy through the reduce protocol, without the ``__deepcopy__`` of the module itself.

    The memo holds the copies of all tensors. Their attributes may lead back to the module, so
    `complete` copies these when the copy is in the memo, before it gets its state.
    """
    copied: Any = module
    if not isinstance(module, torch.nn.Module):
        complete()
        return copy.deepcopy(module, memo)
    if copies_itself(type(module)):
        copied = memo[id(module)] = copied.__deepcopy__(memo)
        complete()
        return cast(M, copied)
    reduction = reduced(module)
    if reduction is None:
        complete()
        return module
    make, arguments, state, items, pairs = reduction
    copied = make(*[copy.deepcopy(argument, memo) for argument in arguments])
    memo[id(module)] = copied
    # The memo keeps these objects alive, so that their ids stay valid.
    memo.setdefault(id(memo), []).append((module, reduction))
    complete()
    if state is not None:
        copied.__setstate__(_copied(state, memo))
    for item in items or ():
        copied.append(copy.deepcopy(item, memo))
    for key, value in pairs or ():
        copied[copy.deepcopy(key, memo)] = copy.deepcopy(value, memo)
    return cast(M, copied)


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """The same as `copy.deepcopy`, in half the time for the usual contents of modules."""
    cls = type(value)
    if cls in _ATOMS:
        return value
    copied = memo.get(id(value))
    if copied is not None:
        return copied
    if cls is dict or (cls is OrderedDict and not value.__dict__):
        made = memo[id(value)] = cls()
        for key, item in value.items():
            made[_copied(key, memo)] = _copied(item, memo)
        return made
    if isinstance(value, torch.nn.Module) and not hasattr(cls, "__deepcopy__"):
        return reconstruct(value, memo)
    return copy.deepcopy(value, memo)
