"""As modules, operators in tiles are the whole: names, checkpoints, optimizers, copies."""

import copy
import io
import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
)
from torch.func import functional_call
from torch.nn.utils import parametrize

from linops_core import (
    Concat,
    Dense,
    Diagonal,
    NamedLinop,
    Stack,
    Window,
)
from linops_core.testing.strategies import Known, trees
from linops_split import Part, Tiled, Tiles, assemble, batch_linop, split_linop
from linops_split.testing import batch_sizes
from memmap import memory_aware_to
from nameddim import ND, NamedShape

State = dict[str, Tensor]


def state_of(module: nn.Module) -> State:
    state: State = module.state_dict(keep_vars=True)
    return state


def check_same_module(cut: nn.Module, whole: nn.Module) -> None:
    """Check that two modules have the same weights under the same names, in the same order."""
    for names_of in (
        lambda module: [*state_of(module).items()],
        lambda module: [*module.named_parameters()],
        lambda module: [*module.named_buffers()],
    ):
        result, wanted = names_of(cut), names_of(whole)
        assert [name for name, _ in result] == [name for name, _ in wanted]
        assert all(own is tensor for (_, own), (_, tensor) in zip(result, wanted, strict=True))


def other_values(module: nn.Module) -> State:
    """Return a checkpoint with other values; indices stay in their range."""
    state: State = module.state_dict()
    return {
        name: 2 * tensor + 1
        if tensor.is_floating_point() or tensor.is_complex()
        else tensor.flip(0)
        for name, tensor in state.items()
    }


def input_of(known: Known, linop: NamedLinop) -> Tensor:
    is_forward = linop.ishape == known.linop.ishape
    lengths = known.spaces.lengths(known.spaces.ishape if is_forward else known.spaces.oshape)
    return torch.randn(lengths, dtype=torch.complex128)


@given(trees(), st.data())
def test_a_cut_operator_has_the_state_of_the_whole(known: Known, data: st.DataObject) -> None:
    for A in (known.linop, known.linop.H, known.linop.N):
        B = batch_linop(A, data.draw(batch_sizes(A)))
        check_same_module(B, A)
        check_same_module(B.H, A.H)
        check_same_module(B.N, A.N)
        check_same_module(batch_linop(B, data.draw(batch_sizes(B))), A)
        check_same_module(nn.ModuleDict({"cut": B}), nn.ModuleDict({"cut": A}))


@given(trees(), st.data(), st.booleans())
def test_a_checkpoint_of_one_is_loaded_into_the_other(
    known: Known, data: st.DataObject, assign: bool
) -> None:
    sizes = data.draw(batch_sizes(known.linop))
    A, C = known.linop, copy.deepcopy(known.linop)
    B = batch_linop(copy.deepcopy(A), sizes)
    values, x = other_values(A), input_of(known, A)
    for linop in (B, C):
        result = linop.load_state_dict(values, assign=assign)
        assert not result.missing_keys and not result.unexpected_keys
    torch.testing.assert_close(B(x), C(x))
    torch.testing.assert_close(B.H(C(x)), C.H(C(x)))
    A.load_state_dict(B.state_dict(), assign=assign)
    torch.testing.assert_close(A(x), C(x))


@given(trees(), st.data())
def test_copies_and_files_of_a_cut_operator_stand_alone(known: Known, data: st.DataObject) -> None:
    A = known.linop
    B = batch_linop(A, data.draw(batch_sizes(A)))
    x, file = input_of(known, A), io.BytesIO()
    wanted, names = A(x), [*A.state_dict()]
    torch.save(B, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    other = copy.deepcopy(A)
    other.load_state_dict(other_values(A))
    for own in (loaded, copy.deepcopy(B), copy.deepcopy(nn.ModuleList([B]))[0]):
        assert [*own.state_dict()] == names
        torch.testing.assert_close(own(x), wanted)
        own.load_state_dict(other_values(A))
        torch.testing.assert_close(own(x), other(x))
    torch.testing.assert_close(B(x), wanted)


def test_a_normal_has_the_weights_of_the_whole_normal() -> None:
    """Also where the tiles name one dimension of the output as one of the input."""
    A = Dense(torch.rand(2, 1), ("D", "E"), (), ("D", "E")) @ Dense(
        torch.rand(2, 1), ("A", "E"), ("A", "E"), ()
    )
    for sizes in ({"D": 1}, {"A": 1, "D": 1}):
        N, x = batch_linop(A, sizes).N, torch.rand(2, 1)
        torch.testing.assert_close(N(x), A.N(x))
        check_same_module(N, A.N)


def test_a_checkpoint_of_a_normal_is_loaded_into_the_normal_of_a_stack_in_tiles() -> None:
    """Its tiles are summed, so forward and adjoint run in turn; names of both are those of A.N."""
    operands = [Dense(torch.full((3, 4), k), ("M", "N"), ("N",), ("M",)) for k in (1.0, 2.0)]
    A = Stack(*operands, odim_and_idx=("K", 0))
    B = batch_linop(A, {"N": 2})
    B.N.load_state_dict({name: 3 * weight for name, weight in A.N.state_dict().items()})
    assert [operand.weight.unique().item() for operand in operands] == [3.0, 6.0]


def matrix(seed: int = 0) -> Dense:
    weight = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed))
    weight = weight.to(torch.complex128)
    return Dense(nn.Parameter(weight), ("M", "N"), ("N",), ("M",))


def network(cut: bool) -> nn.ModuleDict:
    """Return a network with operators of all kinds: shared, stacked, nested, adjoint, fixed."""
    S, gain = matrix(), nn.Parameter(torch.tensor([1.0, 2j, 3.0, 4.0]))
    W = Diagonal(gain, ("M",)) @ S @ Diagonal(torch.arange(6.0), ("N",))
    linops = [
        (W, {"M": 3}),
        (W, {"M": 2, "N": 4}),
        (S.H, {"N": 1}),
        (Stack(S, matrix(1), odim_and_idx=("K", 0)), {"K": 1, "N": 3}),
        (Concat(matrix(2), matrix(3), idim="N"), {"N": 5}),
        (Dense(matrix(4).weight, ("M", "N"), ("M",), ("N",)) @ matrix(5), {"M": 2}),
    ]
    return nn.ModuleDict(
        {
            f"linop{n}": batch_linop(batch_linop(A, sizes), sizes) if cut else A
            for n, (A, sizes) in enumerate(linops)
        }
    )


def loss(net: nn.ModuleDict) -> Tensor:
    generator, total = torch.Generator().manual_seed(9), torch.zeros(())
    for linop in net.values():  # not children(), which lists a module that occurs twice once
        assert isinstance(linop, NamedLinop)
        x = torch.randn([n or 4 for n in linop.sizes("input")], generator=generator)
        total = total + linop(x + 0j).abs().square().sum()
    return total


def trained(net: nn.ModuleDict) -> tuple[nn.ModuleDict, torch.optim.Optimizer]:
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        torch.autograd.backward(loss(net))
        optimizer.step()
    return net, optimizer


def test_networks_train_alike_and_have_equal_checkpoints() -> None:
    (whole, of_whole), (cut, of_cut) = trained(network(False)), trained(network(True))
    torch.testing.assert_close(cut.state_dict(), whole.state_dict())
    result, wanted = (
        get_optimizer_state_dict(cut, of_cut),
        get_optimizer_state_dict(whole, of_whole),
    )
    torch.testing.assert_close(result["state"], wanted["state"])
    assert result["param_groups"] == wanted["param_groups"]
    fresh, optimizer = network(True), torch.optim.Adam(network(True).parameters())
    set_model_state_dict(fresh, copy.deepcopy(get_model_state_dict(whole)))
    optimizer.load_state_dict(of_whole.state_dict())
    assert [*optimizer.state_dict()["state"]] == [*of_cut.state_dict()["state"]]
    torch.testing.assert_close(loss(fresh), loss(whole))


def test_no_weight_is_joined_or_copied_for_a_state() -> None:
    S = matrix()
    S.weight.data = S.weight.detach().conj().resolve_conj()
    for sizes in ({"M": 1}, {"N": 2}, {"M": 3, "N": 4}):
        state = batch_linop(S, sizes).state_dict()
        assert [*state] == ["weight"]
        assert state["weight"].data_ptr() == S.weight.data_ptr()


def test_errors_name_the_weights_of_the_whole() -> None:
    A = Diagonal(torch.ones(4), ("M",)) @ matrix()
    B = batch_linop(A, {"M": 1})
    state = A.state_dict()
    missing = {"0.weight": state["0.weight"]}
    for wrong in (
        missing,
        {**state, "2.weight": torch.ones(1)},
        {**state, "1.weight": torch.ones(2)},
    ):
        said = []
        for linop in (A, B):
            with pytest.raises(
                RuntimeError, match=r"(Missing key|Unexpected key|size mismatch)"
            ) as e:
                linop.load_state_dict(wrong)
            said.append(re.sub("Tiled|Chain", "", str(e.value)))
        assert said[0] == said[1]
        wrong = {name: value for name, value in wrong.items() if len(value) > 1 and value.ndim}
    result = B.load_state_dict(missing, strict=False)
    assert result.missing_keys == ["1.weight"] and not result.unexpected_keys


def test_a_prefix_and_a_destination_may_be_given() -> None:
    result: dict[str, Any] = {}
    S = matrix()
    batch_linop(S, {"M": 1}).state_dict(destination=result, prefix="here.", keep_vars=True)
    assert [*result] == ["here.weight"] and result["here.weight"] is S.weight


@pytest.mark.parametrize("sizes", [{"M": 1}, {"M": 3, "N": 4}])
def test_weights_that_are_replaced_or_moved_are_those_of_all_tiles(sizes: dict[str, int]) -> None:
    for A in (matrix(), matrix() @ Diagonal(torch.ones(6), ("N",))):
        B, x = batch_linop(A, sizes), torch.randn(6) + 0j
        name, weight = next(B.named_parameters())
        result = functional_call(B, {name: 0 * weight}, (x,))
        assert not result.any()
        torch.testing.assert_close(B(x), A(x))
        B.to(torch.float64)
        torch.testing.assert_close(B(x.to(torch.complex128)), A(x.to(torch.complex128)))
        memory_aware_to(B, dtype=torch.float32)
        torch.testing.assert_close(B(x), A(x))


def test_a_shallow_copy_has_its_own_weights() -> None:
    A = matrix()
    B, x = batch_linop(A, {"M": 1}), torch.randn(6) + 0j
    for other in (copy.copy(B), copy.copy(B.H).H):
        wanted = other(x)
        assert other.weight is A.weight
        other.weight = nn.Parameter(2 * A.weight.detach())
        assert not torch.allclose(other(x), wanted)
    torch.testing.assert_close(B(x), A(x))
    C = copy.copy(batch_linop(A.H.N, {"N": 2}))
    check_same_module(C, A.H.N)


@pytest.mark.parametrize(
    "A", [matrix(), matrix() @ Diagonal(torch.ones(6), ("N",))], ids=["leaf", "chain"]
)
def test_parts_that_are_tiled_themselves_train(A: NamedLinop) -> None:
    parts = [Part(batch_linop(A, sizes)) for sizes in ({"M": 1}, {"N": 4})]
    B, x = Tiled(Tiles(A.shape, parts, {}), whole=A), torch.randn(6, dtype=torch.complex128)
    result, wanted = (
        torch.autograd.grad(linop(x).abs().square().sum(), [*A.parameters()])
        for linop in (B, 2 * A)
    )
    torch.testing.assert_close(result, wanted)
    check_same_module(B, A)


def test_weights_are_not_deleted() -> None:
    """As by ``parametrize``, which deletes the weight and makes a property of it."""
    B, x = batch_linop(matrix(), {"M": 1}), torch.randn(6) + 0j
    wanted = B(x.to(torch.complex128))
    with pytest.raises(RuntimeError, match="weight must stay a tensor of the operator"):
        parametrize.register_parametrization(B, "weight", nn.Identity())
    B._note = 1
    del B._note
    assert torch.equal(B(x.to(torch.complex128)), wanted)


class OwnSplit(NamedLinop):
    """An operator whose tiles hold views as weights of theirs."""

    values: Tensor

    def __init__(self, values: Tensor) -> None:
        super().__init__(NamedShape(("N",)))
        self.register_buffer("values", values)

    @staticmethod
    def fn(linop: "OwnSplit", x: Tensor, /) -> Tensor:
        return linop.values * x

    adj_fn = fn

    def size(self, dim: object) -> int | None:
        return len(self.values) if dim == "N" else None

    @staticmethod
    def split(linop: "OwnSplit", tile: Window, /) -> NamedLinop:
        return OwnSplit(linop.values[tile[ND("N")]])


def test_tiles_of_an_own_split_have_the_state_of_the_whole() -> None:
    A = OwnSplit(torch.arange(4.0))
    B, x = batch_linop(A, {"N": 3}), torch.rand(4)
    assert [*B.state_dict()] == ["values"]
    torch.testing.assert_close(B(x), A(x))
    for other in (copy.deepcopy(B), B.H, B):
        other.to(torch.float64)
        torch.testing.assert_close(other(x.double()), A(x).double())


def test_tiles_that_are_put_together_by_hand_are_the_submodules() -> None:
    tiles, *_ = split_linop(matrix(), {"M": 2})
    assert [*assemble(tiles, ("M",)).state_dict()] == ["0.weight"]
