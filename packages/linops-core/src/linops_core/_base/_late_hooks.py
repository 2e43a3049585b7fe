"""Modules that make containers for hooks when the first hook is registered.

A module of torch has eleven containers, nearly always empty. Making them takes longer than making
the rest of a tile.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import Tensor, nn

from .._kernels._torch_state import has_global_hooks

HOOKS = frozenset(name for name, value in vars(nn.Module()).items() if type(value) is OrderedDict)
REGISTER = [name for name in dir(nn.Module) if "register_" in name and name.endswith("_hook")]


def is_hooked(own: dict[str, Any]) -> bool:
    """Whether a call of a module with these attributes does more than call ``forward``."""
    has_hooks = "_forward_hooks" in own and (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
    )
    return bool(has_hooks) or "_compiled_call_impl" in own or has_global_hooks()


class _NoHooks(OrderedDict[int, Any]):
    """A container that stays empty."""

    def __setitem__(self, key: int, hook: Any) -> None:
        raise RuntimeError(
            "hooks of an operator must be registered by its own methods, as in "
            "A.register_forward_hook(hook), got a hook that was registered in another way"
        )


_NO_HOOKS = {name: _NoHooks() for name in HOOKS}


class LateHooks(nn.Module):
    """A module that shares empty containers of hooks with all others until it has one."""

    def __getattr__(self, name: str) -> Tensor | nn.Module:
        """Return an attribute that the module does not have itself."""
        if name in HOOKS:
            return _NO_HOOKS[name]  # type: ignore[return-value]
        return super().__getattr__(name)


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
