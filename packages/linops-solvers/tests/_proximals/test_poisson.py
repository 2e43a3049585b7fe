"""The proximal map of Poisson counts: against brute force, at its edges, and its gradients."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_solvers import conjugate, poisson_likelihood

counts = st.one_of(st.just(0.0), st.floats(1e-3, 1e3))


def function(x: float, y: float, b: float) -> float:
    mean = x + b
    if mean < 0 or (mean == 0 and y):
        return math.inf
    return mean - y + (y * math.log(y / mean) if y else 0.0)


def brute_force(z: float, t: float, y: float, b: float) -> float:
    """Return the minimiser of g(x) + (x - z)^2 / 2t by thirds of the interval that has it."""
    low, high = -b, max(z, y - b) + 1.0
    for _ in range(200):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        at = [function(x, y, b) + (x - z) ** 2 / (2 * t) for x in (one, other)]
        low, high = (low, other) if at[0] <= at[1] else (one, high)
    return (low + high) / 2


@given(st.floats(-50, 50), st.floats(0.01, 20), counts, st.floats(0, 5))
def test_the_map_is_the_minimum_that_brute_force_finds(
    z: float, t: float, y: float, b: float
) -> None:
    g = poisson_likelihood(torch.tensor([y], dtype=torch.float64), b)
    result = float(g(torch.tensor([z], dtype=torch.float64), t))
    # A search for a minimum finds its place to the root of the precision.
    assert result == pytest.approx(brute_force(z, t, y, b), rel=1e-5, abs=1e-5)


@given(st.floats(-50, 50), counts, st.floats(0, 5))
def test_a_step_of_zero_projects_and_an_infinite_one_minimises(
    z: float, y: float, b: float
) -> None:
    g, x = poisson_likelihood(y, b), torch.tensor([z], dtype=torch.float64)
    torch.testing.assert_close(g(x, 0.0), x.clamp(min=-b))
    torch.testing.assert_close(g(x, math.inf), torch.full_like(x, y - b))
    torch.testing.assert_close(g(x, 1e14), torch.full_like(x, y - b), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1e15, 1e30])
def test_squares_past_the_range_of_the_dtype_do_no_harm(scale: float) -> None:
    z, y = torch.tensor([-2.0, 0.5, 3.0]), torch.tensor([1.0, 2.0, 0.0])
    result = poisson_likelihood(scale * y)(scale * z, scale)  # of another unit of all
    torch.testing.assert_close(result / scale, poisson_likelihood(y)(z, 1.0))


@pytest.mark.parametrize("counts", [1e-40, 1.0, 1e30])
def test_a_step_of_zero_keeps_the_smallest_numbers(counts: float) -> None:
    x = torch.tensor([1e-40, 1e-38, 1e-30, 1.0], requires_grad=True)
    kept = poisson_likelihood(torch.full((4,), counts))(x, 0.0)
    assert torch.equal(kept, x)
    (gradient,) = torch.autograd.grad(kept.sum(), x)
    torch.testing.assert_close(gradient, torch.ones(4), rtol=1e-4, atol=0)
    assert not poisson_likelihood(torch.full((4,), counts))(-x.detach(), 0.0).any()


def test_large_counts_in_single_precision_have_an_exact_value() -> None:
    """The logarithm of a quotient near 1 would lose all digits of the sum."""
    y = torch.full((1000,), 1e6)
    x = y * (1 + 1e-4)
    exact = 1000 * (1e6 * (1.0001 - 1) - 1e6 * math.log(1.0001))
    assert float(poisson_likelihood(y).value(x)) == pytest.approx(exact, rel=0.02)


@given(st.integers(0, 2**16))
def test_it_has_gradients_to_all_of_its_arguments(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    z, y, b, t = torch.rand(4, 5, dtype=torch.float64, generator=generator).requires_grad_()
    inputs = [v.detach().requires_grad_() for v in (4 * z - 2, y + 0.1, b)]

    def mapped(z: torch.Tensor, y: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        g = poisson_likelihood(y, b)
        return torch.stack([g(z, 0.3 + float(t[0].detach())).sum(), g.value(g(z, 1.0) + 0.1)])

    assert torch.autograd.gradcheck(mapped, inputs)


def test_zeros_have_finite_gradients() -> None:
    z = torch.zeros(3, requires_grad=True)
    y = torch.tensor([0.0, 0.0, 1.0], requires_grad=True)
    for step in (0.0, 1.0):
        slopes = torch.autograd.grad(poisson_likelihood(y)(z, step).sum(), [z, y])
        assert torch.stack(slopes).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("step", [1e-320, 1e-310, 1e-40, 1e-300])
def test_the_smallest_numbers_have_gradients(dtype: torch.dtype, step: float) -> None:
    low = torch.finfo(dtype).tiny / 16
    z = torch.tensor([0.0, low, -low, 1.0], dtype=dtype, requires_grad=True)
    for counts in (0.0, low, 1.0):
        y = torch.full((4,), counts, dtype=dtype, requires_grad=True)
        result = poisson_likelihood(y)(z, step)
        torch.testing.assert_close(result, z.clamp(min=0), rtol=0, atol=2 * step**0.5)
        of_z, of_y = torch.autograd.grad(result.sum(), [z, y])
        assert ((of_z >= 0) & (of_z <= 1)).all() and of_y.isfinite().all()
        assert of_z[3] == 1


def test_small_counts_and_long_steps_keep_their_digits() -> None:
    y = torch.tensor([1e-300], dtype=torch.float64)
    for step in (1e20, 1e200, 1e308):
        torch.testing.assert_close(poisson_likelihood(y)(0 * y, step), y, rtol=1e-12, atol=0)


def test_the_value_is_infinite_where_counts_have_no_mean() -> None:
    g = poisson_likelihood(torch.tensor([0.0, 2.0]), 1.0)
    assert g.value(torch.tensor([-1.0, 1.0])) == 0
    for x in ([-1.5, 1.0], [0.0, -1.0], [0.0, -3.0]):
        assert g.value(torch.tensor(x)) == math.inf


def test_counts_may_be_integers_in_half_precision_too() -> None:
    g = poisson_likelihood(torch.tensor([0, 6]))
    for dtype in (torch.float16, torch.float32):
        result = g(torch.tensor([3.0, 2.0], dtype=dtype), 1.0)
        torch.testing.assert_close(result, torch.tensor([2.0, 3.0], dtype=dtype))
    assert conjugate(g)(torch.tensor([3.0, -1.0]), 1.0).max() <= 1  # g* is infinite beyond 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: poisson_likelihood(torch.tensor([-1.0])), ValueError, r"counts must be at le"),
        (lambda: poisson_likelihood(-1.0), ValueError, r"counts must be at least 0"),
        (lambda: poisson_likelihood(torch.tensor([math.inf])), ValueError, r"and finite, got inf"),
        (lambda: poisson_likelihood(1.0, torch.tensor([-2.0])), ValueError, r"background must .*2"),
        (lambda: poisson_likelihood(torch.tensor([1j])), TypeError, r"counts must be real, got"),
        (lambda: poisson_likelihood(1.0)(torch.tensor([1j]), 1.0), TypeError, r"x must be real"),
        (lambda: poisson_likelihood(1.0).value(torch.tensor([1j])), TypeError, r"as x.real"),
        (
            lambda: poisson_likelihood(torch.ones(3))(torch.ones(2), 1.0),
            ValueError,
            r"poisson_likelihood: counts must be broadcast to \(2,\), got shape \(3,\)",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
