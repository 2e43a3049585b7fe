from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Dense, Diagonal
from linops_core.alg import CGStep, conjugate_gradients

QUIET = {"disable": True}


def positive(n: int, dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    """Return a Hermitian positive definite matrix and a right-hand side."""
    generator = torch.Generator().manual_seed(seed)
    half = torch.randn(n, n, dtype=dtype, generator=generator)
    matrix = half.mH @ half + 0.5 * torch.eye(n, dtype=dtype)
    return matrix, torch.randn(n, dtype=dtype, generator=generator)


def solve(A: Any, y: Tensor, **keywords: Any) -> Tensor:
    return conjugate_gradients(A, y, **{"tqdm_kwargs": QUIET, **keywords})


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


def steps(**keywords: Any) -> list[CGStep]:
    seen: list[CGStep] = []
    matrix = torch.diag(torch.arange(1.0, 9.0, dtype=torch.float64))
    y = torch.ones(8, dtype=torch.float64)
    solve(matrix.mv, y, callback=seen.append, **keywords)
    return seen


def test_it_stops_after_the_number_of_steps() -> None:
    assert [step.iteration for step in steps(max_num_iters=3, gtol=0, ltol=0)] == [1, 2, 3]
    assert steps(max_num_iters=0) == []


def test_it_stops_when_the_gradient_is_small() -> None:
    residuals = [step.residual for step in steps(max_num_iters=50, gtol=1e-2, ltol=0)]
    assert residuals[-1] <= 1e-2 < min(residuals[:-1])


def test_it_stops_when_the_loss_stands_still() -> None:
    losses = [step.loss for step in steps(max_num_iters=50, gtol=0, ltol=1e-3)]
    drops = [before - after for before, after in pairwise(losses)]
    assert drops[-1] <= 1e-3 * abs(losses[-1])
    assert all(drop > 1e-3 * abs(loss) for drop, loss in zip(drops[:-1], losses[1:-1], strict=True))


def test_a_step_reports_the_true_residual_and_loss() -> None:
    matrix, y = positive(5, torch.complex128, 0)

    def compare(step: CGStep) -> None:
        residual = matrix @ step.x - y
        loss = torch.vdot(step.x, matrix @ step.x) / 2 - torch.vdot(step.x, y)
        assert step.residual == pytest.approx(float(residual.norm() / y.norm()), abs=1e-9)
        assert step.loss == pytest.approx(loss.real.item(), rel=1e-9)

    guess = torch.randn(5, dtype=torch.complex128)
    solve(matrix.mv, y, x0=guess, callback=compare, gtol=1e-9, ltol=0)


def test_nothing_has_to_be_done_for_zero_and_for_the_solution() -> None:
    matrix, y = positive(3, torch.float64, 0)
    assert not solve(matrix.mv, torch.zeros(3, dtype=torch.float64)).any()
    solution = torch.linalg.solve(matrix, y)
    seen: list[CGStep] = []
    solve(matrix.mv, y, x0=solution, gtol=1e-9, callback=seen.append)
    assert not seen


def test_a_progress_bar_is_shown_unless_it_is_disabled(capsys: pytest.CaptureFixture[str]) -> None:
    matrix, y = positive(3, torch.float64, 0)
    conjugate_gradients(matrix.mv, y, tqdm_kwargs={"desc": "solving"})
    assert "solving" in capsys.readouterr().err
    conjugate_gradients(matrix.mv, y, tqdm_kwargs=QUIET)
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
    x = conjugate_gradients(
        A.mv, scale * torch.tensor([3.0, 4.0]), gtol=1e-6, ltol=0, tqdm_kwargs={"disable": True}
    )
    torch.testing.assert_close(x / scale, torch.ones(2))


def test_a_zero_tolerance_ends_at_the_precision_of_the_right_hand_side() -> None:
    steps: list[CGStep] = []
    A = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    conjugate_gradients(
        A.mv,
        torch.tensor([3.0, 4.0]),
        max_num_iters=1000,
        gtol=0,
        ltol=0,
        tqdm_kwargs={"disable": True},
        callback=steps.append,
    )
    assert len(steps) < 20


def test_an_integer_right_hand_side_is_refused() -> None:
    with pytest.raises(TypeError, match=r"a floating or complex dtype, got torch\.int64"):
        conjugate_gradients(lambda x: x, torch.ones(2, dtype=torch.int64))
