"""Calls past the hooks of torch.nn.Module, where there are none to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.compiler import is_dynamo_compiling
from torch.nn.modules import module as torch_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ._linop import NamedLinop

# Not documented by torch. Without it, every call takes the long way.
_any_global_hook: Callable[[], bool] = getattr(torch_module, "_has_any_global_hook", lambda: True)


def hooks_are_possible() -> bool:
    """Whether hooks of all modules may have to run, or a compiler wants to see each call."""
    return is_dynamo_compiling() or _any_global_hook()


def applied(linop: NamedLinop, x: Tensor) -> Tensor:
    """Return linop(x), when no hooks of all modules have to run; its own do.

    The call of a module costs as much as a small operation. In a composition of many, that is
    half of what the composition costs.
    """
    if (
        linop._forward_hooks
        or linop._forward_pre_hooks
        or linop._backward_hooks
        or linop._backward_pre_hooks
        or linop._compiled_call_impl is not None
    ):
        return linop(x)
    return linop.forward(x)
