"""As modules, operators on several devices are the whole: names of weights, checkpoints."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from linops_core import Dense, Diagonal
from linops_core.testing.strategies import Known, trees
from linops_multigpu import BatchSpec, create_batched_linop
from linops_multigpu.testing import simulated
from linops_split.testing import batch_sizes


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
