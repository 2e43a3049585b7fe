import warnings
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import FFT, Dense, Diagonal
from linops_solvers import (
    ConvergenceWarning,
    Record,
    Step,
    StopReason,
    conjugate_gradients,
    lsmr,
    lsqr,
    power_method,
)


def positive(n: int, dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    """Return a Hermitian positive definite matrix and a right-hand side."""
    generator = torch.Generator().manual_seed(seed)
    half = torch.randn(n, n, dtype=dtype, generator=generator)
    matrix = half.mH @ half + 0.5 * torch.eye(n, dtype=dtype)
    return matrix, torch.randn(n, dtype=dtype, generator=generator)


def solve(A: Any, y: Tensor, **keywords: Any) -> Tensor:
    return conjugate_gradients(A, y, **keywords)


dtypes = st.sampled_from([torch.float64, torch.complex128])


@given(st.integers(1, 6), dtypes, st.integers(0, 2**16), st.booleans())
def test_the_solution_is_that_of_a_direct_solver(
    n: int, dtype: torch.dtype, seed: int, with_guess: bool
) -> None:
    matrix, y = positive(n, dtype, seed)
    guess = torch.randn(n, dtype=dtype) if with_guess else None
    kept = [v.clone() for v in (y, guess) if v is not None]
    x = solve(matrix.mv, y, x0=guess, max_num_iters=20 * n, gtol=1e-12, ltol=0)
    torch.testing.assert_close(x, torch.linalg.solve(matrix, y), rtol=1e-6, atol=1e-6)
    now = [v for v in (y, guess) if v is not None]
    assert all(torch.equal(a, b) for a, b in zip(now, kept, strict=True))


@given(st.integers(1, 4), dtypes, st.integers(0, 2**16))
def test_gradients_through_it_are_those_of_a_direct_solver(
    n: int, dtype: torch.dtype, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    half = torch.randn(n, n, dtype=dtype, generator=generator)
    y, c = (torch.randn(n, dtype=dtype, generator=generator) for _ in range(2))

    def gradients(solver: Any) -> tuple[Tensor, ...]:
        leaves = half.clone().requires_grad_(), y.clone().requires_grad_()
        matrix = leaves[0].mH @ leaves[0] + n * torch.eye(n, dtype=dtype)
        value = torch.vdot(c, solver(matrix, leaves[1])).real
        return torch.autograd.grad(value, leaves)

    def by_iteration(matrix: Tensor, y: Tensor) -> Tensor:
        return solve(matrix.mv, y, max_num_iters=3 * n, gtol=1e-13, ltol=0)

    torch.testing.assert_close(
        gradients(by_iteration), gradients(torch.linalg.solve), rtol=1e-6, atol=1e-7
    )


def test_gradients_reach_the_weights_of_an_operator_and_the_guess() -> None:
    A = Diagonal(torch.nn.Parameter(torch.tensor([1.0, 2.0])), ("N",))
    guess = torch.zeros(2, requires_grad=True)
    x = solve(A.N, torch.ones(2), x0=guess, max_num_iters=1, gtol=0, ltol=0)
    torch.autograd.backward(x.sum())
    assert A.weight.grad is not None and A.weight.grad.abs().min() > 0
    assert guess.grad is not None


def test_it_solves_with_an_operator_of_any_number_of_dimensions() -> None:
    half = torch.randn(2, 3, 4, 6, dtype=torch.float64)
    A = Dense(half, ("P", "Q", "A", "B"), ("A", "B"), ("P", "Q"))
    ridge = Diagonal(torch.full((4, 6), 2.0, dtype=torch.float64), ("A", "B"))
    y = torch.randn(4, 6, dtype=torch.float64)
    x = solve(lambda x: A.N(x) + ridge(x), y, max_num_iters=100, gtol=1e-12, ltol=0)
    torch.testing.assert_close(A.N(x) + 2 * x, y)


def steps(**keywords: Any) -> list[Step]:
    seen: list[Step] = []
    matrix = torch.diag(torch.arange(1.0, 9.0, dtype=torch.float64))
    y = torch.ones(8, dtype=torch.float64)
    solve(matrix.mv, y, callback=seen.append, **keywords)
    return seen


def test_it_stops_after_the_number_of_steps() -> None:
    assert [step.iteration for step in steps(max_num_iters=3, gtol=0, ltol=0)] == [1, 2, 3]
    (only,) = steps(max_num_iters=0)
    assert (only.iteration, only.reason) == (0, StopReason.MAX_ITERATIONS)
    assert [step.reason for step in steps(max_num_iters=2, gtol=0, ltol=0)] == [
        None,
        StopReason.MAX_ITERATIONS,
    ]


def test_it_stops_when_the_gradient_is_small() -> None:
    seen = steps(max_num_iters=50, gtol=1e-2, ltol=0)
    residuals = [step.values["residual"] for step in seen]
    assert seen[-1].reason is StopReason.CONVERGED
    assert residuals[-1] <= 1e-2 < min(residuals[:-1])


def test_it_stops_when_the_loss_stands_still() -> None:
    seen = steps(max_num_iters=50, gtol=0, ltol=1e-3)
    assert seen[-1].reason is StopReason.STALLED
    losses = [step.values["objective"] for step in seen]
    drops = [before - after for before, after in pairwise(losses)]
    assert drops[-1] <= 1e-3 * abs(losses[-1])
    assert all(drop > 1e-3 * abs(loss) for drop, loss in zip(drops[:-1], losses[1:-1], strict=True))


@given(st.floats(-4, -1), st.floats(-6, -1), st.integers(0, 2**16))
def test_it_stops_at_the_first_step_where_both_tolerances_hold(
    gtol: float, ltol: float, seed: int
) -> None:
    matrix, y = of_condition(12, torch.float64, 3.0, False, seed)
    gtol, ltol = 10**gtol, 10**ltol
    seen: list[Step] = []
    solve(matrix.mv, y, max_num_iters=100, gtol=gtol, ltol=ltol, callback=seen.append)
    losses = [0.0, *(step.values["objective"] for step in seen)]
    holds = [
        step.values["residual"] <= gtol and before - after <= ltol * abs(after)
        for step, (before, after) in zip(seen, pairwise(losses), strict=True)
    ]
    assert holds == [False] * (len(seen) - 1) + [True]
    assert seen[-1].reason is StopReason.CONVERGED


def test_the_default_tolerances_leave_no_large_residual() -> None:
    """The loss stands still for a step long before the residual is small."""
    matrix = torch.diag(torch.logspace(0, 3, 60, dtype=torch.float64))
    y = torch.randn(60, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = solve(matrix.mv, y, max_num_iters=200)
    assert (matrix @ x - y).norm() <= 1e-3 * y.norm()
    x = solve(matrix.mv, y, max_num_iters=200, gtol=0, ltol=1e-5)
    assert (matrix @ x - y).norm() > 1e-3 * y.norm()


def test_a_step_reports_the_true_residual_and_loss() -> None:
    matrix, y = positive(5, torch.complex128, 0)

    def compare(step: Step) -> None:
        residual = matrix @ step.x - y
        loss = torch.vdot(step.x, matrix @ step.x) / 2 - torch.vdot(step.x, y)
        assert step.values["residual"] == pytest.approx(float(residual.norm() / y.norm()), abs=1e-9)
        assert step.values["objective"] == pytest.approx(loss.real.item(), rel=1e-9)

    guess = torch.randn(5, dtype=torch.complex128)
    solve(matrix.mv, y, x0=guess, callback=compare, gtol=1e-9, ltol=0)


def test_nothing_has_to_be_done_for_zero_and_for_the_solution() -> None:
    matrix, y = positive(3, torch.float64, 0)
    assert not solve(matrix.mv, torch.zeros(3, dtype=torch.float64)).any()
    solution = torch.linalg.solve(matrix, y)
    seen: list[Step] = []
    solve(matrix.mv, y, x0=solution, gtol=1e-9, callback=seen.append)
    assert [(step.iteration, step.reason) for step in seen] == [(0, StopReason.CONVERGED)]


@pytest.mark.parametrize("scale", [1.0, 1e-25])
def test_a_guess_far_from_the_solution_has_its_own_unit(scale: float) -> None:
    """For y = 0 the tolerance is relative to the residual of the guess."""
    matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    guess = torch.tensor([3.0, -2.0]) * scale
    record = Record()
    x = solve(matrix.mv, torch.zeros(2), x0=guess, gtol=1e-4, ltol=0, callback=record)
    assert record.reason is StopReason.CONVERGED and record.values["residual"][-1] <= 1e-4
    assert x.norm() <= 1e-3 * guess.norm()
    y = torch.tensor([1e-30, 0.0]) * scale
    x = solve(matrix.mv, y, x0=guess, gtol=1e-4, ltol=0, max_num_iters=50)
    assert x.norm() <= 1e-4 * guess.norm()


def test_a_progress_bar_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    matrix, y = positive(3, torch.float64, 0)
    conjugate_gradients(matrix.mv, y, tqdm_kwargs={"desc": "solving"})
    assert "solving" in capsys.readouterr().err
    conjugate_gradients(matrix.mv, y)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("A", "error", "message"),
    [
        (lambda x: x[:1], ValueError, r"A must map a space to itself, got an output of shape \(1,"),
        (lambda x: x.double(), ValueError, r"A must map a space to itself, .*torch.float64"),
        (lambda x: -x, ValueError, r"A must be Hermitian and positive definite, got p\^H A p = -"),
        (lambda x: 0 * x, ValueError, r"A must be Hermitian and positive definite"),
        (lambda x: x * float("nan"), ArithmeticError, r"values must stay finite, got nan"),
        (lambda x: x * float("inf"), ArithmeticError, r"values must stay finite, got"),
    ],
)
def test_what_is_no_such_system_is_refused(A: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"conjugate_gradients: {message}"):
        solve(A, torch.ones(2))


def test_an_operator_that_is_not_hermitian_is_noticed() -> None:
    with pytest.raises(ValueError, match=r"must be Hermitian and positive definite, got .*j"):
        solve(lambda x: (1 + 1j) * x, torch.ones(2, dtype=torch.complex64))


def test_a_right_hand_side_of_nan_is_refused() -> None:
    with pytest.raises(ArithmeticError, match=r"values must stay finite, got nan"):
        solve(lambda x: x, torch.full((2,), float("nan")))


@pytest.mark.parametrize("guess", [torch.ones(2, 2), torch.ones(2, dtype=torch.float64)])
def test_a_guess_of_another_kind_is_refused(guess: Tensor) -> None:
    with pytest.raises(ValueError, match=r"x0 must have the shape and dtype of y, \(2,\) of torch"):
        solve(lambda x: x, torch.ones(2), x0=guess)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e12, 1e30])
def test_the_unit_of_the_right_hand_side_does_not_matter(scale: float) -> None:
    A = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    x = conjugate_gradients(A.mv, scale * torch.tensor([3.0, 4.0]), gtol=1e-6, ltol=0)
    torch.testing.assert_close(x / scale, torch.ones(2))


def test_a_zero_tolerance_ends_at_the_precision_of_the_right_hand_side() -> None:
    steps: list[Step] = []
    A = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    conjugate_gradients(
        A.mv,
        torch.tensor([3.0, 4.0]),
        max_num_iters=1000,
        gtol=0,
        ltol=0,
        callback=steps.append,
    )
    assert len(steps) < 20


def test_a_solution_that_only_the_recurrence_reaches_is_not_called_one() -> None:
    """In single precision the recurrence goes on where the residual stays behind."""
    matrix, y = positive(30, torch.float64, 1)
    matrix = (matrix + 1e4 * torch.outer(y, y) / y.dot(y)).float()
    y = torch.randn(30, generator=torch.Generator().manual_seed(0))
    record = Record()
    x = solve(matrix.mv, y, max_num_iters=1000, gtol=1e-6, ltol=0, callback=record)
    assert record.reason is StopReason.ROUNDING
    true = float((matrix @ x - y).norm() / y.norm())
    assert record.values["residual"][-1] == pytest.approx(true, rel=0.1)
    assert true > 1e-6


@given(st.integers(2, 6), dtypes, st.integers(0, 2**16))
def test_an_operator_that_is_not_symmetric_is_noticed_or_solved(
    n: int, dtype: torch.dtype, seed: int
) -> None:
    """Its curvatures may all be real and positive; no wrong solution is called one."""
    matrix, y = positive(n, dtype, seed)
    skew = torch.randn(n, n, dtype=dtype, generator=torch.Generator().manual_seed(seed + 1))
    matrix = matrix + (skew - skew.mH)
    record = Record()
    try:
        x = solve(matrix.mv, y, max_num_iters=10 * n, gtol=1e-8, ltol=0, callback=record)
    except ValueError as error:
        assert "A must be Hermitian and positive definite" in str(error)
    else:
        assert record.reason is not StopReason.CONVERGED or (
            (matrix @ x - y).norm() <= 1e-7 * y.norm()
        )


DTYPES = [
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float16,
    torch.bfloat16,
]


def of_condition(
    n: int, dtype: torch.dtype, decades: float, is_clustered: bool, seed: int
) -> tuple[Tensor, Tensor]:
    """Return a positive definite matrix of eigenvalues 1 to 10^-decades, and a vector."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    basis = torch.linalg.qr(torch.randn(n, n, dtype=wide, generator=generator)).Q
    values = torch.logspace(0, -decades, n, dtype=torch.float64)
    if is_clustered:
        values[:-1] = 1
    matrix = (basis * values) @ basis.mH
    y = torch.randn(n, dtype=wide, generator=generator)
    return ((matrix + matrix.mH) / 2).to(dtype), y.to(dtype)


@example(5, torch.float64, 16.0, False, 1787, -5.0, False, 200)
@example(9, torch.float32, 3.3125, True, 8380, -5.0, False, 200)
@given(
    st.integers(1, 40),
    st.sampled_from(DTYPES),
    st.floats(0, 18),
    st.booleans(),
    st.integers(0, 2**16),
    st.floats(-14, -0.5),
    st.booleans(),
    st.sampled_from([5, 200]),
)
def test_what_is_called_converged_is_within_the_tolerance(
    n: int,
    dtype: torch.dtype,
    decades: float,
    is_clustered: bool,
    seed: int,
    digits: float,
    with_guess: bool,
    max_num_iters: int,
) -> None:
    """Computed in double precision; and no condition is taken for a wrong operator."""
    matrix, y = of_condition(n, dtype, decades, is_clustered, seed)
    gtol, record = 10**digits, Record()
    guess = of_condition(n, dtype, 0.0, False, seed + 1)[1] if with_guess else None
    calls = 0

    def A(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return matrix @ x

    keywords = {"max_num_iters": max_num_iters, "gtol": gtol, "ltol": 0}
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            x = solve(A, y, x0=guess, callback=record, **keywords)
    except ValueError as error:  # a matrix that became singular, not by rounding: A p is 0
        assert str(error).endswith("|p| |A p| = 0")
        return
    wide = torch.complex128 if dtype.is_complex else torch.float64
    residual = float((matrix.to(wide) @ x.to(wide) - y.to(wide)).norm() / y.to(wide).norm())
    if record.reason is StopReason.CONVERGED:
        assert residual <= gtol
        assert not told
    elif record.reason is StopReason.ROUNDING and not told:
        assert residual <= 1.5 * max(gtol, torch.finfo(dtype).eps ** 0.5)
    if record.iterations and calls - record.iterations - with_guess > 1:
        assert gtol < 1e4 * torch.finfo(dtype).eps  # only then is a second one needed


@given(st.integers(1, 30), st.sampled_from([torch.bfloat16, torch.float16]), st.integers(0, 2**16))
def test_a_well_conditioned_system_in_half_precision_is_solved(
    n: int, dtype: torch.dtype, seed: int
) -> None:
    matrix, y = of_condition(n, dtype, 1.0, False, seed)
    x = solve(matrix.mv, y, max_num_iters=50, gtol=0, ltol=0)
    assert x.dtype == dtype
    exact = torch.linalg.solve(matrix.double(), y.double())
    assert (x.double() - exact).norm() <= 20 * torch.finfo(dtype).eps * exact.norm()


@example(9, 3.3125, True, 8380)
@given(st.integers(2, 30), st.floats(0, 7), st.booleans(), st.integers(0, 2**16))
def test_a_guess_is_called_a_solution_only_where_it_is_one(
    n: int, decades: float, is_clustered: bool, seed: int
) -> None:
    """Its residual is as rounded as any, and no step has shown the norm of A yet."""
    matrix, y = of_condition(n, torch.float32, decades, is_clustered, seed)
    guess = torch.linalg.solve(matrix.double(), y.double()).float()
    computed = float((matrix @ guess - y).norm() / y.norm())
    exact = float((matrix.double() @ guess.double() - y.double()).norm() / y.double().norm())
    for gtol in (computed, 1.01 * computed, 0.99 * exact, 1e-6, 1e-3):
        record = Record()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            x = solve(matrix.mv, y, x0=guess, gtol=gtol, ltol=0, callback=record)
        residual = float((matrix.double() @ x.double() - y.double()).norm() / y.double().norm())
        assert record.reason is not StopReason.CONVERGED or residual <= gtol
    assert record.iterations == 0 or decades > 2


def test_two_unknowns_in_bfloat16_are_exact() -> None:
    A = torch.tensor([1.0, 4.0], dtype=torch.bfloat16)
    x = solve(lambda x: A * x, torch.ones(2, dtype=torch.bfloat16))
    assert torch.equal(x, torch.tensor([1.0, 0.25], dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ltol", [0.0, 1e-5])
def test_a_user_is_told_of_a_singular_system_without_a_solution(
    dtype: torch.dtype, seed: int, ltol: float
) -> None:
    """Whatever x has become, and whatever the reason is called."""
    generator = torch.Generator().manual_seed(seed)
    half = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    matrix = (half.mT @ half).to(dtype)
    y = torch.randn(8, generator=generator, dtype=torch.float64).to(dtype)
    with pytest.warns(ConvergenceWarning, match=r"must fall to gtol \|y\|, 0.001 \|y\|"):
        solve(matrix.mv, y, max_num_iters=100, ltol=ltol)


def test_the_system_of_which_a_user_is_told_is_named() -> None:
    matrix, y = of_condition(6, torch.float32, 9.0, False, 0)
    eye = torch.eye(6)
    with pytest.warns(ConvergenceWarning, match=r"\|A x - y\| of system 1 must fall to gtol"):
        solve(
            lambda x: torch.stack([eye @ x[0], matrix @ x[1]]),
            torch.stack([y, y]),
            batch_dims=1,
            max_num_iters=100,
            gtol=1e-5,
            ltol=0,
        )


@given(st.integers(0, 2**16), st.integers(1, 5), st.integers(2, 30))
def test_systems_side_by_side_are_each_within_the_tolerance(seed: int, count: int, n: int) -> None:
    """Those that wait to be confirmed are confirmed together, and go on one by one."""
    systems = [of_condition(n, torch.float32, k, False, seed + k) for k in range(count)]
    matrices, y = (torch.stack(parts) for parts in zip(*systems, strict=True))
    record = Record()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        x = solve(
            lambda x: (matrices @ x.unsqueeze(-1)).squeeze(-1),
            y,
            batch_dims=1,
            max_num_iters=200,
            gtol=1e-4,
            ltol=0,
            callback=record,
        )
    misfit = (matrices.double() @ x.double().unsqueeze(-1)).squeeze(-1) - y.double()
    residuals = misfit.norm(dim=1) / y.double().norm(dim=1)
    for reason, residual in zip(record.reasons, residuals.tolist(), strict=True):
        assert reason is not StopReason.CONVERGED or residual <= 1e-4
    assert record.reasons[0] is StopReason.CONVERGED


@pytest.mark.parametrize("name", ["gtol", "ltol"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_tolerance_out_of_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"conjugate_gradients: {name} must be at least 0 and"):
        solve(torch.clone, torch.ones(2), **{name: value})
    with pytest.raises(TypeError, match=rf"conjugate_gradients: {name} must be a real number, got"):
        solve(torch.clone, torch.ones(2), **{name: "1"})


def test_a_solution_too_small_for_the_dtype_is_refused() -> None:
    y = torch.full((2,), 2.0**-20, dtype=torch.float16)
    with pytest.raises(ArithmeticError, match=r"range of torch.float16, got numbers too small"):
        solve(lambda x: 1024 * x, y)


def test_a_rotation_is_noticed() -> None:
    """p^H A p is |p|^2 for every p, as for the identity."""
    A = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
    with pytest.raises(ValueError, match=r"a residual z and a direction p with z\^H A p = "):
        solve(A.mv, torch.tensor([1.0, 2.0]))


@pytest.mark.parametrize("batch_dims", [0, 1])
def test_an_indefinite_operator_without_curvature_is_not_called_singular(batch_dims: int) -> None:
    """p^H A p is 0 for the first p, and A p is not."""
    for matrix, vector in (
        (torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([1.0, 0.0])),
        (torch.diag(torch.tensor([1.0, -1.0])), torch.ones(2)),
        (torch.tensor([[0, 1j], [-1j, 0]]), torch.tensor([1, 0j])),
    ):
        y = torch.stack([vector, 2 * vector])
        with pytest.raises(ValueError, match=r"p\^H A p = 0.* for a direction p.* \|A p\| = \d"):
            solve(lambda x, A=matrix: x @ A.mT, y, batch_dims=batch_dims)


def test_a_difference_too_small_for_the_digits_is_told_on_its_own() -> None:
    A = torch.eye(4, dtype=torch.float64) * torch.arange(1, 5)
    A[0, 1], A[1, 0] = 1e-4, -1e-4
    with pytest.raises(ValueError, match=r": A must be Hermitian .* apart by \d\.\d+e-06 of"):
        solve(A.mv, torch.ones(4, dtype=torch.float64), gtol=1e-12, ltol=0)


def test_a_preconditioner_that_is_not_symmetric_is_not_blamed_on_the_operator() -> None:
    matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    turned = torch.tensor([[1.0, 0.5], [-0.5, 1.0]])
    with pytest.raises(ValueError, match=r": A or the preconditioner must be Hermitian and posit"):
        solve(matrix.mv, torch.tensor([3.0, 4.0]), preconditioner=turned.mv)


@pytest.mark.parametrize(
    ("dtype", "exponents"), [(torch.float32, (-100, -60, 60, 120)), (torch.float64, (-900, 900))]
)
@pytest.mark.parametrize("batch_dims", [0, 1])
@pytest.mark.parametrize("with_guess", [False, True])
def test_the_unit_of_the_operator_does_not_matter(
    dtype: torch.dtype, exponents: tuple[int, ...], batch_dims: int, with_guess: bool
) -> None:
    """The squares of what A returns leave the range of the dtype, and x does not."""
    matrix, y = positive(4, dtype, 0)
    y = torch.stack([y, y.flip(0)])
    generator = torch.Generator().manual_seed(0)
    guess = torch.rand(2, 4, dtype=dtype, generator=generator) * with_guess

    def solution(exponent: int) -> tuple[Tensor, Record]:
        unit, record = 2.0**exponent, Record()
        keywords = {"gtol": 1e-5, "ltol": 0, "batch_dims": batch_dims, "callback": record}
        return solve(lambda x: x @ (matrix.mT * unit), y, x0=guess / unit, **keywords), record

    plain, told = solution(0)
    for exponent in exponents:
        x, record = solution(exponent)
        torch.testing.assert_close(x * 2.0**exponent, plain)
        assert record.reasons == told.reasons
        loss = record.values["objective"][-1] * 2.0**exponent
        assert loss == pytest.approx(told.values["objective"][-1])
        assert record.last is not None and torch.equal(record.last.x, x)


def test_a_scale_of_the_operator_out_of_range_is_named() -> None:
    y = torch.ones(2)
    with pytest.raises(ArithmeticError, match=r"the scale of A must be at least 9.9e-32, for the"):
        solve(lambda x: 1e-35 * x, y)
    with pytest.raises(
        ArithmeticError, match=r"the scale of A and y must be such that the solution"
    ):
        solve(lambda x: 1e-25 * x, 1e20 * y)


def test_a_singular_system_that_has_a_solution_is_solved() -> None:
    A = torch.diag(torch.tensor([2.0, 0.0, 4.0]))
    x = solve(A.mv, torch.tensor([2.0, 0.0, 8.0]), x0=torch.tensor([0.0, 5.0, 0.0]), gtol=1e-6)
    torch.testing.assert_close(x, torch.tensor([1.0, 5.0, 2.0]))


def test_no_step_is_made_of_rounding() -> None:
    """In the null space the curvature is nothing but rounding, and the step would be huge."""
    basis = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64)).Q
    matrix = (basis * torch.tensor([1.0, 1.0, 0.5, 0.5, 0.25, 0.0])) @ basis.mT
    y = basis.sum(1)
    record = Record()
    matrix = matrix + matrix.mT
    with pytest.warns(ConvergenceWarning, match=r"A is singular or nearly so"):
        x = solve(matrix.mv, y, max_num_iters=100, gtol=1e-9, ltol=0, callback=record)
    assert record.reason is StopReason.ROUNDING
    assert float(x.norm()) < 100
    residual = float((matrix @ x - y).norm() / y.norm())
    assert record.values["residual"][-1] == pytest.approx(residual, rel=1e-6)


def test_a_singular_system_without_a_solution_is_refused() -> None:
    A = torch.diag(torch.tensor([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"must be Hermitian and positive definite"):
        solve(A.mv, torch.ones(2), gtol=1e-6, ltol=0)


@given(st.integers(1, 5), st.integers(1, 4), dtypes, st.integers(0, 2**16), st.booleans())
def test_systems_side_by_side_are_solved_each_as_if_alone(
    n: int, count: int, dtype: torch.dtype, seed: int, with_guess: bool
) -> None:
    systems = [positive(n, dtype, seed + k) for k in range(count)]
    matrices = torch.stack([matrix for matrix, _ in systems])
    # As different in scale as can be; one has nothing to do.
    y = torch.stack([v * 10.0 ** (9 * k) for k, (_, v) in enumerate(systems)])
    y[0] = 0
    guess = torch.randn(count, n, dtype=dtype) if with_guess else None
    keywords = {"max_num_iters": 7, "gtol": 1e-2, "ltol": 0}
    record = Record()
    A = Dense(matrices, ("B", "M", "N"), ("B", "N"), ("B", "M"))
    both = [
        solve(A, y, x0=guess, batch_dims=dims, callback=record, **keywords) for dims in ("B", 1)
    ]
    assert torch.equal(*both)
    for k in range(count):
        alone = Record()
        x0 = None if guess is None else guess[k]
        x = solve(matrices[k].mv, y[k], x0=x0, callback=alone, **keywords)
        assert record.reasons[k] is alone.reason
        torch.testing.assert_close(both[0][k], x, rtol=1e-6, atol=1e-6 * float(y[k].norm() or 1))


def test_systems_that_are_solved_early_are_left_alone() -> None:
    systems = [positive(5, torch.float64, seed) for seed in range(3)]
    eye = torch.eye(5, dtype=torch.float64)
    matrices = torch.stack([m + 10**k * eye for k, (m, _) in enumerate(systems)])
    y = torch.stack([y for _, y in systems])
    keywords: dict[str, Any] = {"max_num_iters": 20, "gtol": 1e-2, "ltol": 0}
    x = solve(lambda x: (matrices @ x.unsqueeze(-1)).squeeze(-1), y, batch_dims=1, **keywords)
    counts = []
    for k in range(3):
        record = Record()
        alone = solve(matrices[k].mv, y[k], callback=record, **keywords)
        torch.testing.assert_close(x[k], alone, rtol=1e-12, atol=1e-12)
        counts.append(record.iterations)
    assert len(set(counts)) > 1


def test_a_system_that_is_solved_stays_as_it_is() -> None:
    matrices = torch.stack([torch.eye(4), torch.diag(torch.arange(1.0, 5.0))]).double()
    seen: list[Step] = []
    solve(
        lambda x: (matrices @ x.unsqueeze(-1)).squeeze(-1),
        torch.ones(2, 4, dtype=torch.float64),
        batch_dims=1,
        gtol=1e-10,
        ltol=0,
        callback=seen.append,
    )
    assert [step.reasons[0] is None for step in seen] == [False] * 4
    assert all(torch.equal(step.x[0], torch.ones(4).double()) for step in seen)
    assert [step.reason for step in seen] == [None] * 3 + [StopReason.CONVERGED]


def test_batch_dimensions_may_be_anywhere() -> None:
    weight = torch.rand(3, 2, 4, dtype=torch.float64) + 1
    D = Diagonal(weight, ("N", "B", "M"))
    y = torch.rand(3, 2, 4, dtype=torch.float64)
    x = solve(D, y, batch_dims="B", max_num_iters=30, gtol=1e-10, ltol=0)
    torch.testing.assert_close(x, y / weight)
    x = solve(D, y, batch_dims=("N", "B", "M"), gtol=1e-10)
    torch.testing.assert_close(x, y / weight)
    behind = Diagonal(weight[0, 0], ("...", "M"))
    record = Record()
    x = solve(behind, y, batch_dims=["M"], gtol=1e-10, ltol=0, callback=record)
    torch.testing.assert_close(x, y / weight[0, 0])
    assert len(record.reasons) == 4 and record.iterations == 1


def test_gradients_go_through_systems_side_by_side() -> None:
    half = torch.randn(2, 3, 3, dtype=torch.complex128)
    eye = torch.eye(3, dtype=torch.complex128)

    def solution(half: Tensor, y: Tensor) -> Tensor:
        matrix = half.mH @ half + eye
        return solve(
            lambda x: (matrix @ x.unsqueeze(-1)).squeeze(-1), y, batch_dims=1, gtol=1e-13, ltol=0
        )

    y = torch.randn(2, 3, dtype=torch.complex128)
    assert torch.autograd.gradcheck(
        solution, (half.requires_grad_(), y.requires_grad_()), rtol=1e-4, atol=1e-5
    )


@given(st.integers(1, 6), dtypes, st.integers(0, 2**16))
def test_a_preconditioner_changes_the_steps_and_not_the_solution(
    n: int, dtype: torch.dtype, seed: int
) -> None:
    matrix, y = positive(n, dtype, seed)
    scale = 10.0 ** torch.arange(n).double()
    matrix = scale[:, None] * matrix * scale
    y = scale * y
    jacobi = Diagonal(1 / matrix.diagonal().real, ("N",))
    record = Record()
    x = solve(
        matrix.mv,
        y,
        preconditioner=jacobi,
        max_num_iters=20 * n,
        gtol=1e-12,
        ltol=0,
        callback=record,
    )
    torch.testing.assert_close(
        scale * x, scale * torch.linalg.solve(matrix, y), rtol=1e-5, atol=1e-5
    )


def test_the_exact_inverse_as_preconditioner_needs_one_step() -> None:
    matrix, y = positive(6, torch.complex128, 3)
    record = Record()
    inverse = torch.linalg.inv(matrix)
    solve(matrix.mv, y, preconditioner=inverse.mv, gtol=1e-10, ltol=0, callback=record)
    assert record.iterations == 1


@pytest.mark.parametrize(
    ("preconditioner", "message"),
    [
        (lambda r: -r, r"the preconditioner must be Hermitian and positive definite, got r\^H M r"),
        (lambda r: r[:1], r"the preconditioner must map a space to itself, got an output of shape"),
    ],
)
def test_a_wrong_preconditioner_is_refused(preconditioner: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        solve(lambda x: 2 * x, torch.ones(3), preconditioner=preconditioner)


def test_the_implicit_gradient_is_that_of_the_direct_solver() -> None:
    half = torch.randn(4, 4, dtype=torch.complex128)
    eye = torch.eye(4, dtype=torch.complex128)

    def solution(half: Tensor, y: Tensor) -> Tensor:
        matrix = half.mH @ half + eye
        return solve(matrix.mv, y, max_num_iters=40, gtol=1e-13, ltol=0, implicit=True)

    y = torch.randn(4, dtype=torch.complex128)
    assert torch.autograd.gradcheck(solution, (half.requires_grad_(), y.requires_grad_()))


def test_the_implicit_gradient_reaches_parameters_keeps_no_steps_and_is_not_derived_again() -> None:
    A = Diagonal(torch.nn.Parameter(torch.tensor([1.0, 2.0])), ("N",))
    y = torch.tensor([3.0, 8.0], requires_grad=True)
    x = solve(A.N, y, gtol=1e-6, ltol=0, implicit=True)
    gradients = torch.autograd.grad(x.sum(), [A.weight, y], create_graph=True)
    torch.testing.assert_close(gradients[0], torch.tensor([-6.0, -2.0]))
    torch.testing.assert_close(gradients[1], torch.tensor([1.0, 0.25]))
    with pytest.raises(RuntimeError, match=r"must not be differentiated again"):
        torch.autograd.grad(gradients[0].sum(), A.weight)


def test_a_number_of_batch_dimensions_is_compared_with_the_operators() -> None:
    y = torch.ones(2, 2)
    mixing = Dense(torch.eye(2), ("M", "N"), ("N", "B"), ("M", "B"))
    for solver in (conjugate_gradients, power_method):
        with pytest.raises(ValueError, match=r"axis 0 must be a batch dimension of A, .* N and M;"):
            solver(mixing, y, batch_dims=1)
        opaque = FFT(1, grid_shapes=(("N",), ("N",)))
        with pytest.raises(ValueError, match=r"axis 1 must be .* of A, .* got N and N \("):
            solver(opaque, y, batch_dims=2)
    A = Diagonal(y, ("B", "N"))
    with pytest.raises(ValueError, match=r"axis 0 must be a batch dimension of the preconditioner"):
        solve(A, y, batch_dims=1, preconditioner=mixing)
    many = Dense(torch.eye(2), ("M", "N"), ("...", "N"), ("...", "M"))
    assert torch.equal(solve(many, y, batch_dims=1), y)


def test_names_that_are_no_batch_dimensions_are_refused() -> None:
    y = torch.ones(2, 2)
    A = Dense(torch.eye(2), ("M", "N"), ("B", "N"), ("B", "M"))
    with pytest.raises(ValueError, match=r"N must be a batch dimension of A, .*, got input"):
        solve(A, y, batch_dims="N")
    with pytest.raises(ValueError, match=r"Z must be a batch dimension of A, .*, got none"):
        solve(A, y, batch_dims=["B", "Z"])
    F = FFT(1, grid_shapes=(("N",), ("N",)))
    with pytest.raises(ValueError, match=r"N must be a batch dimension of A, .*, got opaque \("):
        solve(F, y, batch_dims="N")
    with pytest.raises(ValueError, match=r"batch_dims must be at most the 2 axes .*, got 3"):
        solve(A, y, batch_dims=3)
    for wrong in (True, 1.0, None):
        with pytest.raises(TypeError, match=r"batch_dims must be an integer, got"):
            solve(A, y, batch_dims=wrong)
    with pytest.raises(TypeError, match=r"batch_dims must be a number for a function"):
        solve(lambda x: x, y, batch_dims="N")


def test_a_wrong_system_among_others_is_named() -> None:
    sign = torch.tensor([[1.0], [-1.0]])
    with pytest.raises(ValueError, match=r"for a direction p of system 1"):
        solve(lambda x: sign * x, torch.ones(2, 3), batch_dims=1)
    y = torch.ones(2, 3)
    y[1, 0] = float("inf")
    with pytest.raises(ArithmeticError, match=r"values of system 1 must stay finite, got inf"):
        solve(lambda x: x, y, batch_dims=1)


def test_nothing_to_solve_is_solved() -> None:
    assert solve(lambda x: x, torch.ones(0)).shape == (0,)
    assert solve(lambda x: x, torch.ones(0, 3), batch_dims=1).shape == (0, 3)


def test_a_negative_number_of_steps_is_refused() -> None:
    with pytest.raises(TypeError, match=r"conjugate_gradients: max_num_iters must be an integer"):
        conjugate_gradients(lambda x: x, torch.ones(2), max_num_iters=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"max_num_iters must be at least 0, got -1"):
        solve(lambda x: x, torch.ones(2), max_num_iters=-1)


def test_an_integer_right_hand_side_is_refused() -> None:
    with pytest.raises(TypeError, match=r"a floating or complex dtype, got torch\.int64"):
        conjugate_gradients(lambda x: x, torch.ones(2, dtype=torch.int64))


def test_a_right_hand_side_that_is_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match=r"y must be a torch\.Tensor, got <class 'list'>"):
        solve(lambda x: x, [1.0])  # type: ignore[arg-type]


def test_what_cannot_be_called_is_refused() -> None:
    wrong: Any = 3
    x = torch.ones(2)
    message = "conjugate_gradients: A must be an operator or a function, got 3"
    with pytest.raises(TypeError, match=message):
        conjugate_gradients(wrong, x)
    with pytest.raises(TypeError, match=message):
        conjugate_gradients(wrong, x.bfloat16())
    with pytest.raises(TypeError, match="preconditioner must be an operator or a function, got 3"):
        conjugate_gradients(torch.positive, x, preconditioner=wrong)


def test_a_singular_system_without_a_solution_is_refused_or_warned_of() -> None:
    diagonal = Diagonal(torch.tensor([1.0, 0.0, 2.0]), ("N",))
    with pytest.raises(ValueError, match=r"positive definite, got p\^H A p = 0 for a direction p"):
        conjugate_gradients(diagonal, torch.tensor([0.0, 1.0, 0.0]))
    with pytest.warns(ConvergenceWarning, match="A is singular or nearly so"):
        conjugate_gradients(diagonal, torch.ones(3))
    for solver in (lsqr, lsmr):
        expected = torch.tensor([1.0, 0.0, 0.5])
        torch.testing.assert_close(solver(diagonal, torch.ones(3)), expected)


@pytest.mark.parametrize(
    ("shapes", "rule"),
    [
        ((("M",), ("N",)), r"\(N\) -> \(M\) of sizes \(3,\) and \(2,\)"),
        ((("M",), ("N", "K")), r"\(N, K\) -> \(M\) of sizes \(3, 1\) and \(2,\)"),
        ((("...", "M"), ("...", "N")), r"sizes \(None, 3\) and \(None, 2\)"),
    ],
)
def test_an_operator_that_is_not_square_is_refused_with_advice(shapes: Any, rule: str) -> None:
    oshape, ishape = shapes
    sizes = {"M": 2, "N": 3, "K": 1}
    dims = [dim for dim in (*oshape, *ishape) if dim != "..."]
    A = Dense(torch.ones([sizes[dim] for dim in dims]), dims, ishape, oshape)
    with pytest.raises(ValueError, match=rule + r"; for least squares pass A.N and A.H\(y\), or"):
        conjugate_gradients(A, torch.ones(2))
