"""Operators made of others share containers for hooks, until one gets a hook."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import nn

from linops_core import Dense, NamedLinop
from linops_core._base._late_hooks import _REGISTER, NO_HOOKS
from nameddim import ND

MAKE: dict[str, Callable[[NamedLinop], NamedLinop]] = {
    "adjoint": NamedLinop.adjoint,
    "tile": lambda A: A.split(A, {ND("N"): slice(0, 1)}),
    "shallow copy": copy.copy,
    "deep copy of an adjoint": lambda A: copy.deepcopy(A.adjoint()),
    "pickled adjoint": lambda A: pickle.loads(pickle.dumps(A.adjoint())),
    "shallow copy of an adjoint": lambda A: copy.copy(A.adjoint()),
    "detached": lambda A: A.adjoint().with_weights(torch.Tensor.detach),
}


def hooks(module: nn.Module) -> dict[str, int]:
    """Return how many hooks of each kind a module has."""
    return {name: len(vars(module)[name]) for name in NO_HOOKS}


def test_these_are_all_containers_and_all_methods() -> None:
    own = {
        name for name, value in vars(nn.Module()).items() if "hook" in name and value is not None
    }
    assert NO_HOOKS.keys() == own
    assert len(_REGISTER) == 11


@pytest.mark.parametrize("made", MAKE)
@pytest.mark.parametrize("register", _REGISTER)
def test_a_hook_is_that_of_one_operator(register: str, made: str) -> None:
    A = Dense(torch.rand(3, 2), ("M", "N"))
    one, other = MAKE[made](A), MAKE[made](A)
    handle = getattr(one, register)(lambda *_: None)
    assert sum(hooks(one).values()) == 1
    for module in (A, other, MAKE[made](A), one.adjoint()):
        assert not any(hooks(module).values())
    assert not any(NO_HOOKS.values())
    if handle is not None:
        handle.remove()
        assert not any(hooks(one).values())


def test_hooks_of_a_tile_run() -> None:
    A = Dense(torch.rand(3, 2), ("M", "N"))
    tile, seen = A.split(A, {ND("M"): slice(1, 2)}), []
    tile.register_forward_hook(lambda module, inputs, output: seen.append(module))
    tile(torch.rand(2))
    A(torch.rand(2))
    assert seen == [tile]


def test_another_way_to_register_is_refused() -> None:
    A = Dense(torch.rand(3, 2), ("M", "N")).adjoint()
    with pytest.raises(RuntimeError, match="must be registered by its own methods"):
        nn.Module.register_forward_hook(A, lambda *_: None)
