"""Calls past the hooks of torch.nn.Module, where there are none to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from torch import Tensor, nn
from torch.compiler import is_dynamo_compiling
from torch.nn.modules import module as torch_module

if TYPE_CHECKING:
    from collections.abc import Callable

# Not documented by torch. Without it, every call takes the long way.
_any_global_hook: Callable[[], bool] = getattr(torch_module, "_has_any_global_hook", lambda: True)


def hooks_are_possible(x: Tensor) -> bool:
    """Whether hooks of all modules may have to run, or somebody wants to see each call.

    Who traces modules puts a function of its own in the place of ``nn.Module.__call__``, and sends
    in what is no plain tensor.
    """
    return type(x) is not Tensor or is_dynamo_compiling() or _any_global_hook()


def has_hooks(linop: nn.Module) -> bool:
    """Whether somebody wants to know of the calls of an operator, or to change them."""
    own = linop.__dict__  # each attribute of a module that is looked up by itself costs as much
    return bool(
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
    )


def applied(linop: nn.Module, x: Tensor) -> Tensor:
    """Return linop(x), where :func:`hooks_are_possible` was asked; its own hooks run."""
    own = linop.__dict__  # each attribute of a module that is looked up by itself costs as much
    if (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or own.get("_compiled_call_impl") is not None
    ):
        return cast(Tensor, nn.Module.__call__(linop, x))
    return cast(Tensor, linop.forward(x))
