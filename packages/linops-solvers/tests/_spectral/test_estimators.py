from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Dense, Diagonal
from linops_solvers import Record, Step, StopReason, estimate_diagonal, estimate_trace

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
seeds = st.integers(0, 2**16)


def randn(*shape: int, dtype: torch.dtype, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("method", ["hutchinson", "hutch++"])
@pytest.mark.parametrize("seed", range(5))
def test_the_trace_is_within_its_standard_error(dtype: torch.dtype, method: Any, seed: int) -> None:
    """Within four of them: once in fifteen thousand it is not, and these seeds are fixed."""
    matrix = randn(12, 12, dtype=dtype, seed=seed)
    result = estimate_trace(matrix.mv, 300, matrix[0], method=method, seed=seed)
    error = abs(complex(result.value) - complex(matrix.trace()))
    assert error <= 4 * float(result.standard_error) + 1e-9
    # Nor is it told to be larger than it is.
    assert float(result.standard_error) < 2 * float(matrix.norm()) / 100**0.5


def test_the_standard_error_is_that_of_hutchinson() -> None:
    """For a symmetric A the variance is twice the sum of squares off the diagonal."""
    half = randn(20, 20, dtype=torch.float64, seed=0)
    matrix = half + half.mT
    result = estimate_trace(matrix.mv, 2000, matrix[0])
    squares = float(matrix.square().sum() - matrix.diagonal().square().sum())
    assert float(result.standard_error) == pytest.approx((2 * squares / 2000) ** 0.5, rel=0.1)
    values = torch.stack(
        [estimate_trace(matrix.mv, 50, matrix[0], seed=seed).value for seed in range(200)]
    )
    assert float(values.std()) == pytest.approx((2 * squares / 50) ** 0.5, rel=0.2)
    assert float(values.mean()) == pytest.approx(
        float(matrix.trace()), abs=4 * float(values.std()) / 200**0.5
    )


@pytest.mark.parametrize("count", [2, 3, 10])
def test_value_and_standard_error_are_those_of_the_samples(count: int) -> None:
    matrix = randn(6, 6, dtype=torch.complex128, seed=0)
    products: list[Tensor] = []

    def A(z: Tensor) -> Tensor:
        products.append(z.conj() * (matrix @ z))
        return matrix @ z

    for function in (estimate_trace, estimate_diagonal):
        products.clear()
        result = function(A, count, matrix[0])
        samples = torch.stack(products)
        samples = samples.sum(1) if function is estimate_trace else samples
        torch.testing.assert_close(result.value, samples.mean(0))
        torch.testing.assert_close(result.standard_error, samples.std(0) / count**0.5)


@given(st.integers(1, 6), st.sampled_from(DTYPES), seeds)
def test_the_trace_of_a_matrix_of_low_rank_is_exact_with_hutch(
    n: int, dtype: torch.dtype, seed: int
) -> None:
    left, right = randn(n, 2, dtype=dtype, seed=seed), randn(2, n, dtype=dtype, seed=seed + 1)
    matrix = left @ left.mH if seed % 2 else left @ right
    result = estimate_trace(matrix.mv, 12, matrix[0], method="hutch++", seed=seed)
    tolerance = 1e-3 if torch.finfo(dtype).bits == 32 else 1e-8
    scale = 1 + float(matrix.norm())
    assert abs(complex(result.value) - complex(matrix.trace())) <= tolerance * scale
    assert float(result.standard_error) <= tolerance * scale


def test_hutch_is_far_better_where_few_eigenvalues_count() -> None:
    basis = torch.linalg.qr(randn(60, 60, dtype=torch.float64, seed=0)).Q
    values = torch.logspace(2, -4, 60, dtype=torch.float64)
    matrix = (basis * values) @ basis.mT
    errors = [
        estimate_trace(matrix.mv, 60, matrix[0], method=method).standard_error
        for method in ("hutchinson", "hutch++")
    ]
    assert errors[1] < 0.05 * errors[0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_the_diagonal_is_within_its_standard_error(dtype: torch.dtype) -> None:
    matrix = randn(10, 10, dtype=dtype, seed=0)
    result = estimate_diagonal(Dense.from_einstr(matrix, "MN,N->M"), 400)
    assert result.value.shape == result.standard_error.shape == (10,)
    assert ((result.value - matrix.diagonal()).abs() <= 4 * result.standard_error).all()
    others = (matrix.abs().square().sum(1) - matrix.diagonal().abs().square()) / 400
    torch.testing.assert_close(result.standard_error, others.sqrt(), rtol=0.2, atol=0)


@given(st.integers(1, 5), st.sampled_from(DTYPES), seeds)
def test_of_a_diagonal_operator_both_are_exact(n: int, dtype: torch.dtype, seed: int) -> None:
    weight = randn(n, dtype=dtype, seed=seed)
    A = Diagonal(weight, ("N",))
    trace, diagonal = estimate_trace(A, 5, seed=seed), estimate_diagonal(A, 5, seed=seed)
    torch.testing.assert_close(trace.value, weight.sum())
    torch.testing.assert_close(diagonal.value, weight)
    assert diagonal.standard_error.max() <= 1e-5 * weight.abs().max()


def test_operators_that_name_their_output_anew_are_taken() -> None:
    half = randn(3, 4, 2, dtype=torch.float64, seed=0)
    A = Dense(half, ("M", "X", "Y"), ("X", "Y"), ("M",))
    result = estimate_diagonal(A.N, 3000)
    torch.testing.assert_close(result.value, half.square().sum(0), rtol=0.2, atol=0.2)


@pytest.mark.parametrize("exponent", [-60, 60])
def test_the_unit_does_not_matter(exponent: int) -> None:
    matrix = randn(5, 5, dtype=torch.float32, seed=0)
    for function in (estimate_trace, estimate_diagonal):
        one, other = (function((matrix * 2.0**e).mv, 20, matrix[0]) for e in (0, exponent))
        for part, scaled in zip(one, other, strict=True):
            torch.testing.assert_close(scaled / 2.0**exponent, part, rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_the_trace_where_the_estimate_is_exact() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
    A = Diagonal(weight, ("N",))
    for method in ("hutchinson", "hutch++"):
        result = estimate_trace(A, 12, method=method)
        (gradient,) = torch.autograd.grad(result.value, weight)
        torch.testing.assert_close(gradient, torch.ones(3))
        assert not result.standard_error.requires_grad
    (gradient,) = torch.autograd.grad(estimate_diagonal(A, 4).value[1], weight)
    torch.testing.assert_close(gradient, torch.tensor([0.0, 1.0, 0.0]))


def test_every_sample_is_reported() -> None:
    matrix = randn(4, 4, dtype=torch.float64, seed=0)
    seen: list[Step] = []
    result = estimate_trace(matrix.mv, 7, matrix[0], callback=seen.append)
    assert [step.iteration for step in seen] == list(range(1, 8))
    assert [step.reason for step in seen] == [None] * 6 + [StopReason.MAX_ITERATIONS]
    assert seen[0].values["standard_error"] == float("inf")
    assert seen[-1].values["standard_error"] == pytest.approx(float(result.standard_error))
    assert torch.equal(seen[-1].x, result.value)
    record = Record()
    estimate_diagonal(matrix.mv, 3, matrix[0], callback=record)
    assert record.iterations == 3


@pytest.mark.parametrize("function", [estimate_trace, estimate_diagonal])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((lambda x: x, 1, torch.ones(2)), ValueError, r"num_samples must be at least 2, got 1"),
        ((lambda x: x, 5), TypeError, r"a function must come with a first vector"),
        ((lambda x: x[:1], 5, torch.ones(2)), ValueError, r"A must map a space to itself"),
        ((lambda x: x / 0, 5, torch.ones(2)), ArithmeticError, r"values must stay finite"),
        ((lambda x: x, 5, torch.ones(2).int()), TypeError, r"like must be of a floating or"),
    ],
)
def test_what_has_no_trace_or_too_few_samples_is_refused(
    function: Any, arguments: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=rf"{function.__name__}: {message}"):
        function(*arguments)


def test_methods_that_are_unknown_or_need_more_samples_are_refused() -> None:
    with pytest.raises(ValueError, match=r'method must be "hutchinson" or "hutch\+\+", got \'x\''):
        estimate_trace(lambda x: x, 5, torch.ones(2), method="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"num_samples must be at least 6, got 5"):
        estimate_trace(lambda x: x, 5, torch.ones(2), method="hutch++")
