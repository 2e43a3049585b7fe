from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import FFT, Dense, Diagonal, Sampling
from linops_solvers import (
    Record,
    Step,
    StopReason,
    admm,
    fista,
    l2_squared,
    no_penalty,
    pdhg,
    separable,
    soft_threshold,
)

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
seeds = st.integers(0, 2**16)


def randn(*shape: int, dtype: torch.dtype, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=25)
@given(st.integers(1, 5), st.integers(1, 5), st.sampled_from(DTYPES), seeds, st.floats(0.05, 1.5))
def test_a_sparse_solution_is_that_of_fista(
    rows: int, columns: int, dtype: torch.dtype, seed: int, weight: float
) -> None:
    """As good as: where there are several, the least value of the function is what counts."""
    matrix, y = randn(rows, columns, dtype=dtype, seed=seed), randn(rows, dtype=dtype, seed=1)
    A = Dense.from_einstr(matrix, "MN,N->M")
    single = torch.finfo(dtype).bits == 32

    def value(x: Tensor) -> float:
        return float(0.5 * (matrix @ x - y).abs().square().sum() + weight * x.abs().sum())

    x = admm(A, y, soft_threshold(weight), None, None, 500, eps_rel=1e-5 if single else 1e-7)
    other = fista(A, y, soft_threshold(weight), None, 20000, 1e-6 if single else 1e-11)
    assert value(x) == pytest.approx(value(other), rel=1e-3 if single else 1e-6)


@settings(max_examples=25)
@given(
    st.integers(1, 4),
    st.sampled_from([torch.float64, torch.complex128]),
    seeds,
    st.sampled_from([1e-3, 1.0, 1e3]),
    st.booleans(),
)
def test_a_ridge_has_its_closed_form_whatever_rho(
    n: int, dtype: torch.dtype, seed: int, rho: float, with_guess: bool
) -> None:
    matrix, y = randn(n + 1, n, dtype=dtype, seed=seed), randn(n + 1, dtype=dtype, seed=1)
    L = randn(n, n, dtype=dtype, seed=2)
    guess = randn(n, dtype=dtype, seed=3) if with_guess else None
    record = Record()
    x = admm(
        matrix.mv,
        y,
        l2_squared(0.5),
        L.mv,
        guess,
        5000,
        rho=rho,
        eps_rel=1e-9,
        adjoint=matrix.mH.mv,
        L_adjoint=L.mH.mv,
        callback=record,
    )
    assert record.reason is StopReason.CONVERGED
    wanted = torch.linalg.solve(matrix.mH @ matrix + 0.5 * L.mH @ L, matrix.mH @ y)
    scale = torch.linalg.cond(matrix.mH @ matrix + 0.5 * L.mH @ L)
    tolerance = 1e-8 * max(100.0, float(scale))
    torch.testing.assert_close(x, wanted, rtol=tolerance, atol=tolerance)


def test_total_variation_by_named_operators_is_that_of_pdhg() -> None:
    generator = torch.Generator().manual_seed(0)
    A = Sampling.from_mask(torch.rand(12, generator=generator) < 0.6) @ FFT(1)
    eye = torch.eye(12, dtype=torch.complex128)
    D = Dense((eye.roll(1, 1) - eye)[:11], ("M", "Nx"), ("Nx",), ("M",))
    image = torch.tensor([0, 0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 1], dtype=torch.complex128)
    y = A(image)
    x = admm(A, y, soft_threshold(0.01), D, None, 3000, eps_rel=1e-7)
    K = torch.cat([A.to_dense({"...": 1, "Nx": 12}), D.to_dense()])
    count = len(y)

    def both(z: Tensor, t: float) -> Tensor:
        first = l2_squared(1.0, y)(z[:count], t)
        return torch.cat([first, soft_threshold(0.01)(z[count:], t)])

    other = pdhg(K.mv, both, no_penalty(), 0 * image, 30000, adjoint=K.mH.mv, eps_rel=1e-7)
    torch.testing.assert_close(x, other, rtol=0, atol=1e-4)


@pytest.mark.parametrize("weight", [10.0, 1e4])
@pytest.mark.parametrize("rho", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_penalty_that_makes_the_solution_zero(
    dtype: torch.dtype, rho: float, weight: float
) -> None:
    """Both vectors of the primal residual become 0, so none of them gives it a scale."""
    matrix, y, guess = (randn(*shape, dtype=dtype, seed=1) for shape in [(6, 4), (6,), (4,)])
    A = Dense.from_einstr(matrix, "MN,N->M")
    for x0 in (None, guess):
        record = Record()
        x = admm(A, y, soft_threshold(weight), None, x0, rho=rho, callback=record)
        assert record.reason is StopReason.CONVERGED
        assert x.abs().max() < 100 * torch.finfo(dtype).eps


@pytest.mark.parametrize("is_zero", ["A", "y"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_data_term_without_a_gradient_at_zero(dtype: torch.dtype, is_zero: str) -> None:
    """Forces and vectors may all become 0, so only the steps before show a scale."""
    matrix, y, x0 = (randn(*shape, dtype=dtype, seed=1) for shape in [(6, 4), (6,), (4,)])
    matrix, y = (matrix * 0, y) if is_zero == "A" else (matrix, y * 0)
    A, center = Dense.from_einstr(matrix, "MN,N->M"), torch.ones_like(x0)
    at_center = torch.linalg.solve(matrix.mH @ matrix + torch.eye(4), center)
    maps = [(soft_threshold(1.0), 0 * x0), (l2_squared(1.0), 0 * x0)]
    for g, wanted in [*maps, (l2_squared(1.0, center=center), at_center)]:
        record = Record()
        x = admm(A, y, g, None, x0, eps_rel=1e-5, callback=record)
        assert record.reason is StopReason.CONVERGED
        torch.testing.assert_close(x, wanted, rtol=0, atol=1e-3)


@pytest.mark.parametrize("exponent", [-70, -50, 50, 70])
def test_the_unit_of_the_data_does_not_matter(exponent: int) -> None:
    matrix, y = randn(6, 4, dtype=torch.complex64, seed=0), randn(6, dtype=torch.complex64, seed=1)
    unit = 2.0**exponent
    x, scaled = (
        admm(matrix.mv, y * u, soft_threshold(0.5 * u), adjoint=matrix.mH.mv, eps_rel=1e-5)
        for u in (1.0, unit)
    )
    torch.testing.assert_close(scaled / unit, x, rtol=1e-5, atol=1e-5)


def test_it_stops_when_both_residuals_are_small_and_says_why() -> None:
    matrix, y = randn(6, 4, dtype=torch.float64, seed=0), randn(6, dtype=torch.float64, seed=1)
    keywords: dict[str, Any] = {"adjoint": matrix.mH.mv}
    for steps, eps_rel, reason in (
        (0, 1e-3, StopReason.MAX_ITERATIONS),
        (3, 1e-9, StopReason.MAX_ITERATIONS),
        (500, 1e-3, StopReason.CONVERGED),
        (5000, 0.0, StopReason.ROUNDING),
    ):
        record = Record()
        admm(
            matrix.mv,
            y,
            l2_squared(0.2),
            None,
            None,
            steps,
            eps_rel=eps_rel,
            callback=record,
            **keywords,
        )
        assert record.reason is reason
        small = max(record.values["primal"][-1], record.values["dual"][-1]) <= eps_rel
        assert small == (reason is StopReason.CONVERGED)
    steps_seen: list[Step] = []
    admm(
        matrix.mv,
        y,
        l2_squared(0.2),
        eps_abs=1e-4,
        eps_rel=0,
        callback=steps_seen.append,
        **keywords,
    )
    assert steps_seen[-1].reason is StopReason.CONVERGED
    slope = matrix.mH @ (matrix @ steps_seen[-1].x - y) + 0.2 * steps_seen[-1].x
    assert float(slope.norm()) <= 1e-3


def test_rho_balances_the_residuals_unless_it_is_fixed() -> None:
    matrix, y = randn(6, 4, dtype=torch.float64, seed=0), randn(6, dtype=torch.float64, seed=1)
    counts = []
    for is_rho_fixed in (False, True):
        record = Record()
        admm(
            matrix.mv,
            y,
            soft_threshold(0.3),
            None,
            None,
            600,
            rho=1e-4,
            is_rho_fixed=is_rho_fixed,
            eps_rel=1e-6,
            adjoint=matrix.mH.mv,
            callback=record,
        )
        counts.append(record.iterations)
        assert (len(set(record.values["rho"])) == 1) == is_rho_fixed
    # With another rho, u must be another as well, or all begins anew.
    assert counts[0] < 80 and counts[0] < counts[1]


def test_gradients_flow_through_the_steps() -> None:
    matrix = randn(4, 3, dtype=torch.complex128, seed=0)
    y = randn(4, dtype=torch.complex128, seed=1)

    def solution(matrix: Tensor, y: Tensor) -> Tensor:
        x = admm(
            matrix.mv, y, l2_squared(0.5), None, None, 500, eps_rel=1e-12, adjoint=matrix.mH.mv
        )
        return x

    result = torch.autograd.grad(
        solution(matrix.requires_grad_(), y.requires_grad_()).abs().square().sum(), (matrix, y)
    )
    eye = torch.eye(3, dtype=torch.complex128)
    direct = torch.linalg.solve(matrix.mH @ matrix + 0.5 * eye, matrix.mH @ y)
    wanted = torch.autograd.grad(direct.abs().square().sum(), (matrix, y))
    torch.testing.assert_close(result, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("is_named", [False, True])
def test_problems_side_by_side_have_the_gradients_of_each_alone(is_named: bool) -> None:
    """No gradient comes from others, exactly: errors of a large one would cover a small one."""
    w = 1 + randn(3, 4, dtype=torch.complex128, seed=0).abs()
    y = randn(3, 4, dtype=torch.complex128, seed=1).requires_grad_()
    A = Diagonal(w, ("B", "N"))
    M = Dense(randn(4, 4, dtype=torch.complex128, seed=2), ("M", "N"), ("B", "N"), ("B", "M"))
    prox = soft_threshold(0.1)
    options: dict[str, Any] = {"max_num_iters": 5, "eps_rel": 0.0, "max_cg_iters": 2}
    if is_named:
        x = admm([A, A], [y, y], prox, M, batch_dims="B", **options)
    else:
        adjoints: dict[str, Any] = {"adjoint": A.H.forward, "L_adjoint": M.H.forward}
        x = admm(A.forward, y, prox, M.forward, batch_dims=1, **adjoints, **options)
    (gradient,) = torch.autograd.grad(x[1].abs().square().sum(), y)
    assert gradient[1].any() and not gradient[::2].any()


def test_problems_side_by_side_must_not_be_coupled() -> None:
    A, y = Diagonal(torch.ones(3, 3), ("B", "N")), torch.ones(3, 3)
    D = Dense(torch.ones(3, 3), ("C", "B"), ("B", "N"), ("C", "N"))
    for operators in ((A, D), (D, A), ([A, D], None), (A, [A, D])):
        of_A, of_L = operators
        ys, several = [y, y] if isinstance(of_A, list) else y, isinstance(of_L, list)
        prox: Any = [soft_threshold()] * 2 if several else soft_threshold()
        for batch_dims in (1, "B"):
            with pytest.raises(ValueError, match=r"admm: .* must be a batch dimension of"):
                admm(of_A, ys, prox, of_L, batch_dims=batch_dims)
    with pytest.raises(TypeError, match="admm: batch_dims must be a number for a function"):
        admm(lambda x: x, y, soft_threshold(), adjoint=lambda x: x, batch_dims="B")


def test_nothing_is_written_to() -> None:
    y, guess = torch.ones(2), torch.ones(2)
    admm(Diagonal(torch.tensor([1.0, 2.0]), ("N",)), y, soft_threshold(0.1), None, guess)
    assert torch.equal(y, torch.ones(2)) and torch.equal(guess, torch.ones(2))


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"y": torch.ones(2, dtype=torch.int64)}, TypeError, r"a floating or complex dtype, got"),
        ({"adjoint": None}, TypeError, r"the adjoint of a function must be given"),
        ({"L": lambda x: x}, TypeError, r"the adjoint of a function must be given"),
        ({"rho": 0.0}, ValueError, r"rho must be positive and finite, got 0"),
        ({"max_num_iters": -1}, ValueError, r"max_num_iters must be at least 0, got -1"),
        ({"max_cg_iters": 0}, ValueError, r"max_cg_iters must be at least 1, got 0"),
        ({"x0": torch.ones(3)}, ValueError, r"x0 must have the shape and dtype of the output of"),
        (
            {"proximal": lambda z, t: z[:1]},
            ValueError,
            r"what proximal returns must have the shape and dtype of its argument",
        ),
        ({"y": torch.tensor([1.0, float("nan")])}, ArithmeticError, r"must stay finite, got nan"),
        (
            {"proximal": lambda z, t: z * float("inf")},
            ArithmeticError,
            r"values must stay finite, got",
        ),
    ],
)
def test_what_is_no_such_problem_is_refused(
    keywords: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {
        "A": lambda x: 2 * x,
        "adjoint": lambda x: 2 * x,
        "y": torch.tensor([1.0, 3.0]),
        "proximal": soft_threshold(),
    }
    with pytest.raises(error, match=rf"admm: .*{message}"):
        admm(**{**given, **keywords})


def test_an_adjoint_that_is_none_is_noticed() -> None:
    with pytest.raises(ValueError, match=r"admm: adjoint must be the adjoint of A"):
        admm(lambda x: 2 * x, torch.ones(2), soft_threshold(0.1), adjoint=lambda x: -4 * x)


def test_a_solution_of_zero_does_not_drive_rho_out_of_its_range() -> None:
    # x is rounding and z zero, so that the relative residual of the constraint stays 1.
    generator = torch.Generator().manual_seed(0)
    row = torch.randn(1, 11, generator=generator, dtype=torch.complex64) * 0.0142
    y = torch.randn(1, generator=generator, dtype=torch.complex64) * 26451
    A, weights = Dense(row, ("M", "N")), []
    options: Any = {"eps_rel": 1e-9, "max_num_iters": 400, "rho": 3.2e-5}
    x = admm(
        A, y, soft_threshold(1663.0), callback=lambda s: weights.append(s.values["rho"]), **options
    )
    assert float(x.abs().max()) < 1e-6
    assert max(weights) <= 3.2e-5 * 2.0**60


def test_without_a_known_function_watching_applies_nothing_again() -> None:
    """The objective needs A x, so A is applied once more in a step where it is known."""
    A = Dense.from_einstr(randn(4, 3, dtype=torch.float64, seed=0), "MN,N->M")
    y, penalty = randn(4, dtype=torch.float64, seed=1), soft_threshold(0.1)

    def solved(is_known: bool, watching: Record | None) -> list[int]:
        calls = [0, 0]

        def forward(x: Tensor) -> Tensor:
            calls[0] += 1
            return A(x)

        def proximal(z: Tensor, t: float) -> Tensor:
            calls[1] += 1
            return penalty(z, t)

        g = separable(proximal, penalty.value if is_known else None)
        admm(forward, y, g, max_num_iters=5, eps_rel=0.0, adjoint=A.H, callback=watching)
        return calls

    record = Record()
    calls = solved(False, None)
    assert solved(False, record) == calls and "objective" not in record.values
    assert solved(True, record) == [calls[0] + 5, calls[1]] and "objective" in record.values
