"""GMRES and MINRES: the laws that both obey, and those of each."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Dense, Diagonal
from linops_solvers import ConvergenceWarning, Record, StopReason, gmres, minres

METHODS = pytest.mark.parametrize("method", [gmres, minres])
dtypes = st.sampled_from([torch.float64, torch.complex128])
seeds = st.integers(0, 2**16)


def hermitian(n: int, dtype: torch.dtype, seed: int, decades: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return a Hermitian matrix with eigenvalues of both signs, and a vector."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    basis = torch.linalg.qr(torch.randn(n, n, dtype=wide, generator=generator)).Q
    values = torch.logspace(0, -decades, n, dtype=torch.float64)
    values = values * (torch.rand(n, generator=generator) - 0.5).sign()
    matrix = (basis * values) @ basis.mH
    y = torch.randn(n, dtype=wide, generator=generator)
    return ((matrix + matrix.mH) / 2).to(dtype), y.to(dtype)


def square(n: int, dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(n, n, dtype=dtype, generator=generator)
    return matrix + 0.1 * torch.eye(n), torch.randn(n, dtype=dtype, generator=generator)


@METHODS
@given(n=st.integers(1, 12), dtype=dtypes, seed=seeds, is_guessed=st.booleans())
def test_the_solution_is_that_of_the_matrix(
    method: Any, n: int, dtype: torch.dtype, seed: int, is_guessed: bool
) -> None:
    matrix, y = hermitian(n, dtype, seed)
    guess = torch.flip(y, [0]) if is_guessed else None
    record = Record()
    x = method(matrix.mv, y, x0=guess, tol=1e-10, callback=record)
    assert record.reason is StopReason.CONVERGED
    assert (matrix @ x - y).norm() <= 1e-10 * y.norm()
    assert record.values["residual"][-1] <= 1e-10


@METHODS
@given(
    n=st.integers(2, 30),
    dtype=st.sampled_from([torch.float32, torch.complex64, torch.float64]),
    decades=st.floats(0, 7),
    tol=st.floats(-7, -1),
    seed=seeds,
    exponent=st.sampled_from([-20, 0, 20]),
)
def test_converged_holds_in_higher_precision(
    method: Any, n: int, dtype: torch.dtype, decades: float, tol: float, seed: int, exponent: int
) -> None:
    matrix, y = hermitian(n, dtype, seed, decades)
    y, record = y * 2.0**exponent, Record()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        x = method(matrix.mv, y, tol=10**tol, callback=record)
    wide = torch.promote_types(dtype, torch.float64)
    residual = matrix.to(wide) @ x.to(wide) - y.to(wide)
    if record.reason is StopReason.CONVERGED:
        assert residual.norm() <= 10**tol * y.to(wide).norm()
    assert record.reason is not None


@given(n=st.integers(1, 10), dtype=dtypes, seed=seeds)
def test_gmres_needs_no_symmetry_and_at_most_as_many_steps_as_unknowns(
    n: int, dtype: torch.dtype, seed: int
) -> None:
    matrix, y = square(n, dtype, seed)
    record = Record()
    x = gmres(matrix.mv, y, tol=1e-8, callback=record)
    condition = float(torch.linalg.cond(matrix))
    assert (matrix @ x - y).norm() <= 1e-8 * y.norm() or condition > 1e6
    assert record.iterations <= n or condition > 1e4


@example(n=7, restart=1, steps=5, seed=0)  # steps of one direction stall
@given(n=st.integers(2, 10), restart=st.integers(1, 4), steps=st.integers(1, 8), seed=seeds)
@pytest.mark.filterwarnings("ignore:gmres. the residual:linops_solvers.ConvergenceWarning")
def test_gmres_has_the_residuals_of_scipy(n: int, restart: int, steps: int, seed: int) -> None:
    """Each step has the smallest residual, until a cycle of few directions reduces it no more."""
    matrix, y = square(n, torch.float64, seed)
    matrix = matrix + 3 * torch.eye(n)
    record = Record()
    gmres(matrix.mv, y, max_num_iters=steps, tol=0, restart=restart, callback=record)
    expected = []
    scipy.sparse.linalg.gmres(
        matrix.numpy(),
        y.numpy(),
        rtol=0,
        atol=1e-12 * float(y.norm()),
        restart=restart,
        maxiter=-(-steps // restart),
        callback=lambda residual: expected.append(float(residual)),
        callback_type="pr_norm",
    )
    count = min(len(record.values["residual"]), len(expected), steps)
    result = record.values["residual"][:count]
    np.testing.assert_allclose(result, expected[:count], rtol=1e-5, atol=1e-10)


@example(n=2, dtype=torch.float64, seed=0)
@given(n=st.integers(2, 10), dtype=dtypes, seed=seeds)
def test_minres_has_the_residuals_of_gmres(n: int, dtype: torch.dtype, seed: int) -> None:
    """Both have the smallest residual of the same space."""
    matrix, y = hermitian(n, dtype, seed, 0.5)
    records = Record(), Record()
    for method, record in zip((gmres, minres), records, strict=True):
        method(matrix.mv, y, tol=1e-9, callback=record)
    first, second = (record.values["residual"] for record in records)
    count = min(len(first), len(second))
    np.testing.assert_allclose(second[:count], first[:count], rtol=1e-3, atol=1e-8)


@given(n=st.integers(2, 10), seed=seeds)
def test_minres_agrees_with_scipy(n: int, seed: int) -> None:
    matrix, y = hermitian(n, torch.float64, seed)
    x = minres(matrix.mv, y, tol=1e-11)
    expected, _ = scipy.sparse.linalg.minres(matrix.numpy(), y.numpy(), rtol=1e-13)
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6, atol=1e-8)


@given(n=st.integers(3, 10), dtype=dtypes, seed=seeds)
def test_minres_of_a_singular_system_is_a_least_squares_solution(
    n: int, dtype: torch.dtype, seed: int
) -> None:
    matrix, y = hermitian(n, dtype, seed)
    values, basis = torch.linalg.eigh(matrix)
    values[0] = 0
    matrix = (basis * values) @ basis.mH
    record = Record()
    # As from gmres: x does not solve the system.
    with pytest.warns(ConvergenceWarning, match=r"minres: the residual .* must fall to tol \|y\|"):
        x = minres(matrix.mv, y, tol=1e-8, callback=record)
    residual = y - matrix @ x
    assert record.reason is StopReason.LEAST_SQUARES
    assert (matrix @ residual).norm() <= 1e-7 * residual.norm()
    best = y - matrix @ (torch.linalg.pinv(matrix, hermitian=True, rtol=1e-10) @ y)
    assert residual.norm() == pytest.approx(float(best.norm()), rel=1e-6)


@example(n=2, rank=1, dtype=torch.float32, seed=28, exponent=0, steps=200)  # |x| was 1e8
@given(
    n=st.integers(1, 6),
    rank=st.integers(0, 6),
    dtype=st.sampled_from([torch.float32, torch.complex64, torch.float64]),
    seed=seeds,
    exponent=st.sampled_from([-30, 0, 30]),
    steps=st.sampled_from([1, 2, 3, 200]),
)
def test_gmres_of_a_singular_system_is_never_worse_than_its_start(
    n: int, rank: int, dtype: torch.dtype, seed: int, exponent: int, steps: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(n, min(rank, n), dtype=dtype, generator=generator)
    matrix = left @ torch.randn(min(rank, n), n, dtype=dtype, generator=generator) * 2.0**exponent
    y, record = torch.randn(n, dtype=dtype, generator=generator), Record()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        x = gmres(matrix.mv, y, max_num_iters=steps, callback=record)
    wide = torch.promote_types(dtype, torch.float64)
    residual = (matrix.to(wide) @ x.to(wide) - y.to(wide)).norm() / y.to(wide).norm()
    assert residual <= 1 + 1e-5
    # A warning tells of a residual of more than 100 times its tolerance.
    is_near = record.reason is StopReason.ROUNDING and bool(residual <= 1e-3)
    told = record.reason is StopReason.MAX_ITERATIONS or is_near or bool(warned)
    assert residual <= 1e-5 or (told and record.reason is not StopReason.CONVERGED)


@METHODS
@given(dtype=dtypes, seed=seeds)
def test_gradients_are_those_of_the_exact_solution(
    method: Any, dtype: torch.dtype, seed: int
) -> None:
    matrix, y = hermitian(4, dtype, seed)
    weights = matrix.clone().requires_grad_()
    right = y.clone().requires_grad_()
    A = Dense.from_einstr(weights, "MN,N->M")
    x = method(A, right, tol=1e-12)
    exact = torch.linalg.solve(weights, right)
    for result, expected in zip(
        torch.autograd.grad(x.abs().square().sum(), (weights, right)),
        torch.autograd.grad(exact.abs().square().sum(), (weights, right)),
        strict=True,
    ):
        torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)


def test_gradients_through_a_function_need_its_adjoint() -> None:
    matrix, y = square(4, torch.float64, 0)
    y.requires_grad_()
    with pytest.raises(TypeError, match=r"gmres: the adjoint of a function must be given"):
        gmres(matrix.mv, y)
    x = gmres(matrix.mv, y, adjoint=matrix.mT.mv, tol=1e-12)
    (result,) = torch.autograd.grad(x.sum(), y)
    torch.testing.assert_close(result, torch.linalg.solve(matrix.mT, torch.ones(4).double()))


def test_a_preconditioner_of_gmres_is_its_inverse_at_best() -> None:
    matrix, y = square(8, torch.complex128, 3)
    inverse, record = torch.linalg.inv(matrix), Record()
    x = gmres(matrix.mv, y, tol=1e-9, preconditioner=inverse.mv, callback=record)
    assert record.iterations == 1
    torch.testing.assert_close(x, inverse @ y)
    D = Diagonal(1 / matrix.diagonal(), ("N",))
    torch.testing.assert_close(gmres(matrix.mv, y, tol=1e-11, preconditioner=D), inverse @ y)


def test_a_cycle_without_progress_is_told() -> None:
    """The Krylov spaces of a shift say nothing before the last."""
    y = torch.eye(5, dtype=torch.float64)[0]
    record = Record()
    with pytest.warns(ConvergenceWarning, match=r"gmres: the residual .* must fall to tol \|y\|"):
        gmres(lambda x: x.roll(1), y, restart=3, callback=record)
    assert record.reason is StopReason.STALLED
    x = gmres(lambda x: x.roll(1), y, restart=5, callback=record)
    torch.testing.assert_close(x.roll(1), y)


@METHODS
def test_half_precision_zeros_and_any_shape(method: Any) -> None:
    D = Diagonal(torch.tensor([[1.0, -2.0], [4.0, 0.5]]), ("M", "N"))
    assert method(D, torch.ones(2, 2)).shape == (2, 2)
    half = torch.bfloat16
    x = method(Diagonal(D.weight.to(half), D.ishape), torch.ones(2, 2, dtype=half), tol=0.02)
    assert x.dtype == half
    torch.testing.assert_close(x.float(), 1 / D.weight, rtol=0.05, atol=0)
    record = Record()
    assert not method(D, torch.zeros(2, 2), callback=record).any()
    assert (record.iterations, record.reason) == (0, StopReason.CONVERGED)
    guess = torch.ones(2, 2)
    torch.testing.assert_close(method(D, torch.zeros(2, 2), x0=guess) * 0, 0 * guess)
    assert torch.equal(guess, torch.ones(2, 2))


def test_what_is_not_hermitian_or_not_square_is_refused() -> None:
    matrix, y = square(6, torch.complex128, 1)
    with pytest.raises(ValueError, match=r"minres: A must be Hermitian, got v\^H A v = .*; gmres"):
        minres(matrix.mv, y)
    real, right = square(6, torch.float64, 1)
    with pytest.raises(ValueError, match=r"minres: A must be Hermitian"):
        minres(real.mv, right)
    for method in (gmres, minres):
        with pytest.raises(ValueError, match=rf"{method.__name__}: A must map a space to itself"):
            method(lambda x: x[:3], y)
        with pytest.raises(ValueError, match=rf"{method.__name__}: x0 must have the shape"):
            method(matrix.mv, y, x0=y[:2])
        with pytest.raises(ArithmeticError, match=rf"{method.__name__}: values must stay finite"):
            method(lambda x: x * float("nan"), y)
