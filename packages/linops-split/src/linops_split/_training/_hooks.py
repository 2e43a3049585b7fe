"""Hooks of operators, for copies of them that stand in."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

_CONTAINERS = [
    name
    for name in vars(nn.Module())
    if name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called"))
    and "state_dict" not in name
]


def has_hooks(module: nn.Module) -> bool:
    """Whether a hook wants to see the calls of a module or of one of its parts."""
    return any(getattr(part, name) for part in module.modules() for name in _CONTAINERS)


def with_hooks_of(copy: nn.Module, module: nn.Module) -> None:
    """Have the hooks of a module, and of its parts, called for a copy of it, and no others."""
    for name in _CONTAINERS:
        if getattr(copy, name):
            setattr(copy, name, type(getattr(copy, name))())
    add_hooks_of(copy, module)
    for name, part in module._modules.items():
        other = copy._modules.get(name)
        if part is not None and other is not None:
            with_hooks_of(other, part)


def add_hooks_of(copy: nn.Module, module: nn.Module) -> None:
    """Have the hooks of a module, without those of its parts, called for a copy of it, too."""
    for name in _CONTAINERS:
        if hooks := getattr(module, name):
            own = getattr(copy, name)
            setattr(copy, name, OrderedDict({**own, **hooks}))
    if module._is_full_backward_hook is not None:
        copy._is_full_backward_hook = module._is_full_backward_hook
