import math
from collections.abc import Mapping

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core._kernels._interpolation._weights import (
    Spline,
    beatty_beta,
    bessel,
    interpolation_kernel,
)
from linops_core.testing.strategies._grid_operators import kernel_value

KERNELS: list[tuple[str, dict[str, float] | None]] = [
    ("linear", None),
    ("spline", None),
    ("spline", {"order": 1}),
    ("spline", {"order": 2}),
    ("spline", {"order": 3}),
    ("kaiser_bessel", {"beta": 0.0}),
    ("kaiser_bessel", {"beta": 2.5}),
    ("kaiser_bessel", {"beta": 14.0}),
]


@pytest.mark.parametrize(("name", "params"), KERNELS)
@given(t=st.floats(0, 1.5))
def test_kernels_are_their_formulas(
    name: str, params: Mapping[str, float] | None, t: float
) -> None:
    t = math.sqrt(t * t)  # as the kernel sees it
    kernel, expected = interpolation_kernel(name, 4.0, params), kernel_value(name, t, params)
    for signed in (None, t, -t):
        along = None if signed is None else torch.tensor([signed], dtype=torch.float64)
        result = kernel(torch.tensor([t * t], dtype=torch.float64), along)
        assert result.item() == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_splines_of_the_width_of_their_order_and_one_sum_to_one(order: int) -> None:
    offsets = torch.linspace(0, 1, 11, dtype=torch.float64)
    nodes = torch.arange(-5, 6, dtype=torch.float64)
    t = (nodes[:, None] - offsets) / ((order + 1) / 2)
    torch.testing.assert_close(Spline(order)(t.square()).sum(0), torch.ones_like(offsets))


def test_the_bessel_function_and_its_derivatives_are_those_of_torch() -> None:
    z = torch.linspace(0.05, 25, 40, dtype=torch.float64)
    q = z.square() / 4
    largest = float(q.max())
    torch.testing.assert_close(bessel(q, 0, largest), torch.special.i0(z), rtol=1e-13, atol=0)
    first = torch.special.i1(z) * (2 / z)
    torch.testing.assert_close(bessel(q, 1, largest), first, rtol=1e-13, atol=0)
    # I_2 = I_0 - (2 / z) I_1
    second = (torch.special.i0(z) - (2 / z) * torch.special.i1(z)) * (2 / z) ** 2
    torch.testing.assert_close(bessel(q, 2, largest), second, rtol=1e-9, atol=1e-9)


def test_the_bessel_function_is_differentiable_at_zero_and_in_every_order() -> None:
    q = torch.tensor([0.0, 1e-30, 0.5, 30.0], dtype=torch.float64, requires_grad=True)
    value = bessel(q, 0, 30.0)
    for order in range(1, 4):
        (value,) = torch.autograd.grad(value.sum(), q, create_graph=True)
        torch.testing.assert_close(value, bessel(q, order, 30.0))
        assert value[0].item() == pytest.approx(1 / math.factorial(order))
    inside = q.detach()[2:].requires_grad_()
    assert torch.autograd.gradcheck(lambda q: bessel(q, 0, 31.0), inside)
    assert torch.autograd.gradgradcheck(lambda q: bessel(q, 0, 31.0), inside)


def test_the_bessel_function_of_large_arguments_does_not_underflow_in_single_precision() -> None:
    z = torch.tensor([60.0])
    expected = torch.special.i1(z) * (2 / z)
    torch.testing.assert_close(bessel(z.square() / 4, 1, 900.0), expected, rtol=1e-5, atol=0)


def test_the_bessel_function_compiles() -> None:
    torch._dynamo.reset()
    run = torch.compile(lambda q: bessel(q, 0, 20.0), backend="aot_eager", fullgraph=True)
    q = torch.linspace(0, 20, 9, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(run(q), bessel(q, 0, 20.0))
    (result,) = torch.autograd.grad(run(q).sum(), q)
    torch.testing.assert_close(result, bessel(q.detach(), 1, 20.0))


def test_the_best_beta_is_that_of_the_paper() -> None:
    # Beatty et al., figure 3: kernels of width 4 to 6 at small and usual oversampling.
    assert beatty_beta(4, 2) == pytest.approx(math.pi * math.sqrt(8.2))
    assert beatty_beta(6, 1.25) == pytest.approx(math.pi * math.sqrt(12.16))
    assert beatty_beta(1) == 0


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        (["linear"], None, r"kernel must be one of .*, got \['linear'\]"),
        ("gauss", None, r"kernel must be one of .*, got 'gauss'"),
        ("linear", {"order": 1}, r"kernel_params of 'linear' must be empty, got \['order'\]"),
        ("spline", {"beta": 1}, r"kernel_params of 'spline' must be 'order' alone, got \['beta'\]"),
        ("spline", {"order": 4}, r"the order of a spline must be 1, 2 or 3, got 4"),
        ("kaiser_bessel", {"beta": -1.0}, r"beta must be at least 0 and finite, got -1.0"),
        ("kaiser_bessel", {"beta": math.nan}, r"beta must be at least 0 and finite, got nan"),
        ("kaiser_bessel", {"beta": "x"}, r"beta must be a real number, got 'x'"),
    ],
)
def test_what_is_no_kernel_is_refused(
    name: str, params: Mapping[str, float] | None, message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"Interpolate: {message}"):
        interpolation_kernel(name, 4.0, params)
