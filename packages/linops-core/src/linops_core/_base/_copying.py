"""Copies that share tensors: linked ones for derived operators, shallow ones for users.

A *linked* copy shares the dictionaries in which a module keeps its parameters, buffers and
submodules, so it is never out of date. A *shallow* copy has its own dictionaries with the same
tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor, nn

from .._kept import Cache, inherited_values
from ._late_hooks import HOOKS
from ._question import Question
from ._state import plain_weight

if TYPE_CHECKING:
    from nameddim import NamedShape

Module = TypeVar("Module", bound=nn.Module)


def linked_copy(linop: Module, shape: NamedShape | None = None, /, **changed: object) -> Module:
    """Return a copy of ``linop`` that shares its dictionaries of tensors, and has no hooks."""
    attributes = attributes_of_linked(linop, shape) | changed
    if changed.keys() - {"_is_endomorphism"}:
        attributes["_memos"] = {}  # lengths may differ
    return with_attributes(linop, attributes)


def attributes_of_linked(linop: nn.Module, shape: NamedShape | None = None) -> dict[str, Any]:
    """Return the attributes of a linked copy, to be copied for each of several."""
    vars(linop)["_has_relatives"] = True
    attributes = vars(linop).copy()
    for name in HOOKS & attributes.keys():
        del attributes[name]
    attributes.pop("_compiled_call_impl", None)
    attributes.update(_is_full_backward_hook=None, _adjoint=None, _normal=None)
    if shape is None:
        attributes["_memos"] = inherited_values(attributes["_memos"])
    else:
        attributes.update(_shape=shape, _memos={})
    return attributes


def with_attributes(linop: Module, attributes: dict[str, Any]) -> Module:
    """Return an operator of the class of ``linop`` with these attributes."""
    other: Module = object.__new__(type(linop))
    # Setting attributes one by one is slow in modules of torch.
    object.__setattr__(other, "__dict__", attributes)
    return other


def shallow_copy(module: Module) -> Module:
    """Return a copy of ``module`` with its own dictionaries of the same tensors."""
    other: Module = object.__new__(type(module))
    state: dict[str, Any] = module.__getstate__()  # type: ignore[no-untyped-call]
    copied = {k: v.copy() if isinstance(v, (dict, set)) else v for k, v in state.items()}
    vars(other).update(copied, _has_relatives=False)
    for name, cache in caches_of(module):
        vars(other)[name] = copy(cache)
    return other


def with_changed_tensors(
    module: Module, change: Callable[[Tensor], Tensor], parts: Mapping[str, Tensor] | None = None
) -> Module:
    """Return a copy of ``module`` with ``change(t)`` of each tensor, or its part, as buffers."""
    held = {**module._parameters, **module._buffers}
    tensors = {name: tensor for name, tensor in held.items() if tensor is not None}
    other = shallow_copy(module)
    if "_has_relatives" in vars(module):
        vars(module)["_has_relatives"] = True
    vars(other).update(
        _parameters={name: None for name in held.keys() - tensors.keys()},
        _buffers={
            name: plain_weight(change((parts or {}).get(name, t))) for name, t in tensors.items()
        },
        _modules={name: _changed_child(child, change) for name, child in module._modules.items()},
    )
    for name, cache in caches_of(module):
        vars(other)[name] = cache.for_tensors([*other.parameters(), *other.buffers()])
    return other


def caches_of(module: nn.Module) -> list[tuple[str, Cache]]:
    """Return the caches of a module by name, without those of its parts."""
    return [(name, cache) for name, cache in vars(module).items() if isinstance(cache, Cache)]


@Question.inherited
def children_of(module: nn.Module) -> list[nn.Module]:
    """Return the modules that are called for a module, in the order of ``with_weights``."""
    return [child for child in module._modules.values() if child is not None]


def submodules_of(module: nn.Module) -> Iterator[nn.Module]:
    """Yield a module and all that are called for it, also those that share all their weights.

    ``module.modules()`` leaves out an operator that has the weights of another one.
    """
    yield module
    for child in children_of(module):
        yield from submodules_of(child)


def _changed_child(child: nn.Module | None, change: Callable[[Tensor], Tensor]) -> nn.Module | None:
    if child is None:
        return None
    with_weights = getattr(type(child), "with_weights", with_changed_tensors)
    changed: nn.Module = with_weights(child, change)
    return changed
