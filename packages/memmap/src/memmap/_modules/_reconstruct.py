"""Copies of modules and of what they hold, once their tensors have been copied."""

from __future__ import annotations

import copy
import copyreg
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from ._classes import NO_STATE, copies_itself, has_plain_state

M = TypeVar("M", bound=torch.nn.Module)

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device})


def _nothing() -> None:
    pass


def reconstruct(module: M, memo: dict[int, Any], complete: Callable[[], object] = _nothing) -> M:
    """Deep copy through the reduce protocol, without the ``__deepcopy__`` of the module itself.

    Only modules that torch has written a ``__deepcopy__`` for (TorchScript, graphs) copy themselves
    by it.

    Parameters
    ----------
    module : torch.nn.Module
        What to copy.
    memo : dict
        The memo of the deep copy, with the copies of tensors.
    complete : callable, optional
        Called when the copy is in the memo, but has no state yet: gives the copied tensors what
        they carry, which may lead back to the module.

    Returns
    -------
    torch.nn.Module
        The copy, also in the memo.

    Examples
    --------
    >>> layer = torch.nn.Linear(1, 1)
    >>> twin = reconstruct(layer, {id(layer.weight): layer.weight, id(layer.bias): layer.bias})
    >>> twin is layer, twin.weight is layer.weight
    (False, True)
    """
    cls = type(module)
    if copies_itself(cls):
        made = memo[id(module)] = cls.__deepcopy__(module, memo)  # type: ignore[attr-defined]  # it has
        complete()
        return made  # type: ignore[no-any-return]  # a module of its class
    if not has_plain_state(cls):
        return _reconstruct_reduced(module, memo, complete)
    made = cls.__new__(cls)
    memo[id(module)] = made
    complete()
    state = {
        name: _copied(value, memo) for name, value in module.__dict__.items() if name != NO_STATE
    }
    made.__setstate__(state)  # type: ignore[no-untyped-call]  # of torch
    return made


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """What `copy.deepcopy` makes, in less time for what modules are full of."""
    cls = type(value)
    if cls in _ATOMS:
        return value
    known = memo.get(id(value))
    if known is not None:
        return known
    if cls is dict or (cls is OrderedDict and not value.__dict__):
        made = memo[id(value)] = cls()
        for key, item in value.items():
            made[_copied(key, memo)] = _copied(item, memo)
        return made
    if isinstance(value, torch.nn.Module) and not hasattr(cls, "__deepcopy__"):
        return reconstruct(value, memo)
    if cls is set and all(type(item) in _ATOMS for item in value):
        memo[id(value)] = copied = set(value)
        return copied
    return copy.deepcopy(value, memo)


def _reconstruct_reduced(module: M, memo: dict[int, Any], complete: Callable[[], object]) -> M:
    reducer = copyreg.dispatch_table.get(type(module))
    reduced = reducer(module) if reducer else module.__reduce_ex__(4)
    if isinstance(reduced, str):
        complete()
        return module  # a name of something global, which is never copied
    make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    made = make(*[copy.deepcopy(argument, memo) for argument in arguments])
    memo[id(module)] = made
    memo.setdefault(id(memo), []).append(module)
    complete()
    if state is not None:
        made.__setstate__(copy.deepcopy(state, memo))
    for item in items or ():
        made.append(copy.deepcopy(item, memo))
    for key, value in pairs or ():
        made[copy.deepcopy(key, memo)] = copy.deepcopy(value, memo)
    return made  # type: ignore[no-any-return]  # what the class says it is made from
