"""Modules that get containers for hooks when the first hook is registered.

A module of torch has eleven of them, nearly always empty. For a tile they would take longer to make
than all the rest, and there are thousands of tiles for the collector of cycles to look at. So what
is made of an operator begins with containers that all such operators share, and that nobody writes
to: whoever registers a hook gets their own first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import nn


class _NoHooks(OrderedDict[int, Any]):
    """A container that stays empty."""

    def __setitem__(self, key: int, hook: Any) -> None:
        raise RuntimeError(
            "hooks of an operator must be registered by its own methods, as in "
            "A.register_forward_hook(hook), got one by another way"
        )


NO_HOOKS: dict[str, OrderedDict[int, Any]] = {
    name: _NoHooks()
    for name, value in vars(nn.Module()).items()
    if name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called"))
    and isinstance(value, OrderedDict)
}

_REGISTER = [name for name in dir(nn.Module) if "register_" in name and name.endswith("_hook")]


class LateHooks(nn.Module):
    """A module whose hooks may be those of `NO_HOOKS`, until it has one."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, but for containers that are shared and for what was compiled.

        A compiled call is that of this very module, with its tensors.
        """
        state = {name: value for name, value in vars(self).items() if value is not _shared(name)}
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes, with no hooks where the state has none."""
        super().__setstate__({**NO_HOOKS, **state})  # type: ignore[no-untyped-call]


def _shared(name: str) -> object:
    return NO_HOOKS.get(name, NO_HOOKS)  # which is the value of no attribute


def _with_own_hooks(register: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(register)
    def method(self: LateHooks, *args: Any, **kwargs: Any) -> Any:
        own = vars(self)
        own.update({name: OrderedDict() for name, none in NO_HOOKS.items() if own[name] is none})
        return register(self, *args, **kwargs)

    # That of torch, with its links, is for torch's own pages.
    method.__doc__ = f"Register a hook as ``torch.nn.Module.{register.__name__}`` does."
    return method


for _name in _REGISTER:
    setattr(LateHooks, _name, _with_own_hooks(getattr(nn.Module, _name)))
