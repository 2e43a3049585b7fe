"""Operators made of others have no containers for hooks, until one is asked for."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import nn

from linops_core import Dense, NamedLinop
from linops_core._base._late_hooks import HOOKS, REGISTER
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


def n_hooks(module: nn.Module) -> int:
    """Return how many hooks a module has."""
    return sum(len(getattr(module, name)) for name in HOOKS)


def test_these_are_all_containers() -> None:
    own = {
        name for name, value in vars(nn.Module()).items() if "hook" in name and value is not None
    }
    assert own == HOOKS and len(REGISTER) == 11
    assert not HOOKS & vars(Dense(torch.rand(3, 2)).adjoint()).keys()


@pytest.mark.parametrize("made", MAKE)
@pytest.mark.parametrize("register", REGISTER)
def test_a_hook_is_that_of_one_operator(register: str, made: str) -> None:
    A = Dense(torch.rand(3, 2), ("M", "N"))
    one, other = MAKE[made](A), MAKE[made](A)
    handle = getattr(one, register)(lambda *_: None)
    assert n_hooks(one) == 1
    for module in (A, other, MAKE[made](A), one.adjoint()):
        assert not n_hooks(module)
    if handle is not None:
        handle.remove()
        assert not n_hooks(one)


def test_hooks_of_a_tile_run() -> None:
    A = Dense(torch.rand(3, 2), ("M", "N"))
    tile, seen = A.split(A, {ND("M"): slice(1, 2)}), []
    tile.register_forward_hook(lambda module, inputs, output: seen.append(module))
    tile(torch.rand(2))
    A(torch.rand(2))
    assert seen == [tile]


@pytest.mark.parametrize("made", MAKE)
def test_a_compiled_call_is_called(made: str) -> None:
    tile = MAKE[made](Dense(torch.rand(3, 2), ("M", "N")))
    x = torch.rand([tile.size(dim) or 0 for dim in tile.ishape])
    for _ in range(2):
        tile(x)
    y = torch.ones(1)
    tile._compiled_call_impl = lambda x: y  # as nn.Module.compile does
    assert tile(x) is y


def test_another_way_to_register_is_refused() -> None:
    A = Dense(torch.rand(3, 2), ("M", "N")).adjoint()
    with pytest.raises(RuntimeError, match="must be registered by its own methods"):
        nn.Module.register_forward_hook(A, lambda *_: None)


def test_a_derived_operator_is_compiled_before_its_first_call() -> None:
    A = Dense(torch.rand(3, 2), ("M", "N")).adjoint()
    x = torch.rand(3)
    compiled = torch.compile(A, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), A(x))
