"""The state of operators: round trips, checkpoints with all names, and who lists weights."""

import copy
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.func import functional_call, stack_module_state, vmap

from linops_core import Chain, Dense, Diagonal, NamedLinop, SimpleLinop
from linops_core._base._module import OperatorModule
from linops_core._base._state import names_by_tensor
from linops_core.testing.strategies import Known, trees

State = dict[str, Tensor]


def matrix(n: int = 3, seed: int = 0) -> Dense:
    generator = torch.Generator().manual_seed(seed)
    return Dense(nn.Parameter(torch.randn(n, n, generator=generator)), ("M", "N"), ("N",), ("M",))


def first_weight(linop: NamedLinop) -> Tensor:
    return next(linop.parameters())


def derived(known: Known) -> list[NamedLinop]:
    return [known.linop, known.linop.H, known.linop.N, known.linop.H.N]


def named(module: nn.Module) -> State:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def with_all_names(module: nn.Module) -> State:
    """Return the state as torch lists it, and did before names of later uses were left out."""
    with patch.object(OperatorModule, "state_dict", nn.Module.state_dict):
        state: State = module.state_dict()
    return state


def values_of(module: nn.Module) -> list[Tensor]:
    return [tensor.clone() for tensor in named(module).values()]


def zero(module: nn.Module) -> None:
    for tensor in named(module).values():
        tensor.detach().zero_()


def zeros_like(state: State) -> State:
    """Return zeros in the place of numbers, where what is one tensor stays one."""
    zeros: dict[int, Tensor] = {}
    return {
        name: zeros.setdefault(tensor.data_ptr(), torch.zeros_like(tensor))
        for name, tensor in state.items()
        if tensor.is_floating_point() or tensor.is_complex()
    }


@given(trees())
def test_a_state_names_each_weight_as_torch_names_parameters(known: Known) -> None:
    for linop in derived(known):
        own = {
            **dict(linop.named_parameters(remove_duplicate=False)),
            **dict(linop.named_buffers(remove_duplicate=False)),
        }
        assert [*linop.state_dict()] == [name for name in with_all_names(linop) if name in own]
        assert own.keys() == linop.state_dict().keys()


@given(trees())
def test_a_call_with_the_weights_of_a_state_leaves_the_operator_as_it_was(known: Known) -> None:
    for linop in derived(known):
        side = "ishape" if linop.ishape == known.linop.ishape else "oshape"
        lengths = known.spaces.lengths(getattr(known.spaces, side))
        before, values = named(linop), values_of(linop)
        functional_call(linop, zeros_like(linop.state_dict()), (torch.ones(lengths),))
        assert all(tensor is before[name] for name, tensor in named(linop).items())
        assert all(torch.equal(a, b) for a, b in zip(values, values_of(linop), strict=True))


@given(trees(), st.booleans(), st.booleans())
def test_a_state_goes_back_and_forth_whatever_its_names(
    known: Known, assign: bool, all_names: bool
) -> None:
    for linop in derived(known):
        state = copy.deepcopy(with_all_names(linop) if all_names else linop.state_dict())
        other, expected = copy.deepcopy(linop), values_of(linop)
        zero(other)
        keys = other.load_state_dict(state, assign=assign)
        assert not keys.missing_keys and not keys.unexpected_keys
        assert all(torch.equal(a, b) for a, b in zip(expected, values_of(other), strict=True))


@given(trees(), st.data())
def test_any_name_of_a_weight_loads_it(known: Known, data: st.DataObject) -> None:
    linop, state = known.linop.N, with_all_names(known.linop.N)
    chosen = [data.draw(st.sampled_from(names)) for names in names_by_tensor(linop, "")]
    other, expected = copy.deepcopy(linop), values_of(linop)
    zero(other)
    other.load_state_dict({name: state[name] for name in chosen})
    assert all(torch.equal(a, b) for a, b in zip(expected, values_of(other), strict=True))


@given(trees(), st.data())
def test_two_values_of_one_weight_are_refused(known: Known, data: st.DataObject) -> None:
    linop = known.linop.N
    twice = [names for names in names_by_tensor(linop, "") if len(names) > 1]
    state = {name: tensor.clone() for name, tensor in with_all_names(linop).items()}
    twice = [names for names in twice if state[names[0]].numel()]
    if not twice:
        return
    names = data.draw(st.sampled_from(twice))
    state[data.draw(st.sampled_from(names))] += 1
    with pytest.raises(RuntimeError, match=r"are one weight and must have one value, got several"):
        linop.load_state_dict(state)


@pytest.mark.parametrize(
    "other", [torch.zeros(2, 3), torch.full((3, 3), 1.0), torch.full((3, 3), torch.inf)]
)
def test_values_that_differ_at_all_are_refused(other: Tensor) -> None:
    linop = matrix().N
    value = torch.full((3, 3), torch.nan)
    linop.load_state_dict({"0.weight": value, "1.weight": value.clone().to(torch.float64)})
    for state in ({"0.weight": value, "1.weight": other}, {"0.weight": other, "1.weight": value}):
        with pytest.raises(RuntimeError, match=r"0.weight, 1.weight are one weight and must have"):
            linop.load_state_dict(state)


def test_names_that_are_missing_or_unknown_are_said() -> None:
    linop = (matrix() @ Diagonal(torch.ones(3), ("N",))).N
    state = linop.state_dict()
    del state["0.weight"]
    with pytest.raises(RuntimeError, match=r"Missing key.*0.weight"):
        linop.load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"Unexpected key.*2.bias"):
        linop.load_state_dict({**linop.state_dict(), "2.bias": torch.ones(3)})


def test_one_parameter_in_two_operators_has_the_names_of_both() -> None:
    weight = nn.Parameter(torch.ones(3))
    A = Chain(Diagonal(weight, ("N",)), Diagonal(weight, ("N",)))
    assert [*A.state_dict()] == ["0.weight", "1.weight"]
    functional_call(A, {"0.weight": torch.zeros(3)}, (torch.ones(3),))
    assert all(linop.weight is weight for linop in A.linops)


def test_an_operator_in_a_module_and_one_with_modules_in_it() -> None:
    inside = nn.Linear(3, 3, bias=False, dtype=torch.float64)
    A = SimpleLinop(inside, lambda y: y @ inside.weight, ishape=("N",), oshape=("M",))
    net = nn.ModuleDict({"linear": nn.Linear(2, 2), "normal": A.N})
    assert [name for name in net.state_dict() if name.startswith("normal")] == [
        "normal.0.forward_function.weight"
    ]
    other, state = copy.deepcopy(net), copy.deepcopy(net.state_dict())
    zero(other)
    other.load_state_dict(state)
    assert torch.equal(other["normal"](torch.ones(3).double()), A.N(torch.ones(3).double()))


def test_a_prefix_and_a_destination_may_be_given() -> None:
    linop, result = matrix().N, dict[str, Any]({"1.weight": 1})
    linop.state_dict(destination=result, prefix="here.", keep_vars=True)
    assert [*result] == ["1.weight", "here.0.weight"]
    assert result["here.0.weight"] is first_weight(linop)
    with pytest.warns(FutureWarning, match=r"[Pp]ositional args"):
        assert [*linop.state_dict({}, "there.")] == ["there.0.weight"]


def test_states_of_tensors_without_values_are_loaded() -> None:
    linop = matrix().N
    linop.to("meta").load_state_dict(with_all_names(linop))
    linop.load_state_dict(matrix().N.state_dict(), assign=True)
    assert torch.equal(first_weight(linop), matrix().weight)


def test_models_are_stacked() -> None:
    linops = [matrix(seed=seed).N for seed in range(3)]
    parameters, buffers = stack_module_state(linops)
    assert [*parameters] == ["0.weight"]
    x = torch.randn(3, 3)

    def apply(values: State, x: Tensor) -> Tensor:
        y: Tensor = functional_call(linops[0], (values, buffers), (x,))
        return y

    expected = torch.stack([linop(one) for linop, one in zip(linops, x, strict=True)])
    torch.testing.assert_close(vmap(apply)(parameters, x), expected)
    assert torch.equal(first_weight(linops[0]), matrix(seed=0).weight)


def test_an_optimizer_has_each_weight_once_and_moves_all_its_uses() -> None:
    A = matrix()
    net = nn.ModuleList([A, A.H, A.N])
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    assert [id(p) for group in optimizer.param_groups for p in group["params"]] == [id(A.weight)]
    torch.autograd.backward(A.N(torch.ones(3)).sum())
    optimizer.step()
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    torch.testing.assert_close(A.N(torch.eye(3)[0]), (A.weight.mT @ A.weight)[:, 0])
    assert [*dict(net.to(torch.float64).named_parameters())] == ["0.weight"]
    assert A.weight.dtype is torch.float64


def test_states_of_distributed_checkpoints_go_back_and_forth() -> None:
    linop, other = (matrix() @ Diagonal(torch.ones(3), ("N",))).N, matrix(seed=1).N
    for net in (linop, nn.ModuleList([linop, other])):
        state = copy.deepcopy(get_model_state_dict(net))
        assert state.keys() == net.state_dict().keys()
        expected = values_of(net)
        zero(net)
        set_model_state_dict(net, state)
        assert all(torch.equal(a, b) for a, b in zip(expected, values_of(net), strict=True))
