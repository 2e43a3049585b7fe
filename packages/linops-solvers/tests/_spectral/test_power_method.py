from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import FFT, Dense, Diagonal
from linops_solvers import Record, StopReason, operator_norm, power_method

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
seeds = st.integers(0, 2**16)


def randn(*shape: int, dtype: torch.dtype, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@given(st.integers(1, 5), st.sampled_from(DTYPES), seeds)
def test_it_finds_the_largest_magnitude_of_a_hermitian_matrix(
    n: int, dtype: torch.dtype, seed: int
) -> None:
    """Eigenvalues of both signs, the largest apart from the others by a tenth at least."""
    basis = torch.linalg.qr(randn(n, n, dtype=dtype, seed=seed)).Q
    values = torch.linspace(-1, 0.9, n, dtype=torch.float64) * (3.0 + seed % 3)
    matrix = (basis * values.to(dtype)) @ basis.mH
    start = randn(n, dtype=dtype, seed=seed + 1) + 0.1 * basis[:, 0]
    v, eigenvalue = power_method(matrix.mv, start, 2000, 1e-12)
    tolerance = 1e-3 if torch.finfo(dtype).bits == 32 else 1e-5
    assert float(eigenvalue) == pytest.approx(float(values.abs().max()), rel=tolerance)
    assert not eigenvalue.is_complex() and eigenvalue.ndim == 0
    assert float(v.norm()) == pytest.approx(1, abs=1e-5)
    # The error of the value is the square of that of the vector.
    torch.testing.assert_close(matrix @ v, values[0].to(dtype) * v, rtol=0, atol=5 * tolerance**0.5)


def test_two_eigenvalues_of_one_magnitude_give_this_magnitude() -> None:
    """A Rayleigh quotient would stand still at 1 / 2."""
    matrix = torch.diag(torch.tensor([2.0, -2.0]))
    _, eigenvalue = power_method(matrix.mv, torch.tensor([3.0, 1.0]))
    assert float(eigenvalue) == pytest.approx(2)


@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from([torch.float64, torch.complex128]),
    seeds,
)
def test_the_norm_is_the_largest_singular_value_and_never_above_it(
    rows: int, columns: int, dtype: torch.dtype, seed: int
) -> None:
    matrix = randn(rows, columns, dtype=dtype, seed=seed)
    A = Dense.from_einstr(matrix, "MN,N->M")
    largest = float(torch.linalg.matrix_norm(matrix, 2))
    for norm in (
        operator_norm(A, max_iters=3000, tol=1e-13),
        operator_norm(
            matrix.mv, randn(columns, dtype=dtype, seed=1), 3000, 1e-13, adjoint=matrix.mH.mv
        ),
    ):
        assert float(norm) <= largest * (1 + 1e-12)
        assert float(norm) == pytest.approx(largest, rel=1e-4)
    assert float(operator_norm(A, max_iters=1)) <= largest * (1 + 1e-12)


@pytest.mark.parametrize("exponent", [-70, 70])
def test_the_unit_of_the_operator_does_not_matter(exponent: int) -> None:
    """Its square leaves single precision, where the norm itself does not."""
    A = torch.diag(torch.tensor([1.0, 3.0])) * 2.0**exponent
    _, eigenvalue = power_method(A.mv, torch.ones(2) * 2.0**-exponent, 100)
    assert float(eigenvalue) == pytest.approx(3 * 2.0**exponent)


@pytest.mark.parametrize(
    ("dtype", "exponents"),
    [
        (torch.float32, (-100, -75, -52, 52, 75, 120)),
        (torch.complex64, (-100, 100)),
        (torch.float64, (-960, -525, 525, 1000)),
    ],
)
@pytest.mark.parametrize("as_function", [False, True])
def test_the_unit_of_the_operator_does_not_matter_for_its_norm(
    dtype: torch.dtype, exponents: tuple[int, ...], as_function: bool
) -> None:
    """Where A^H A leaves the range of the dtype, and the norm does not; with gradients."""
    matrix = randn(4, 3, dtype=dtype, seed=0)
    start = randn(3, dtype=dtype, seed=1)

    def results(exponent: int) -> tuple[Tensor, Tensor, Record]:
        weight, record = (matrix * 2.0**exponent).requires_grad_(), Record()
        if as_function:
            norm = operator_norm(weight.mv, start, adjoint=weight.mH.mv, callback=record)
        else:
            norm = operator_norm(Dense.from_einstr(weight, "MN,N->M"), start, callback=record)
        (gradient,) = torch.autograd.grad(norm, weight)
        return norm.detach() / 2.0**exponent, gradient, record

    norm, gradient, told = results(0)
    assert float(norm) == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-4)
    for exponent in exponents:
        scaled, scaled_gradient, record = results(exponent)
        torch.testing.assert_close(scaled, norm, rtol=1e-6, atol=0)
        torch.testing.assert_close(scaled_gradient, gradient, rtol=1e-4, atol=1e-5)
        squares = [value / 2.0**exponent / 2.0**exponent for value in record.values["eigenvalue"]]
        if 2.0**-500 < 2.0**exponent < 2.0**500:
            assert squares == pytest.approx(told.values["eigenvalue"])


def test_a_scale_that_leaves_the_range_is_named() -> None:
    for scale, message in (
        (1e-35, r"the scale of A must be at least 9.9e-32, for the precision of torch.float32"),
        (1e39, r"values must stay finite, got inf; the scale of A may be past what"),
    ):
        scaled = partial(torch.mul, torch.tensor(scale))
        with pytest.raises(ArithmeticError, match=rf"operator_norm: {message}"):
            operator_norm(scaled, torch.ones(2), adjoint=torch.clone)


def test_a_real_vector_becomes_complex_where_the_operator_needs_it() -> None:
    F = FFT(1, norm="backward") @ Diagonal(torch.full((8,), 2.0), ("Nx",))
    assert float(operator_norm(F)) == pytest.approx(2 * 8**0.5, rel=1e-4)
    norm = operator_norm(torch.fft.fft, torch.rand(8), adjoint=lambda y: 8 * torch.fft.ifft(y))
    assert float(norm) == pytest.approx(8**0.5)


def test_sizes_that_the_operator_does_not_know_are_given() -> None:
    assert float(operator_norm(FFT(1), sizes={"...": 1, "Nx": 4})) == pytest.approx(1, rel=1e-4)
    assert float(operator_norm(FFT(1), sizes={"Nx": 4})) == pytest.approx(1, rel=1e-4)
    with pytest.raises(TypeError, match=r"a function must come with a first vector, got"):
        operator_norm(lambda x: x, adjoint=lambda x: x)
    with pytest.raises(TypeError, match=r"the adjoint of a function must be given"):
        operator_norm(lambda x: x, torch.ones(2))


def test_operators_side_by_side_have_each_their_own_eigenvalue() -> None:
    D = Diagonal(torch.tensor([[1.0, 2.0], [8.0, 4.0]]), ("B", "N"))
    for dims in ("B", 1):
        v, eigenvalues = power_method(D, torch.ones(2, 2), 200, 1e-9, batch_dims=dims)
        torch.testing.assert_close(eigenvalues, torch.tensor([2.0, 8.0]))
        torch.testing.assert_close(v.norm(dim=1), torch.ones(2))
    columns = Diagonal(torch.tensor([[1.0, 8.0], [2.0, 4.0]]), ("N", "B"))
    _, eigenvalues = power_method(columns, torch.ones(2, 2), 200, 1e-9, batch_dims="B")
    torch.testing.assert_close(eigenvalues, torch.tensor([2.0, 8.0]))


def test_it_says_why_it_stopped() -> None:
    matrix = torch.diag(torch.tensor([1.0, 0.9]))
    for steps, tol, reason in (
        (3, 1e-9, StopReason.MAX_ITERATIONS),
        (500, 1e-3, StopReason.CONVERGED),
    ):
        record = Record()
        power_method(matrix.mv, torch.ones(2), steps, tol, callback=record)
        assert record.reason is reason
        values = record.values["eigenvalue"]
        assert values == sorted(values)
        assert (record.values["change"][-1] <= tol) == (reason is StopReason.CONVERGED)


def test_zero_has_the_eigenvalue_zero() -> None:
    v, eigenvalue = power_method(lambda x: 0 * x, torch.tensor([3.0, 4.0]))
    assert eigenvalue == 0 and torch.allclose(v.norm(), torch.ones(()))
    assert operator_norm(lambda x: 0 * x, torch.ones(2), adjoint=lambda x: 0 * x) == 0


def test_a_start_in_the_null_space_is_replaced() -> None:
    differences = torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    before = torch.random.get_rng_state()
    result = operator_norm(differences.mv, torch.ones(3), adjoint=differences.T.mv)
    torch.testing.assert_close(result, torch.tensor(3.0).sqrt())
    matrix = differences.T @ differences
    v, eigenvalue = power_method(lambda x: x @ matrix, torch.ones(2, 3), tol=1e-7, batch_dims=1)
    torch.testing.assert_close(eigenvalue, torch.tensor([3.0, 3.0]))
    torch.testing.assert_close(v @ matrix, 3 * v, rtol=1e-3, atol=1e-3)
    # One system of a batch alone.
    start = torch.tensor([[1.0, 1.0, 1.0], [1.0, -2.0, 1.0]])
    v, _ = power_method(lambda x: x @ matrix, start, batch_dims=1)
    torch.testing.assert_close(v[1], start[1] / 6**0.5)
    assert torch.equal(before, torch.random.get_rng_state())
    with pytest.raises(ValueError, match="v_init must not be zero"):
        operator_norm(differences.mv, torch.zeros(3), adjoint=differences.T.mv)


def test_gradients_are_those_of_the_largest_singular_value() -> None:
    matrix = randn(4, 3, dtype=torch.complex128, seed=0)
    start = randn(3, dtype=torch.complex128, seed=1)

    def norm(matrix: Tensor) -> Tensor:
        return operator_norm(matrix.mv, start, 300, 0, adjoint=matrix.mH.mv)

    (result,) = torch.autograd.grad(norm(matrix.requires_grad_()), matrix)
    (wanted,) = torch.autograd.grad(torch.linalg.matrix_norm(matrix, 2), matrix)
    torch.testing.assert_close(result, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("A", "v", "error", "message"),
    [
        (lambda x: x, torch.zeros(2), ValueError, r"v_init must not be zero, got norms \[0.0\]"),
        (lambda x: x, torch.tensor([1]), TypeError, r"v_init must be of a floating or complex"),
        (lambda x: x[:1], torch.ones(2), ValueError, r"A must map a space to itself"),
        (lambda x: x / 0, torch.ones(2), ArithmeticError, r"values must stay finite, got"),
        (lambda x: x, torch.tensor([float("nan")]), ArithmeticError, r"values must stay finite"),
    ],
)
def test_what_has_no_such_eigenvalue_is_refused(
    A: Any, v: Tensor, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=rf"power_method: {message}"):
        power_method(A, v)


def test_at_least_one_step_is_needed() -> None:
    with pytest.raises(ValueError, match=r"max_iters must be at least 1, got 0"):
        power_method(lambda x: x, torch.ones(1), 0)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16])
def test_the_norm_of_an_operator_with_an_empty_space_is_zero(dtype: torch.dtype) -> None:
    A = Dense(torch.zeros(3, 0, dtype=dtype), ("M", "N"))
    for B in (A, A.H):
        result = operator_norm(B)
        assert result.shape == () and result == 0 and not result.is_complex()


@pytest.mark.parametrize("of_v", [1e-6, 3e4])
def test_the_norm_is_found_from_any_vector_in_float16(of_v: float) -> None:
    A = Diagonal(torch.full((6,), 100, dtype=torch.float16), ("N",))
    norm = operator_norm(A, torch.full((6,), of_v, dtype=torch.float16))
    torch.testing.assert_close(norm, torch.tensor(100.0), rtol=2e-3, atol=0)


def test_what_cannot_be_called_is_refused() -> None:
    wrong: Any = 3
    x = torch.ones(2)
    with pytest.raises(TypeError, match="power_method: A must be an operator or a function, got 3"):
        power_method(wrong, x)
    with pytest.raises(TypeError, match="operator_norm: A must be an operator or a function"):
        operator_norm(wrong, x)
    with pytest.raises(TypeError, match="operator_norm: the adjoint must be an operator or a fun"):
        operator_norm(torch.neg, x, adjoint=wrong)
