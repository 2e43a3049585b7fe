from typing import Any

import pytest
import scipy.optimize
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Dense
from linops_solvers import Record, StopReason, lbfgs

dtypes = st.sampled_from([torch.float64, torch.complex128])


@given(dtypes, st.integers(0, 2**16))
def test_least_squares_have_their_closed_solution(dtype: torch.dtype, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(8, 4, dtype=dtype, generator=generator) + 3 * torch.eye(8, 4)
    y = torch.randn(8, dtype=dtype, generator=generator)
    A, record = Dense.from_einstr(matrix, "MN,N->M"), Record()
    x = lbfgs(lambda x: (A(x) - y).abs().square().sum(), 0 * y[:4], tol=1e-6, callback=record)
    assert record.reason is StopReason.CONVERGED
    expected = torch.linalg.lstsq(matrix, y.unsqueeze(-1)).solution.squeeze(-1)
    torch.testing.assert_close(x, expected, rtol=1e-5, atol=1e-6)


def rosenbrock(x: Tensor) -> Tensor:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("n", [2, 5])
def test_the_valley_of_rosenbrock_as_scipy(n: int) -> None:
    start, record = torch.full((n,), -0.5, dtype=torch.float64), Record()
    x = lbfgs(rosenbrock, start, tol=1e-9, max_num_iters=200, callback=record)
    result = scipy.optimize.minimize(
        scipy.optimize.rosen, start.numpy(), jac=scipy.optimize.rosen_der, method="L-BFGS-B"
    )
    torch.testing.assert_close(x, torch.ones(n, dtype=torch.float64), rtol=1e-6, atol=1e-6)
    assert record.iterations <= 3 * result.nit
    assert torch.equal(start, torch.full((n,), -0.5, dtype=torch.float64))


def test_it_stops_at_the_minimum_and_at_rounding() -> None:
    record = Record()
    assert torch.equal(
        lbfgs(lambda x: (x**2).sum(), torch.zeros(3), callback=record), torch.zeros(3)
    )
    assert (record.iterations, record.reason) == (0, StopReason.CONVERGED)
    matrix = torch.arange(12.0, dtype=torch.float64).view(4, 3).cos()
    ones = torch.ones(4, dtype=torch.float64)
    lbfgs(lambda x: (matrix @ x - ones).square().sum(), ones[:3], 999, 0, callback=record)
    assert record.reason is StopReason.ROUNDING
    half = lbfgs(lambda x: (x.float() ** 2).sum(), torch.ones(3, dtype=torch.float16), tol=1e-2)
    assert half.dtype == torch.float16 and float(half.float().norm()) <= 0.02


def test_the_default_device_does_not_matter() -> None:
    start = torch.full((3,), -0.5)
    expected = lbfgs(rosenbrock, start, max_num_iters=5, tol=0)
    with torch.device("meta"):
        assert torch.equal(lbfgs(rosenbrock, start, max_num_iters=5, tol=0), expected)


@pytest.mark.parametrize("wrong", [lambda x: x, lambda x: x.sum() * 1j, lambda x: 3.0])
def test_functions_that_are_not_real_numbers_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"lbfgs: function must return a real tensor without dim"):
        lbfgs(wrong, torch.ones(2))


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ArithmeticError, match=r"lbfgs: values must stay finite, got nan"):
        lbfgs(lambda x: x.log().sum(), -torch.ones(2))
    with pytest.raises(TypeError, match=r"lbfgs: function must be an operator or a function"):
        lbfgs(3, torch.ones(2))  # type: ignore[arg-type]
