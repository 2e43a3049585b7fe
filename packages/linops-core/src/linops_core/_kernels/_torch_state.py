"""The state of torch that only private names tell: one function for each fact.

Elsewhere in this package there are private attributes of tensors, modules and functions, the
compiler (in `_tracing` and the laws of `testing`), and the dispatch modes of these laws.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch.autograd import forward_ad
from torch.nn.modules.module import _has_any_global_hook

_dispatch_mode, _FAKE = torch._C._get_dispatch_mode, torch._C._TorchDispatchModeKey.FAKE
_PROXY = torch._C._TorchDispatchModeKey.PROXY

has_global_hooks: Callable[[], object] = _has_any_global_hook
"""Return whether there is a hook of all modules."""


def is_transformed() -> bool:
    """Whether torch.func is at work, whose tensors have no memory that can be compared."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def is_in_vmap() -> bool:
    """Whether vmap is at work, which hides the values of the tensors of its batch."""
    levels = torch._C._functorch.get_interpreter_stack() or ()
    return torch._C._functorch.TransformType.Vmap in [level.key() for level in levels]


def is_in_forward_mode() -> bool:
    """Whether tensors may have tangents: autograd is in forward mode."""
    return forward_ad._current_level >= 0


def is_in_fake_mode() -> bool:
    """Whether results have no data."""
    return _dispatch_mode(_FAKE) is not None


def has_storage(tensor: Tensor) -> bool:
    """Whether a tensor has memory of its own; a batch of gradients has none."""
    return torch._C._has_storage(tensor)


def is_in_a_mode() -> bool:
    """Whether there is a function mode, such as a default device, or a dispatch mode."""
    return bool(torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack())


def is_in_jit_trace() -> bool:
    """Whether torch.jit.trace records what happens."""
    return torch._C._get_tracing_state() is not None


def becomes_a_graph() -> bool:
    """Whether operations become nodes of a graph: in a compiler, an export or torch.jit.trace."""
    if torch.compiler.is_compiling():
        return True
    return _dispatch_mode(_PROXY) is not None or is_in_jit_trace()


def has_hooks_for_saved_tensors() -> bool:
    """Whether something changes the tensors that autograd saves."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
