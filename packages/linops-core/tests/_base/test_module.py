"""Operators in networks that are moved and cast: ``net.to``, ``net.half``, ``net.type``."""

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from linops_core import Dense, Diagonal, FourierShift, Interpolate, NamedLinop, SliceableLinop
from linops_core.siblings import OwnTile, input_space, tile_of
from linops_core.testing.strategies import Known, trees
from memmap import memory_aware_to
from nameddim import ND, NamedDimension, NamedShape

CASTS: dict[str, Callable[[nn.Module], object]] = {
    "to": lambda net: net.to(torch.float32),
    "to a device": lambda net: net.to("cpu", torch.float32),
    "type": lambda net: net.type(torch.float32),
    "double": lambda net: net.double(),
}
HALF: dict[str, Callable[[nn.Module], object]] = {
    "half": lambda net: net.half(),
    "to half": lambda net: net.to(torch.float16),
    "to bfloat16": lambda net: net.to(torch.bfloat16),
    "to complex": lambda net: net.to(torch.complex64),
    "operator": lambda net: [linop.to(torch.float16) for linop in net.children()],
    "memory aware": lambda net: [
        cast(NamedLinop, linop).to(torch.float16, memory_aware=True) for linop in net.children()
    ],
    "memory aware network": lambda net: memory_aware_to(net, dtype=torch.float16),
}


@given(trees(), st.sampled_from([*CASTS]))
def test_complex_weights_stay_complex_in_a_network(known: Known, way: str) -> None:
    A = known.linop
    if way == "type":  # torch casts indices, too
        weights = A.state_dict().values()
        assume(all(t.is_floating_point() or t.is_complex() for t in weights))
    B = copy.deepcopy(A)
    CASTS[way](nn.ModuleList([B]))
    lengths = known.spaces.lengths(known.spaces.ishape)
    x = torch.randn(lengths, dtype=torch.complex128)
    torch.testing.assert_close(B(x), A(x), atol=1e-3, rtol=1e-3)
    for own, old in zip(B.state_dict().values(), A.state_dict().values(), strict=True):
        assert own.is_complex() == old.is_complex()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_weights_and_gradients_are_cast_alike(dtype: torch.dtype) -> None:
    A = Dense(nn.Parameter(torch.randn(2, 3, dtype=torch.complex64)), ("M", "N"), ("N",), ("M",))
    A(torch.ones(3)).abs().sum().backward()
    weight, gradient = A.weight.detach().clone(), A.weight.grad
    assert gradient is not None
    nn.ModuleList([A]).to(dtype)
    kept = torch.complex64 if dtype is torch.bfloat16 else torch.complex128
    assert A.weight.dtype is kept
    assert copy.deepcopy(A).to(dtype).weight.dtype is kept
    assert Diagonal(torch.ones(2), ("N",)).to(dtype).weight.dtype is dtype
    torch.testing.assert_close(A.weight.detach(), weight.to(kept))
    torch.testing.assert_close(A.weight.grad, gradient.to(kept))


@pytest.mark.parametrize("way", HALF)
@pytest.mark.parametrize(
    "A",
    [
        FourierShift(("Nx",), nn.Parameter(torch.tensor([2.34567]))),
        Interpolate(torch.tensor([[1.23456], [30.34567]]), (40,), (), ("K",)),
    ],
    ids=["shift", "interpolate"],
)
def test_places_are_not_rounded_to_half_precision(A: NamedLinop, way: str) -> None:
    A, x = copy.deepcopy(A), torch.randn(40, dtype=torch.complex64)
    wanted = A(x)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Complex modules are a new feature")
        HALF[way](nn.ModuleList([A]))
    assert {t.dtype for t in (*A.parameters(), *A.buffers())} == {torch.float32}
    assert torch.equal(A(x), wanted)
    A.to(torch.float64, memory_aware=True)
    assert {t.dtype for t in (*A.parameters(), *A.buffers())} == {torch.float64}


class OwnSplit(FourierShift):
    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        return None if dim == "C" else super().why_opaque(dim)

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        return FourierShift(("N",), linop.shifts.clone(), shape=("C", "N"))


def test_a_tile_with_tensors_of_its_own_keeps_the_geometry_of_its_operator() -> None:
    A = OwnSplit(("N",), torch.tensor([1.23456]), shape=("C", "N"))
    tile, x = tile_of(A, {ND("C"): slice(0, 1)}), torch.randn(1, 4)
    assert isinstance(tile, OwnTile)
    wanted = tile(x)
    assert torch.equal(tile.half()(x), wanted)
    assert A.shifts.dtype is torch.float32


def test_an_operator_says_which_of_its_weights_are_geometry() -> None:
    class Wave(SliceableLinop):
        def __init__(self, times: torch.Tensor, gain: torch.Tensor) -> None:
            super().__init__(NamedShape(("T",), weights=("T",)))
            self.register_weight("times", times, "weights", is_geometry=True)
            self.register_weight("gain", gain, "weights")

        @staticmethod
        def fn(linop: Any, x: torch.Tensor, /) -> torch.Tensor:
            y: torch.Tensor = linop.weight_part("times").cos() * linop.weight_part("gain") * x
            return y

        adj_fn = fn

    A = Wave(torch.arange(3, dtype=torch.float64), torch.ones(3))
    assert A.to_dense().dtype is torch.float64  # products promote
    assert input_space(A).dtype is torch.float32
    A.half()
    assert {name: t.dtype for name, t in A.named_buffers()} == {
        "times": torch.float64,
        "gain": torch.float16,
    }
