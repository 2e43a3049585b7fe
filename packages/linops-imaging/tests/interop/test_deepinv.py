"""The interface of DeepInverse 0.5, with a stand-in for its class and with itself where it imports.

The stand-in has what its documentation says of ``deepinv.physics.LinearPhysics``: ``A``,
``A_adjoint``, ``A_adjoint_A``, ``A_A_adjoint`` and options. ``witnesses`` has more on the real one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import FFT, Diagonal, NamedLinop, RealFFT, RealPart, Sampling
from linops_core.testing import BaseNamedLinopTests, dottest
from linops_imaging.interop import from_deepinv, to_deepinv


def unchanged(x: Tensor, **_: Any) -> Tensor:
    return x


class LinearPhysics(nn.Module):
    """The stand-in."""

    def __init__(
        self,
        A: Callable[..., Any] = unchanged,
        A_adjoint: Callable[..., Any] = unchanged,
        max_iter: int = 50,
    ) -> None:
        super().__init__()
        self.forw: Callable[..., Any] = A
        self.A_adj: Callable[..., Any] = A_adjoint
        self.max_iter = max_iter

    def A(self, x: Tensor, **words: Any) -> Any:
        return self.forw(x, **words)

    def A_adjoint(self, y: Tensor, **words: Any) -> Tensor:
        result: Tensor = self.A_adj(y, **words)
        return result

    def A_adjoint_A(self, x: Tensor, **words: Any) -> Tensor:
        return self.A_adjoint(self.A(x, **words), **words)

    def A_A_adjoint(self, y: Tensor, **words: Any) -> Any:
        return self.A(self.A_adjoint(y, **words), **words)


@pytest.fixture(autouse=True, scope="module")
def stand_in() -> Any:
    names = "deepinv", "deepinv.physics"
    modules = {name: ModuleType(name) for name in names}
    modules["deepinv.physics"].LinearPhysics = LinearPhysics  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        yield


MAPS = torch.randn(3, 4, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[1, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 1]], dtype=torch.bool)


def scanner(*batch: str) -> NamedLinop:
    shape = (*batch, "Nx", "Ny")
    F = FFT(2, batch, centered=True)
    return Sampling.from_mask(MASK, batch_shape=batch) @ F @ Diagonal(MAPS, shape)


def random(*shape: int, dtype: torch.dtype = torch.complex128) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(1))


@given(st.sampled_from([(), ("...",)]), st.integers(1, 3))
def test_images_come_in_batches(batch: tuple[str, ...], n: int) -> None:
    A = scanner(*batch)
    physics = to_deepinv(A, max_iter=7)
    assert isinstance(physics, LinearPhysics) and physics.max_iter == 7
    x, y = random(n, 3, 4), random(n, int(MASK.sum()))
    whole = scanner("...")
    torch.testing.assert_close(physics.A(x), whole(x))
    torch.testing.assert_close(physics.A_adjoint(y), whole.H(y))
    torch.testing.assert_close(physics.A_adjoint_A(x), whole.N(x))
    torch.testing.assert_close(physics.A_A_adjoint(y), whole(whole.H(y)))
    torch.testing.assert_close(physics.A(x, sigma=0.1), whole(x))


@pytest.mark.parametrize("batch", [(), ("...",)])
def test_a_batch_of_no_images(batch: tuple[str, ...]) -> None:
    physics = to_deepinv(scanner(*batch))
    x, y = random(0, 3, 4), random(0, int(MASK.sum()))
    assert physics.A(x).shape == y.shape and physics.A(x).dtype == y.dtype
    assert physics.A_adjoint(y).shape == physics.A_adjoint_A(x).shape == x.shape


def test_solvers_get_no_complex_tensors_for_operators_linear_over_the_reals_only() -> None:
    physics, x = to_deepinv(RealPart()), random(2, 3)
    assert torch.equal(physics.A(x), x.real)
    with pytest.raises(ValueError, match=r"to_deepinv: RealPart.* over complex .*channels=True"):
        physics.A_adjoint_A(x)
    real = random(2, 4, dtype=torch.float64)
    A = RealFFT(("N",), 4)
    torch.testing.assert_close(to_deepinv(A).A_adjoint_A(real), A.N(real))
    with pytest.raises(ValueError, match=r"to_deepinv: RealFFT.* over complex .*channels=True"):
        to_deepinv(A).A_A_adjoint(A(real))
    parts = to_deepinv(RealPart(), complex_channels=True).A_adjoint_A(random(1, 2, 3).real)
    torch.testing.assert_close(parts[:, 1], torch.zeros(1, 3, dtype=torch.float64))


def test_a_channel_is_in_the_batch_of_an_operator_with_one() -> None:
    x = random(2, 1, 3, 4)
    assert torch.equal(to_deepinv(scanner("...")).A(x), scanner("...")(x))


def test_complex_numbers_as_channels() -> None:
    physics = to_deepinv(scanner(), complex_channels=True)
    x, y = random(2, 2, 3, 4, dtype=torch.float64), random(2, 2, 8, dtype=torch.float64)
    result = physics.A(x)
    expected = scanner("...")(torch.complex(x[:, 0], x[:, 1]))
    assert torch.equal(result, torch.stack([expected.real, expected.imag], 1))
    # The transpose of real numbers, as what is to be minimised there is real.
    torch.testing.assert_close((result * y).sum(), (x * physics.A_adjoint(y)).sum())
    for wrong in (x[:, :1], x.to(torch.complex128), x[0, 0, 0]):
        with pytest.raises(ValueError, match=r"to_deepinv: .* real with 2 channels, .* got torch"):
            physics.A(wrong)


def test_a_real_result_has_an_imaginary_part_of_zero() -> None:
    physics = to_deepinv(FFT(1).H @ FFT(1), complex_channels=True)
    assert physics.A(torch.ones(1, 2, 3)).dtype == torch.float32
    back = from_deepinv(LinearPhysics(), ("...", "N"), ("...", "N"), complex_channels=True)
    assert torch.equal(back(torch.ones(3)), torch.ones(3, dtype=torch.complex64))


def test_gradients_and_weights() -> None:
    weight = nn.Parameter(MAPS.clone())
    physics = to_deepinv(Diagonal(weight, ("Nx", "Ny")))
    assert [*physics.parameters()] == [weight]
    x = random(2, 3, 4).requires_grad_()
    torch.autograd.gradcheck(physics.A, x)
    torch.autograd.backward(physics.A(x).abs().square().sum())
    assert weight.grad is not None and weight.grad.norm() > 0


class Shift(LinearPhysics):
    """A physics as DeepInverse has them: a subclass, with a buffer."""

    filter: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("filter", MAPS.clone())

    def A(self, x: Tensor, **_: Any) -> Tensor:
        result: Tensor = (self.filter * x).roll(1, -1).flatten(1)
        return result

    def A_adjoint(self, y: Tensor, **_: Any) -> Tensor:
        image: Tensor = y.unflatten(1, (3, 4))
        return self.filter.conj() * image.roll(-1, -1)


class TestFromDeepinv(BaseNamedLinopTests):
    def sizes(self) -> Mapping[str, int]:
        return {"Nx": 3, "Ny": 4, "K": 12}

    def also_saved(self) -> None:
        return None

    def make_linop(self) -> NamedLinop:
        return from_deepinv(Shift(), ("...", "Nx", "Ny"), ("...", "K"))


@given(st.lists(st.integers(1, 3), max_size=3))
def test_any_batch_goes_through_a_physics(batch: list[int]) -> None:
    physics = to_deepinv(scanner())
    A = from_deepinv(physics, ("...", "Nx", "Ny"), ("...", "K"))
    x = random(*batch, 3, 4)
    torch.testing.assert_close(A(x), scanner("...")(x))
    torch.testing.assert_close(A.N(x), scanner("...").N(x))
    dottest(A, {"Nx": 3, "Ny": 4, "K": 8})


def test_a_wrong_adjoint_is_seen() -> None:
    physics = LinearPhysics(lambda x: 2 * x, lambda y: y)
    with pytest.raises(ValueError, match=r"got 0\.5 times the adjoint"):
        dottest(from_deepinv(physics, ("N",), ("M",)), {"N": 3, "M": 3})


def test_the_parameters_of_a_physics_are_those_of_the_operator() -> None:
    physics = LinearPhysics()
    physics.weight = nn.Parameter(torch.ones(2))
    assert [*from_deepinv(physics, ("N",), ("M",)).parameters()] == [physics.weight]
    assert from_deepinv(physics, ("N",), ("M",)).name == "LinearPhysics"
    assert from_deepinv(physics, ("N",), ("M",), name="Blur").name == "Blur"


def test_bad_arguments_are_refused() -> None:
    physics: Any = LinearPhysics(lambda x: [x], lambda y: y)
    with pytest.raises(TypeError, match="to_deepinv: the operator must be a NamedLinop, got"):
        to_deepinv(physics)
    with pytest.raises(TypeError, match="from_deepinv: physics must be a LinearPhysics, got"):
        from_deepinv(scanner(), ("N",), ("M",))
    for shapes in ((("...", "N"), ("M",)), (("N", "..."), ("M", "..."))):
        with pytest.raises(ValueError, match=r"from_deepinv: a \.\.\. must be at the front of"):
            from_deepinv(physics, *shapes)
    with pytest.raises(TypeError, match=r"A of LinearPhysics must return a tensor, got .*list"):
        from_deepinv(physics, ("N",), ("M",))(torch.ones(2))
    one = LinearPhysics(lambda x: x[:, :1], lambda y: y)
    with pytest.raises(ValueError, match=r"from_deepinv: .* 2 channels.*got .*shape \(1, 1, 2\)"):
        from_deepinv(one, ("N",), ("M",), complex_channels=True)(torch.ones(2))
