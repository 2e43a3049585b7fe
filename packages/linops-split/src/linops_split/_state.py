"""What an operator in tiles is as a module: the submodules and weights of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor, nn

from linops_core import NamedLinop
from linops_core.siblings import attributes_of_linked, state_of, with_attributes

Module = TypeVar("Module", bound=nn.Module)

Weights = Mapping[str, Tensor | None]
"""A dictionary in which a module holds weights by name."""


def dictionaries_of(linops: Iterable[NamedLinop]) -> list[Weights]:
    """Return the dictionaries that hold the weights of some operators, each once."""
    modules = (module for linop in linops for module in linop.modules())
    dictionaries = [held for module in modules for held in (module._parameters, module._buffers)]
    return [*{id(held): held for held in dictionaries}.values()]


def state_of_whole(whole: NamedLinop, of_parts: Iterable[Weights]) -> dict[str, Any] | None:
    """Return the attributes in which a module holds its state; None if parts have other weights."""
    held = {*map(id, dictionaries_of([whole]))}
    if any(id(weights) not in held for weights in of_parts if weights):
        return None
    return state_of(whole)


def state_of_parts(linops: Sequence[NamedLinop]) -> dict[str, Any]:
    """Return the attributes in which a module holds its state, with operators as submodules."""
    return {
        "_modules": {str(number): linop for number, linop in enumerate(linops)},
        "_parameters": {},
        "_buffers": {},
        "_non_persistent_buffers_set": set(),
        "_geometry": (),
    }


def with_dictionaries(module: Module, others: Mapping[int, dict[str, Any]]) -> Module:
    """Return a linked copy of a module that has other dictionaries of weights."""
    state = attributes_of_linked(module)
    for name in ("_parameters", "_buffers"):
        state[name] = others.get(id(state[name]), state[name])
    parts = state["_modules"].items()
    state["_modules"] = {name: part and with_dictionaries(part, others) for name, part in parts}
    return with_attributes(module, state)
