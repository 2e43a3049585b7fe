"""Modules that make containers for hooks when the first hook is registered.

A module of torch has eleven containers, nearly always empty. Making them takes longer than making
the rest of a tile.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import nn

HOOKS = frozenset(name for name, value in vars(nn.Module()).items() if type(value) is OrderedDict)
REGISTER = [name for name in dir(nn.Module) if "register_" in name and name.endswith("_hook")]


class _NoHooks(OrderedDict[int, Any]):
    """A container that stays empty."""

    def __setitem__(self, key: int, hook: Any) -> None:
        raise RuntimeError(
            "hooks of an operator must be registered by its own methods, as in "
            "A.register_forward_hook(hook), got a hook that was registered in another way"
        )


class LateHooks(nn.Module):
    """A module that shares the empty containers of its class until it has a hook."""


def _with_own_hooks(register: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(register)
    def method(self: LateHooks, *args: Any, **kwargs: Any) -> Any:
        for name in HOOKS - vars(self).keys():
            setattr(self, name, OrderedDict())
        return register(self, *args, **kwargs)

    # The docstring of torch has links that work on its own pages only.
    method.__doc__ = f"Register a hook as ``torch.nn.Module.{register.__name__}`` does."
    return method


for _name in REGISTER:
    setattr(LateHooks, _name, _with_own_hooks(getattr(nn.Module, _name)))
for _name in HOOKS:
    setattr(LateHooks, _name, _NoHooks())
