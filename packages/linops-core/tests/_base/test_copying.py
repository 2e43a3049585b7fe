import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from linops_core import Chain, Dense, Diagonal, NamedLinop
from linops_core._base._copying import linked_copy, shallow_copy, with_changed_tensors
from nameddim import ND, NamedShape


def diagonal() -> Diagonal:
    return Diagonal(nn.Parameter(torch.tensor([1.0, 2.0])), ("N",))


def repickled(linop: NamedLinop) -> NamedLinop:
    other: NamedLinop = pickle.loads(pickle.dumps(linop))
    return other


def with_other_weights(linop: NamedLinop) -> NamedLinop:
    return linop.with_weights(lambda weight: nn.Parameter(weight.detach().clone()))


def test_a_linked_copy_follows_whatever_happens_to_the_original() -> None:
    A = diagonal()
    other = linked_copy(A)
    A.weight = nn.Parameter(torch.tensor([5.0, 6.0]))
    assert other.weight is A.weight
    A.register_buffer("extra", torch.ones(1))
    assert other.extra is A.extra


def test_a_linked_copy_can_have_another_shape() -> None:
    A = diagonal()
    other = linked_copy(A, NamedShape(("M",), weight_shape=("M",)))
    assert (A.ishape, other.ishape) == (("N",), ("M",))


def test_hooks_stay_on_the_operator_on_which_they_were_registered() -> None:
    A = diagonal()
    calls: list[Tensor] = []
    A.register_forward_hook(lambda module, args, output: calls.append(output))
    linked_copy(A)(torch.ones(2))
    A.H(torch.ones(2))
    assert not calls
    A(torch.ones(2))
    assert len(calls) == 1


def test_a_shallow_copy_does_not_follow_a_replaced_parameter() -> None:
    A = diagonal()
    other = copy.copy(A)
    assert other.weight is A.weight
    A.weight = nn.Parameter(torch.zeros(2))
    assert torch.equal(other(torch.ones(2)), torch.tensor([1.0, 2.0]))
    assert torch.equal(other.H(torch.ones(2)), torch.tensor([1.0, 2.0]))


def test_a_shallow_copy_of_a_chain_shares_its_operands() -> None:
    A = Chain(diagonal(), diagonal())
    other = shallow_copy(A)
    assert all(a is b for a, b in zip(A.linops, other.linops, strict=True))
    assert vars(other)["_modules"] is not vars(A)["_modules"]


def test_settings_of_a_shallow_copy_are_its_own() -> None:
    A = diagonal()
    A.H  # noqa: B018 (so that the setting of A is fixed)
    other = copy.copy(A)
    other.gain = 2
    assert not hasattr(A, "gain")


@pytest.mark.parametrize("change", [copy.copy, copy.deepcopy, repickled, with_other_weights])
def test_a_copy_of_a_compiled_operator_does_not_call_the_original(
    change: Callable[[NamedLinop], NamedLinop],
) -> None:
    A = diagonal()
    A.compile(backend="eager")
    B, x = diagonal() @ A, torch.ones(2)
    assert torch.equal(A(x), torch.tensor([1.0, 2.0]))
    for linop, power in ((A, 1), (B, 2)):
        other = change(linop)
        for part in other.modules():
            if isinstance(part, Diagonal):
                part.weight = torch.nn.Parameter(torch.tensor([3.0, 5.0]))
        assert torch.equal(other(x), torch.tensor([3.0, 5.0]) ** power)


def test_a_hook_on_a_copy_with_other_weights_is_not_one_of_the_original() -> None:
    A, calls = diagonal(), list[str]()
    A.register_forward_hook(lambda *_: calls.append("both"))
    other = with_other_weights(A)
    other.register_forward_hook(lambda *_: calls.append("copy"))
    A(torch.ones(2))
    assert calls == ["both"]
    other(torch.ones(2))
    assert calls == ["both", "both", "copy"]


def test_changed_tensors_are_those_that_a_tile_reads_and_buffers() -> None:
    W = nn.Parameter(torch.arange(6.0).reshape(3, 2))
    tile = Dense(W).split(Dense(W), {ND("M"): slice(1, 3)})
    seen: list[tuple[int, ...]] = []

    def change(tensor: Tensor) -> Tensor:
        seen.append(tuple(tensor.shape))
        return tensor.detach().clone()

    other = tile.with_weights(change)
    assert seen == [(2, 2)]
    assert list(other.parameters()) == []
    x = torch.ones(2)
    assert torch.equal(other(x), tile(x))
    assert other.size("M") == 2
    W.detach().zero_()
    assert not torch.equal(other(x), tile(x))


def test_parts_that_are_no_operators_are_changed_too() -> None:
    class WithPart(Diagonal):
        def __init__(self, weight: Tensor) -> None:
            super().__init__(weight, ("N",))
            self.part = nn.Linear(1, 1)
            self.absent = None
            self.register_module("missing", None)
            self.register_parameter("none", None)

    other = with_changed_tensors(WithPart(torch.ones(2)), torch.zeros_like)
    assert not any(buffer.any() for buffer in other.buffers())
    assert len(list(other.buffers())) == 3 and not list(other.parameters())
    assert other.missing is None and other.none is None
