"""As modules, operators on several devices are the whole: names of weights, checkpoints."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import Dense, Diagonal, NamedLinop, Window
from linops_core.testing.strategies import Known, trees
from linops_multigpu import BatchSpec, create_batched_linop
from linops_multigpu.testing import simulated
from linops_split.testing import batch_sizes
from nameddim import ND, NamedShape


def matrix(seed: int = 0) -> Dense:
    weight = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed)) + 0j
    return Dense(nn.Parameter(weight), ("M", "N"), ("N",), ("M",))


@given(trees(), st.data())
def test_a_batched_operator_has_the_state_of_the_whole(known: Known, data: st.DataObject) -> None:
    A = known.linop
    specs = [BatchSpec(data.draw(batch_sizes(A)), device, "cpu") for device in ("meta", "cpu")]
    cut = create_batched_linop(A, specs)
    for one, other in ((A, cut), (A.H, cut.H), (A, copy.deepcopy(cut))):
        assert [*other.state_dict()] == [*one.state_dict()]
        assert dict(other.named_parameters()).keys() == dict(one.named_parameters()).keys()
    own, wanted = (linop.state_dict(keep_vars=True) for linop in (cut, A))
    assert all(own[name] is tensor for name, tensor in wanted.items())


@pytest.mark.usefixtures("simulation")
@pytest.mark.parametrize("base", ["cpu", "sim:0"])
def test_a_checkpoint_goes_to_all_devices(base: str) -> None:
    A = Diagonal(nn.Parameter(torch.rand(4) + 0j), ("M",)) @ matrix()
    other, x = copy.deepcopy(A), torch.randn(6, dtype=torch.complex64)
    with simulated(3):
        specs = [BatchSpec({"M": 1}, ["sim:1", base, "sim:2"], base), BatchSpec({"N": 4})]
        B = create_batched_linop(A.to(base), specs)
        for assign in (False, True):
            other.load_state_dict({name: 3 * t for name, t in other.state_dict().items()})
            state = {name: t.clone().to(base) for name, t in other.state_dict().items()}
            B.load_state_dict(state, assign=assign)
            torch.testing.assert_close(B(x.clone().to(base)).cpu(), other(x))
        assert [*nn.ModuleList([B]).state_dict()] == ["0.0.weight", "0.1.weight"]
        del A, B, state


@pytest.mark.usefixtures("simulation")
def test_what_is_batched_again_on_another_device_trains() -> None:
    A, x = matrix(), torch.randn(6) + 0j
    (wanted,) = torch.autograd.grad(A(x).abs().square().sum(), [A.weight])
    with simulated(2):
        B = create_batched_linop(A, BatchSpec({"M": 2}, ["cpu"], "cpu"))
        C = create_batched_linop(B, BatchSpec({"N": 3}, ["sim:1"], "cpu"))
        (result,) = torch.autograd.grad(C(x.clone()).abs().square().sum(), [A.weight])
        torch.testing.assert_close(result, wanted)
        assert [*C.state_dict()] == ["weight"]
        del B, C


class Gain(NamedLinop):
    """An operator of a user, whose tiles hold slices of its weight as buffers."""

    weight: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__(NamedShape(("N",)))
        if isinstance(weight, nn.Parameter):
            self.weight = weight
        else:
            self.register_buffer("weight", weight)

    @staticmethod
    def fn(linop: "Gain", x: Tensor, /) -> Tensor:
        return linop.weight * x

    adj_fn = fn

    def size(self, dim: object) -> int | None:
        return len(self.weight) if dim == "N" else None

    @staticmethod
    def split(linop: "Gain", tile: Window, /) -> NamedLinop:
        return Gain(linop.weight[tile[ND("N")]])


@pytest.mark.usefixtures("simulation")
def test_tiles_of_an_own_split_follow_the_weights_on_all_devices() -> None:
    A, x = Gain(nn.Parameter(torch.rand(4))), torch.randn(4)
    with simulated(3):
        B = create_batched_linop(A, BatchSpec({"N": 1}, ["sim:1", "cpu", "sim:2"], "cpu"))
        assert [*B.state_dict()] == ["weight"] and B.weight is A.weight
        optimizer = torch.optim.SGD(B.parameters(), lr=0.1)
        for _ in range(2):
            torch.testing.assert_close(B(x.clone()), A(x))
            torch.testing.assert_close(B.N(x.clone()), A.N(x))
            losses = [linop(x.clone()).square().sum() for linop in (A, B)]
            wanted, result = (torch.autograd.grad(loss, [A.weight]) for loss in losses)
            torch.testing.assert_close(result, wanted)
            A.weight.grad = wanted[0]
            optimizer.step()
            B.load_state_dict({"weight": torch.rand(4)}, assign=True)
        A.weight.requires_grad_(False)
        torch.testing.assert_close(B(x.clone()), A(x))
        del A, B, optimizer, losses, result, wanted
