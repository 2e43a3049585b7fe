"""Hooks of modules of torch."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torch import nn

from .._kernels._torch_state import has_global_hooks

HOOKS = tuple([name for name, value in vars(nn.Module()).items() if type(value) is OrderedDict])
"""The attributes of a module that hold its hooks."""


def is_hooked(own: dict[str, Any]) -> bool:
    """Whether a call of a module with these attributes does more than call ``forward``."""
    return bool(
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or "_compiled_call_impl" in own
        or has_global_hooks()
    )
