"""Copies of modules and of what they hold, once their tensors have been copied."""

from __future__ import annotations

import copy
import copyreg
from collections import OrderedDict
from typing import Any, TypeVar

import torch

from ._reach import NO_STATE, has_plain_state

M = TypeVar("M", bound=torch.nn.Module)

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device})


def reconstruct(module: M, memo: dict[int, Any]) -> M:
    """Deep copy through the reduce protocol, without the ``__deepcopy__`` of the module itself.

    Parameters
    ----------
    module : torch.nn.Module
        What to copy.
    memo : dict
        The memo of the deep copy, with the copies of tensors.

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
    if not has_plain_state(cls):
        return _reconstruct_reduced(module, memo)
    made = cls.__new__(cls)
    memo[id(module)] = made
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


def _reconstruct_reduced(module: M, memo: dict[int, Any]) -> M:
    reducer = copyreg.dispatch_table.get(type(module))
    reduced = reducer(module) if reducer else module.__reduce_ex__(4)
    if isinstance(reduced, str):
        return module  # a name of something global, which is never copied
    make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    made = make(*[copy.deepcopy(argument, memo) for argument in arguments])
    memo[id(module)] = made
    memo.setdefault(id(memo), []).append(module)
    if state is not None:
        made.__setstate__(copy.deepcopy(state, memo))
    for item in items or ():
        made.append(copy.deepcopy(item, memo))
    for key, value in pairs or ():
        made[copy.deepcopy(key, memo)] = copy.deepcopy(value, memo)
    return made  # type: ignore[no-any-return]  # what the class says it is made from
