"""LSQR and LSMR: the laws that both obey."""

import math
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import FFT, Dense, Diagonal, Sampling
from linops_solvers import ConvergenceWarning, Record, Step, StopReason, lsmr, lsqr
from linops_solvers._krylov._bidiagonal import Bidiagonalization
from linops_solvers._krylov._lsmr import LSMR
from linops_solvers._krylov._lsqr import LSQR
from linops_solvers._shared._precision import OperatorPair

METHODS = pytest.mark.parametrize("method", [lsqr, lsmr])
SCIPY = {lsqr: scipy.sparse.linalg.lsqr, lsmr: scipy.sparse.linalg.lsmr}
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
seeds = st.integers(0, 2**16)


def matrix_of_rank(
    rows: int, columns: int, rank: int, dtype: torch.dtype, seed: int, decades: float = 1.0
) -> Tensor:
    """Return a matrix whose singular values, but for zeros, fall by some decades."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    left, right = (
        torch.linalg.qr(torch.randn(n, n, dtype=wide, generator=generator)).Q
        for n in (rows, columns)
    )
    values = torch.logspace(0, -decades, rank, dtype=torch.float64)
    matrix: Tensor = (left[:, :rank] * values) @ right[:rank]
    return matrix.to(dtype)


def vector(n: int, dtype: torch.dtype, seed: int) -> Tensor:
    return torch.randn(n, dtype=dtype, generator=torch.Generator().manual_seed(seed + 1))


@METHODS
@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 5),
    st.sampled_from(DTYPES),
    seeds,
    st.sampled_from([0.0, 0.3]),
    st.booleans(),
)
def test_the_solution_is_the_regularised_one_nearest_to_the_guess(
    method: Any,
    rows: int,
    columns: int,
    rank: int,
    dtype: torch.dtype,
    seed: int,
    damp: float,
    with_guess: bool,
) -> None:
    """For any shape and rank, zero included: x0 + (A^H A + damp^2)^+ A^H (y - A x0)."""
    matrix = matrix_of_rank(rows, columns, min(rank, rows, columns), dtype, seed)
    y = vector(rows, dtype, seed)
    guess = vector(columns, dtype, seed + 1) if with_guess else None
    A = Dense.from_einstr(matrix, "MN,N->M")
    record = Record()
    x = method(A, y, guess, damp=damp, atol=1e-7, btol=1e-7, conlim=1e5, callback=record)
    start = torch.zeros(columns, dtype=dtype) if guess is None else guess
    stacked = torch.cat([matrix, damp * torch.eye(columns, dtype=dtype)])
    change = torch.cat([y - matrix @ start, torch.zeros(columns, dtype=dtype)])
    wanted = start + torch.linalg.pinv(stacked, rtol=1e-4) @ change
    tolerance = 1e-3 if torch.finfo(dtype).bits == 32 else 1e-5
    torch.testing.assert_close(x, wanted, rtol=tolerance, atol=tolerance)
    assert record.reason is not StopReason.MAX_ITERATIONS


@METHODS
@example(8, 8, torch.float64, 28344, 0.3)  # a gradient of 1.00008e-6 by our |A|, 0.65e-6 by SciPy's
@given(
    st.integers(1, 8),
    st.integers(1, 8),
    st.sampled_from([torch.float64, torch.complex128]),
    seeds,
    st.sampled_from([0.0, 0.3]),
)
def test_scipy_takes_the_same_steps(
    method: Any, rows: int, columns: int, dtype: torch.dtype, seed: int, damp: float
) -> None:
    """It may stop a step sooner or later: the estimates of the norm of A differ a little."""
    matrix = matrix_of_rank(rows, columns, min(rows, columns), dtype, seed)
    y = vector(rows, dtype, seed)
    record = Record()
    ours = method(matrix.mv, y, adjoint=matrix.mH.mv, damp=damp, callback=record)
    options = {"atol": 1e-6, "btol": 1e-6, "damp": damp}
    theirs, istop, steps = SCIPY[method](matrix.numpy(), y.numpy(), **options)[:3]
    if istop in (1, 2) and min(record.last.values["residual"], 1.0) > 1e-13:  # type: ignore[union-attr]
        assert abs(record.iterations - steps) <= 1
        if record.iterations == steps:
            assert record.reason is [StopReason.CONVERGED, StopReason.LEAST_SQUARES][istop - 1]
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-4, atol=1e-4)


@METHODS
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("exponent", [-60, -20, 20, 60])
def test_the_unit_of_the_right_hand_side_does_not_matter(
    method: Any, dtype: torch.dtype, exponent: int
) -> None:
    matrix, y = matrix_of_rank(7, 4, 4, dtype, 0), vector(7, dtype, 0)
    x = method(matrix.mv, y, adjoint=matrix.mH.mv)
    scaled = method(matrix.mv, y * 2.0**exponent, adjoint=matrix.mH.mv)
    assert torch.equal(scaled, x * 2.0**exponent)


@METHODS
def test_a_step_reports_the_true_norms(method: Any) -> None:
    matrix, y = matrix_of_rank(9, 5, 5, torch.complex128, 3), vector(9, torch.complex128, 3)
    seen: list[Step] = []
    method(matrix.mv, y, adjoint=matrix.mH.mv, callback=seen.append, atol=1e-12, btol=1e-12)
    for step in seen:
        residual = y - matrix @ step.x
        assert step.values["residual"] == pytest.approx(float(residual.norm() / y.norm()))
        slope = float((matrix.mH @ residual).norm() / residual.norm())
        estimated = step.values["gradient"]
        if slope > 1e-9:  # |A| is estimated, from below
            assert slope / matrix.norm() <= estimated * (1 + 1e-9)
            assert estimated <= 3 * slope / torch.linalg.matrix_norm(matrix, 2)
    condition = float(torch.linalg.cond(matrix))
    assert condition / 3 < seen[-1].values["condition"] < 3 * condition


@pytest.mark.parametrize("recurrence", [LSQR, LSMR])
@pytest.mark.parametrize("damp", [0.0, 0.5])
def test_the_norm_of_x_is_that_of_the_recurrence(recurrence: Any, damp: float) -> None:
    """LSMR knows it one step later."""
    matrix, y = matrix_of_rank(9, 6, 6, torch.float64, 5), vector(9, torch.float64, 5)
    pair = OperatorPair("test", matrix.mv, matrix.mH.mv, torch.float64)
    state = recurrence(Bidiagonalization(pair, y.clone()), damp, 1.0)
    x = torch.zeros(6, dtype=torch.float64)
    for _ in range(5):
        before = float(x.norm())
        estimate = state.step(x)
        after = before if recurrence is LSMR else float(x.norm())
        assert estimate.x == pytest.approx(after)


@METHODS
def test_a_damped_step_reports_the_residual_of_the_damped_problem(method: Any) -> None:
    matrix, y = matrix_of_rank(6, 4, 4, torch.float64, 5), vector(6, torch.float64, 5)
    seen: list[Step] = []
    method(matrix.mv, y, adjoint=matrix.mH.mv, damp=0.5, callback=seen.append, atol=1e-12)
    for step in seen:
        parts = torch.cat([y - matrix @ step.x, 0.5 * step.x])
        assert step.values["residual"] == pytest.approx(float(parts.norm() / y.norm()))


@METHODS
def test_every_step_of_lsmr_decreases_the_gradient_and_of_lsqr_the_residual(method: Any) -> None:
    matrix, y = (
        matrix_of_rank(30, 20, 20, torch.float64, 1, decades=3),
        vector(30, torch.float64, 1),
    )
    seen: list[float] = []

    def watch(step: Step) -> None:
        residual = y - matrix @ step.x
        seen.append(float((matrix.mH @ residual if method is lsmr else residual).norm()))

    method(matrix.mv, y, adjoint=matrix.mH.mv, callback=watch, max_num_iters=15)
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(seen))


@METHODS
def test_an_ill_conditioned_operator_is_noticed(method: Any) -> None:
    matrix, y = (
        matrix_of_rank(20, 20, 20, torch.float64, 2, decades=9),
        vector(20, torch.float64, 2),
    )
    record = Record()
    with pytest.warns(ConvergenceWarning, match=rf"{method.__name__}: .*A is too ill-conditioned"):
        method(matrix.mv, y, adjoint=matrix.mH.mv, conlim=1e4, atol=0, btol=0, callback=record)
    assert record.reason is StopReason.ILL_CONDITIONED
    assert record.values["condition"][-1] >= 1e4


@METHODS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fraction", [0.0, 1e-3])
def test_with_tolerances_below_the_precision_it_ends_there(
    method: Any, dtype: torch.dtype, fraction: float
) -> None:
    tol = fraction * torch.finfo(dtype).eps
    matrix, y = matrix_of_rank(8, 8, 8, dtype, 4), vector(8, dtype, 4)
    record = Record()
    method(matrix.mv, y, None, 500, adjoint=matrix.mH.mv, atol=tol, btol=tol, callback=record)
    assert record.reason is StopReason.ROUNDING
    assert record.iterations < 100


@METHODS
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_step_past_the_precision_is_not_called_the_tolerance(
    method: Any, dtype: torch.dtype
) -> None:
    """For the identity the recurrence comes to 0 at once, and x only to rounding."""
    record = Record()
    method(torch.clone, vector(8, dtype, 0), adjoint=torch.clone, atol=0, btol=0, callback=record)
    assert record.iterations <= 2 and record.reason is StopReason.ROUNDING


@METHODS
def test_nothing_has_to_be_done_for_zero_the_solution_and_what_is_out_of_reach(method: Any) -> None:
    matrix = torch.tensor([[1.0], [0.0]])
    for y, guess, reason in (
        (torch.zeros(2), None, StopReason.CONVERGED),
        (torch.tensor([3.0, 0.0]), torch.tensor([3.0]), StopReason.CONVERGED),
        (torch.tensor([0.0, 1.0]), None, StopReason.LEAST_SQUARES),
    ):
        record = Record()
        x = method(matrix.mv, y, guess, adjoint=matrix.mH.mv, callback=record)
        assert torch.equal(x, torch.zeros(1) if guess is None else guess)
        assert (record.iterations, record.reason) == (0, reason)
    record = Record()
    method(matrix.mv, torch.ones(2), None, 0, adjoint=matrix.mH.mv, callback=record)
    assert (record.iterations, record.reason) == (0, StopReason.MAX_ITERATIONS)


@METHODS
def test_a_scan_is_reconstructed_by_its_named_operator(method: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(3, 6, 6, dtype=torch.complex128, generator=generator)
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    A = Sampling.from_mask(torch.rand(6, 6, generator=generator) < 0.7) @ FFT(2) @ S
    image = torch.randn(6, 6, dtype=torch.complex128, generator=generator)
    x = method(A, A(image), None, 500, atol=1e-12, btol=1e-12)
    torch.testing.assert_close(x, image, rtol=1e-6, atol=1e-6)


@METHODS
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("damp", [0.0, 0.4])
def test_gradients_are_those_of_the_solution(method: Any, dtype: torch.dtype, damp: float) -> None:
    matrix, y = matrix_of_rank(5, 3, 3, dtype, 8), vector(5, dtype, 8)
    guess = vector(3, dtype, 9)

    def solution(matrix: Tensor, y: Tensor) -> Tensor:
        A = Dense(matrix, ("M", "N"), ("N",), ("M",))
        x: Tensor = method(A, y, guess, damp=damp, atol=1e-14, btol=1e-14)
        return x

    assert torch.autograd.gradcheck(solution, (matrix.requires_grad_(), y.requires_grad_()))


@METHODS
@settings(max_examples=settings().max_examples // 2)
@example(rows=3, columns=5, rank=3, dtype=torch.float64, seed=0, with_guess=False)
@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 5),
    rank=st.integers(1, 5),
    dtype=st.sampled_from([torch.float64, torch.complex128]),
    seed=seeds,
    with_guess=st.booleans(),
)
def test_gradients_are_those_of_the_pseudo_inverse_for_any_rank(
    method: Any, rows: int, columns: int, rank: int, dtype: torch.dtype, seed: int, with_guess: bool
) -> None:
    """By torch, and by differences of a change that keeps the rank."""
    matrix = matrix_of_rank(rows, columns, min(rank, rows, columns), dtype, seed, 0.5)
    y, cotangent = vector(rows, dtype, seed), vector(columns, dtype, seed + 1)
    guess = vector(columns, dtype, seed + 2) if with_guess else torch.zeros_like(cotangent)
    given = [x.requires_grad_() for x in (matrix, y, guess)]

    def inner(x: Tensor) -> Tensor:
        return torch.vdot(cotangent, x).real

    def pinv(matrix: Tensor, y: Tensor, guess: Tensor) -> Tensor:
        return inner(guess + torch.linalg.pinv(matrix, rtol=1e-9) @ (y - matrix @ guess))

    def solved(matrix: Tensor, y: Tensor, guess: Tensor) -> Tensor:
        A = Dense.from_einstr(matrix, "MN,N->M")
        return inner(method(A, y, guess if with_guess else None, atol=1e-13, btol=1e-13))

    count = 3 if with_guess else 2
    result = torch.autograd.grad(solved(*given), given[:count])
    expected = torch.autograd.grad(pinv(*given), given[:count])
    for one, other in zip(result, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    left = matrix_of_rank(rows, rows, rows, dtype, seed + 1)
    step, near = 1e-6, torch.eye(rows, dtype=dtype)
    with torch.no_grad():
        turned = [pinv((near + h * left) @ matrix, y, guess) for h in (step, -step)]
        along = torch.vdot(result[0].flatten(), (left @ matrix).flatten()).real
    assert float(along) == pytest.approx(
        float(turned[0] - turned[1]) / (2 * step), rel=1e-5, abs=1e-6
    )


@METHODS
def test_gradients_reach_parameters_and_are_not_derived_again(method: Any) -> None:
    A = Diagonal(torch.nn.Parameter(torch.tensor([1.0, 2.0])), ("N",))
    x = method(A, torch.tensor([1.0, 4.0]))
    (gradient,) = torch.autograd.grad(x.sum(), A.weight, create_graph=True)
    torch.testing.assert_close(gradient, torch.tensor([-1.0, -1.0]))
    with pytest.raises(RuntimeError, match=r"must not be differentiated again"):
        torch.autograd.grad(gradient.sum(), A.weight)


@METHODS
def test_nothing_is_written_to_and_nothing_recorded_without_need(method: Any) -> None:
    y, guess = torch.ones(3), torch.ones(3)
    x = method(Diagonal(torch.tensor([1.0, 2.0, 3.0]), ("N",)), y, guess)
    assert torch.equal(y, torch.ones(3)) and torch.equal(guess, torch.ones(3))
    assert not x.requires_grad


@METHODS
@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"y": torch.ones(2, dtype=torch.int64)}, TypeError, r"a floating or complex dtype, got"),
        ({"adjoint": None}, TypeError, r"the adjoint of a function must be given \(adjoint=\)"),
        ({"damp": -1.0}, ValueError, r"damp must be at least 0 and finite, got -1"),
        ({"atol": -1.0}, ValueError, r"atol must be at least 0 and finite, got -1"),
        ({"btol": float("nan")}, ValueError, r"btol must be at least 0 and finite, got nan"),
        ({"max_num_iters": -1}, ValueError, r"max_num_iters must be at least 0, got -1"),
        ({"x0": torch.ones(1)}, ValueError, r"x0 must have the shape and dtype of the output of"),
        ({"A": lambda x: x[:1]}, ValueError, r"the output of A must have the shape and dtype of y"),
        ({"y": torch.tensor([1.0, float("nan")])}, ArithmeticError, r"must stay finite, got nan"),
        ({"A": lambda x: x / 0}, ArithmeticError, r"values must stay finite, got"),
    ],
)
def test_what_is_no_such_problem_is_refused(
    method: Any, keywords: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {"A": lambda x: 2 * x, "adjoint": lambda x: 2 * x, "y": torch.tensor([1.0, 3.0])}
    with pytest.raises(error, match=rf"{method.__name__}: .*{message}"):
        method(**{**given, **keywords})


@METHODS
def test_an_adjoint_that_changes_its_shape_is_refused(method: Any) -> None:
    answers = iter([torch.clone, lambda z: torch.ones(3)])
    with pytest.raises(ValueError, match=r"the output of the adjoint must have the shape"):
        method(torch.clone, torch.ones(2), adjoint=lambda z: next(answers)(z))


@METHODS
@pytest.mark.parametrize(
    ("dtype", "exponents"),
    [
        (torch.float32, (-95, -70, -40, 40, 120)),
        (torch.complex64, (-95, 100)),
        (torch.float64, (-960, -525, 525, 1000)),
    ],
)
@pytest.mark.parametrize("damp", [0.0, 0.3])
@pytest.mark.parametrize("with_guess", [False, True])
def test_the_unit_of_the_operator_does_not_matter(
    method: Any, dtype: torch.dtype, exponents: tuple[int, ...], damp: float, with_guess: bool
) -> None:
    """Not a bit of the solution changes where squares leave the range, and x does not."""
    matrix, y = matrix_of_rank(7, 4, 4, dtype, 0), vector(7, dtype, 0)
    guess = vector(4, dtype, 2) if with_guess else torch.zeros(4, dtype=dtype)

    def solution(exponent: int) -> tuple[Tensor, Record]:
        record, unit = Record(), 2.0**exponent
        A, adjoint = (matrix * unit).mv, (matrix * unit).mH.mv
        x = method(A, y, guess / unit, adjoint=adjoint, damp=damp * unit, callback=record)
        assert record.last is not None and torch.equal(record.last.x, x)
        return x * unit, record

    plain, told = solution(0)
    for exponent in exponents:
        x, record = solution(exponent)
        assert torch.equal(x, plain)
        assert (record.reason, record.values) == (told.reason, told.values)


@METHODS
def test_a_damped_solution_is_in_range_where_the_one_of_the_operator_is_not(method: Any) -> None:
    """x = A^H y / damp^2, where A is lost in the sum of both squares."""
    matrix, y = matrix_of_rank(5, 3, 3, torch.float32, 1), vector(5, torch.float32, 1)
    small = matrix * 2.0**-80
    x = method(small.mv, y, adjoint=small.mH.mv, damp=1.0)
    torch.testing.assert_close(x * 2.0**80, matrix.mH @ y, rtol=1e-5, atol=1e-6)


@METHODS
@pytest.mark.parametrize(
    ("scale", "scale_of_y", "damp", "message"),
    [
        (1e-35, 1.0, 0.0, r"the scale of A must be at least 9.9e-32, for the precision of"),
        (
            1e-25,
            1e30,
            0.0,
            r"the scale of A and y must be such that the solution is in the range of",
        ),
        (1e-25, 1.0, 1e60, r"damp must be less than 2\^200 times the scale of A, got 1e\+60"),
        (1e39, 1.0, 0.0, r"must stay finite, got inf; the scale of A may be past what"),
    ],
)
def test_a_scale_out_of_range_is_named(
    method: Any, scale: float, scale_of_y: float, damp: float, message: str
) -> None:
    y = torch.tensor([1.0, 2.0, 4.0]) * scale_of_y
    with pytest.raises(ArithmeticError, match=rf"{method.__name__}: .*{message}"):
        method(lambda x: x * scale, y, adjoint=lambda z: z * scale, damp=damp)


@METHODS
def test_a_wrong_adjoint_is_noticed_and_costs_nothing(method: Any) -> None:
    matrix, y = matrix_of_rank(6, 6, 6, torch.complex128, 1), vector(6, torch.complex128, 1)
    for wrong in (matrix.mv, matrix.mT.mv, lambda z: matrix.mH @ z / 2, lambda z: 1j * z):
        with pytest.raises(ValueError, match=r"adjoint must be the adjoint of A \(dottest"):
            method(matrix.mv, y, adjoint=wrong)
    calls = 0

    def counted(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return matrix @ x

    with torch.no_grad():
        method(counted, y, None, 4, adjoint=matrix.mH.mv)
    assert calls == 4


@METHODS
@example(torch.float32, 3311, 3)  # whose rounding is nearly in the null space of A
@given(st.sampled_from(DTYPES), seeds, st.integers(2, 5))
def test_what_is_out_of_reach_but_for_rounding_is_no_wrong_adjoint(
    method: Any, dtype: torch.dtype, seed: int, n: int
) -> None:
    """A^H y is then rounding, whose direction says nothing."""
    matrix = matrix_of_rank(n, n, 1, dtype, seed)
    left = torch.linalg.svd(matrix).U
    x = method(matrix.mv, left[:, -1].clone(), adjoint=matrix.mH.mv)
    assert float(x.norm()) < 1e-4


@METHODS
def test_no_step_is_made_of_the_rounding_of_the_adjoint(method: Any) -> None:
    """It is in the null space of A here, where a step would be as long as it is small."""
    matrix, rounding = torch.ones(2, 2), torch.tensor([1.0, -1.0]) * 1e-8
    record = Record()
    y = torch.tensor([1.0, -1.0])
    x = method(matrix.mv, y, adjoint=lambda z: matrix.mT @ z + z[0] * rounding, callback=record)
    assert not x.any() and record.reason is StopReason.LEAST_SQUARES


HALF = [torch.float16, torch.bfloat16]


@METHODS
@example(100, 40, 32, torch.float32, 7.0, 1852706818, -4.5, 0.0, "in", False)
@example(40, 1, 1, torch.float16, 0.0, 598895313, -3.17, 0.0, "out", False)
@example(3, 5, 1, torch.float16, 0.9, 1871590752, -3.0, 0.0, "out", False)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(DTYPES + HALF),
    st.floats(0, 8),
    seeds,
    st.floats(-14, -0.5),
    st.sampled_from([0.0, 0.0, 1e-3, 0.5]),
    st.sampled_from(["in", "out", "between"]),
    st.booleans(),
)
def test_what_is_called_a_solution_is_one(
    method: Any,
    rows: int,
    columns: int,
    rank: int,
    dtype: torch.dtype,
    decades: float,
    seed: int,
    digits: float,
    damp: float,
    where: str,
    with_guess: bool,
) -> None:
    """By the norms of x in double precision, with the norm of A."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    kind = torch.complex128 if dtype.is_complex else torch.float64
    matrix = matrix_of_rank(rows, columns, min(rank, rows, columns), kind, seed, decades).to(dtype)
    exact = matrix.to(wide)
    y = exact @ vector(columns, kind, seed) if where != "out" else vector(rows, kind, seed)
    y = y + 1e-2 * vector(rows, kind, seed + 1) if where == "between" else y
    y = y.to(dtype)
    guess = vector(columns, kind, seed + 2).to(dtype) if with_guess else None
    tol, record = 10**digits, Record()
    calls = 0

    def A(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return matrix @ x

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", ConvergenceWarning)
        x = method(
            A, y, guess, adjoint=matrix.mH.mv, damp=damp, atol=tol, btol=tol, callback=record
        )
    assert x.dtype == dtype
    start = torch.zeros(columns, dtype=wide) if guess is None else guess.to(wide)
    change = x.to(wide) - start
    misfit = y.to(wide) - exact @ x.to(wide)
    norm_of_A = math.hypot(float(torch.linalg.matrix_norm(exact, 2)), damp)
    residual = math.hypot(float(misfit.norm()), damp * float(change.norm()))
    gradient = float((exact.mH @ misfit - damp**2 * change).norm())
    before = float((y.to(wide) - exact @ start).norm())
    if record.reason is StopReason.CONVERGED:
        assert residual <= tol * (before + norm_of_A * float(change.norm()))
    elif record.reason is StopReason.LEAST_SQUARES:
        assert gradient <= tol * norm_of_A * residual
    if record.reason in (StopReason.CONVERGED, StopReason.LEAST_SQUARES):
        assert calls <= record.iterations + with_guess + 4


@METHODS
@given(st.integers(1, 20), st.integers(1, 20), st.sampled_from(HALF), seeds)
def test_a_well_conditioned_problem_in_half_precision_is_solved(
    method: Any, rows: int, columns: int, dtype: torch.dtype, seed: int
) -> None:
    rank = min(rows, columns)
    matrix = matrix_of_rank(rows, columns, rank, torch.float64, seed).to(dtype)
    y = vector(rows, torch.float64, seed).to(dtype)
    x = method(Dense.from_einstr(matrix, "MN,N->M"), y)
    exact = torch.linalg.pinv(matrix.double()) @ y.double()
    error = float((x.double() - exact).norm())
    # The condition is 10, and its square counts where y is out of reach.
    assert error <= 200 * torch.finfo(dtype).eps * (float(exact.norm()) + float(y.double().norm()))


@METHODS
@pytest.mark.parametrize("name", ["damp", "atol", "btol", "conlim"])
def test_an_option_out_of_range_is_refused(method: Any, name: str) -> None:
    def solve(value: Any) -> Tensor:
        x: Tensor = method(torch.clone, torch.ones(2), adjoint=torch.clone, **{name: value})
        return x

    for value in (-1.0, float("nan")):
        with pytest.raises(ValueError, match=rf"{method.__name__}: {name} must be at least 0"):
            solve(value)
    with pytest.raises(TypeError, match=rf"{method.__name__}: {name} must be a real number, got"):
        solve("1")
    if name == "conlim":
        solve(math.inf)
    else:
        with pytest.raises(ValueError, match=rf"{name} must be at least 0 and finite, got inf"):
            solve(math.inf)
