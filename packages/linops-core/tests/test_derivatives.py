"""Derivatives of every operator in the ways of torch that no other law covers."""

from collections.abc import Callable
from typing import Literal

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import functional_call, vjp, vmap

from linops_core import BlocksToArray, Diagonal, Interpolate
from linops_core._base._sizes import input_lengths
from linops_core.testing.strategies import Known, leaves
from linops_core.testing.strategies._known import MADE, Leaf, named

WAYS: st.SearchStrategy[Literal["A", "H", "N"]] = st.sampled_from(["A", "H", "N"])


def operator_and_input(known: Known, way: Literal["A", "H", "N"]) -> tuple[torch.nn.Module, Tensor]:
    A = named(known).linop
    linop = {"A": A, "H": A.H, "N": A.N}[way]
    return linop, torch.randn(input_lengths(linop, known.sizes_of(linop)), dtype=torch.float64)


@given(leaves(), WAYS)
def test_a_batch_of_gradients_is_that_of_one_after_another(
    known: Known, way: Literal["A", "H", "N"]
) -> None:
    check_batch(*operator_and_input(known, way))


@pytest.mark.parametrize("stride", [1, 2])
def test_a_batch_of_gradients_of_blocks_and_of_points(stride: int) -> None:
    check_batch(BlocksToArray([5], [3], [stride]), torch.randn(3 if stride == 1 else 2, 3))
    check_batch(Interpolate(torch.tensor([[0.3], [2.2]]), [5], table_budget=0), torch.randn(5))


def check_batch(A: torch.nn.Module, x: Tensor) -> None:
    y = A(x.requires_grad_())
    rows = torch.randn(2, *y.shape, dtype=y.dtype)
    (batch,) = torch.autograd.grad(y, x, rows, is_grads_batched=True, retain_graph=True)
    for row, of_row in zip(rows, batch, strict=True):
        torch.testing.assert_close(torch.autograd.grad(y, x, row, retain_graph=True)[0], of_row)


@pytest.mark.parametrize("leaf", MADE, ids=lambda leaf: leaf.__name__)
@settings(max_examples=1 + settings().max_examples // 16)
@given(st.data())
def test_a_batch_of_lazy_conjugates_is_taken_back(leaf: Leaf, data: st.DataObject) -> None:
    A, x = operator_and_input(data.draw(leaf()), data.draw(WAYS))
    y, back = vjp(A, x.to(torch.complex128))[:2]
    rows = torch.randn(2, *y.shape, dtype=y.dtype)
    (batch,) = vmap(lambda row: back(row.conj()))(rows)
    for row, of_row in zip(rows.conj().resolve_conj(), batch, strict=True):
        torch.testing.assert_close(back(row)[0], of_row)


LAZY: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda x: x,
    "conjugate": torch.conj,
    "negative": torch._neg_view,
    "both": lambda x: torch._neg_view(x).conj(),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@settings(max_examples=settings().max_examples // 4)
@given(leaves(), WAYS, *[st.sampled_from(sorted(LAZY))] * 2)
def test_forward_mode_takes_lazy_inputs_and_tangents(
    known: Known, way: Literal["A", "H", "N"], of_x: str, of_change: str
) -> None:
    A, x = operator_and_input(known, way)
    x, change = LAZY[of_x](torch.complex(x, x.flip(0))), LAZY[of_change](x.flip(-1) * (1 + 2j))
    y, of_y, *_ = torch.func.jvp(A, (x,), (change,))
    torch.testing.assert_close(y, A(x))
    torch.testing.assert_close(of_y, A(change))


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@given(leaves(), WAYS)
def test_tangents_of_weights_are_followed(known: Known, way: Literal["A", "H", "N"]) -> None:
    A, x = operator_and_input(known, way)
    assume(weights_of(A))
    check_tangents(A, x)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
def test_tangents_of_weights_that_a_normal_multiplies_by_twice() -> None:
    check_tangents(Diagonal(torch.randn(3), ("N",)).N, torch.randn(3))


def weights_of(A: torch.nn.Module) -> dict[str, Tensor]:
    tensors = {**dict(A.named_parameters()), **dict(A.named_buffers())}.items()
    return {n: w.detach() for n, w in tensors if w.is_floating_point() or w.is_complex()}


def check_tangents(A: torch.nn.Module, x: Tensor) -> None:
    weights = weights_of(A)
    changes = {name: torch.randn_like(weight) for name, weight in weights.items()}
    with forward_ad.dual_level(), torch.no_grad():
        duals = {n: forward_ad.make_dual(w, changes[n]) for n, w in weights.items()}
        tangent = forward_ad.unpack_dual(functional_call(A, duals, (x,))).tangent
    expected = torch.func.jvp(lambda w: functional_call(A, w, (x,)), (weights,), (changes,))[1]
    torch.testing.assert_close(torch.zeros_like(expected) if tangent is None else tangent, expected)
