"""Calling the hooks of operators for copies that replace them."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from linops_core.siblings import OwnTile, children_of, submodules_of

_CONTAINERS = [
    name
    for name in vars(nn.Module())
    if name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called"))
    and "state_dict" not in name
]


def has_hooks(module: nn.Module) -> bool:
    """Whether a module or one of its submodules has hooks."""
    return any(
        getattr(submodule, name) for submodule in submodules_of(module) for name in _CONTAINERS
    )


def with_hooks_of(copy: nn.Module, module: nn.Module) -> None:
    """Replace the hooks of a copy, and of its submodules, by those of the original module."""
    for name in _CONTAINERS:
        if getattr(copy, name):
            setattr(copy, name, type(getattr(copy, name))())
    add_hooks_of(copy, module)
    if isinstance(module, OwnTile):
        return  # the parts of the copy, which was cut from the whole, have their hooks
    for other, child in zip(children_of(copy), children_of(module), strict=True):
        with_hooks_of(other, child)


def add_hooks_of(copy: nn.Module, module: nn.Module) -> None:
    """Add the hooks of a module, without those of its submodules, to a copy of it."""
    for name in _CONTAINERS:
        if hooks := getattr(module, name):
            own_hooks = getattr(copy, name)
            setattr(copy, name, OrderedDict({**own_hooks, **hooks}))
    if module._is_full_backward_hook is not None:
        copy._is_full_backward_hook = module._is_full_backward_hook
