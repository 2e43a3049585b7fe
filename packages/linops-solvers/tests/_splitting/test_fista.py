from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import FFT, Dense, Diagonal, Sampling
from linops_solvers import (
    Record,
    StopReason,
    box,
    fista,
    l2_squared,
    no_penalty,
    proximal_gradient,
    soft_threshold,
)

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
seeds = st.integers(0, 2**16)


def randn(*shape: int, dtype: torch.dtype, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def objective(matrix: Tensor, y: Tensor, x: Tensor, weight: float) -> float:
    return float(0.5 * (matrix @ x - y).abs().square().sum() + weight * x.abs().sum())


@given(st.integers(1, 5), st.integers(1, 6), st.sampled_from(DTYPES), seeds, st.floats(0.05, 1.5))
def test_a_sparse_solution_satisfies_the_conditions_of_optimality(
    rows: int, columns: int, dtype: torch.dtype, seed: int, weight: float
) -> None:
    """The gradient is -w x / |x| where x is not 0, and no larger than w elsewhere."""
    matrix, y = randn(rows, columns, dtype=dtype, seed=seed), randn(rows, dtype=dtype, seed=1)
    A = Dense.from_einstr(matrix, "MN,N->M")
    double = torch.finfo(dtype).bits == 64
    x = fista(A, y, soft_threshold(weight), max_num_iters=3000, tol=1e-9 if double else 1e-6)
    slope = matrix.mH @ (y - matrix @ x)
    tolerance = (1e-3 if double else 1e-2) * (1 + float(matrix.norm()) ** 2)
    assert (slope.abs() <= weight + tolerance).all()
    inside = x.abs() > 1e-3
    torch.testing.assert_close(
        slope[inside], weight * x[inside] / x[inside].abs(), rtol=0, atol=tolerance
    )


@given(st.integers(1, 6), st.integers(1, 4), seeds)
def test_the_nearest_point_without_negative_entries_is_that_of_scipy(
    rows: int, columns: int, seed: int
) -> None:
    matrix = randn(rows, columns, dtype=torch.float64, seed=seed)
    y = randn(rows, dtype=torch.float64, seed=seed + 1)
    x = fista(matrix.mv, y, box(0), None, 20000, 1e-12, adjoint=matrix.mH.mv)
    _, wanted = scipy.optimize.nnls(matrix.numpy(), y.numpy())
    assert (x >= 0).all()
    assert float((matrix @ x - y).norm()) == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@given(st.integers(1, 5), st.sampled_from([torch.float64, torch.complex128]), seeds, st.booleans())
def test_a_ridge_has_its_closed_form_whatever_the_step_and_the_guess(
    n: int, dtype: torch.dtype, seed: int, is_step_given: bool
) -> None:
    matrix, y = randn(n + 1, n, dtype=dtype, seed=seed), randn(n + 1, dtype=dtype, seed=1)
    guess = randn(n, dtype=dtype, seed=2)
    step = float(torch.linalg.matrix_norm(matrix, 2)) ** -2 if is_step_given else None
    kept = y.clone(), guess.clone()
    x = fista(matrix.mv, y, l2_squared(0.5), guess, 5000, 1e-13, step=step, adjoint=matrix.mH.mv)
    wanted = torch.linalg.solve(matrix.mH @ matrix + 0.5 * torch.eye(n), matrix.mH @ y)
    torch.testing.assert_close(x, wanted, rtol=1e-7, atol=1e-7)
    assert torch.equal(y, kept[0]) and torch.equal(guess, kept[1])


@pytest.mark.parametrize("restart", [True, False])
def test_the_function_falls_as_the_theorem_says(restart: bool) -> None:
    """F(x_k) - F(x) <= 2 L |x_0 - x|^2 / (k + 1)^2; without restarts, and no later with them."""
    matrix = randn(20, 40, dtype=torch.float64, seed=0)
    y = randn(20, dtype=torch.float64, seed=1)
    L = float(torch.linalg.matrix_norm(matrix, 2)) ** 2
    best = fista(matrix.mv, y, soft_threshold(0.5), None, 20000, 1e-13, adjoint=matrix.mH.mv)
    least = objective(matrix, y, best, 0.5)
    seen: list[float] = []
    fista(
        matrix.mv,
        y,
        soft_threshold(0.5),
        None,
        100,
        0.0,
        step=1 / L,
        restart=restart,
        adjoint=matrix.mH.mv,
        callback=lambda step: seen.append(objective(matrix, y, step.x, 0.5)),
    )
    assert len(seen) == 100
    for k, value in enumerate(seen, 1):
        assert value - least <= 2 * L * float(best.norm()) ** 2 / (k + 1) ** 2


def test_restarts_are_worth_it() -> None:
    matrix = randn(30, 20, dtype=torch.float64, seed=0)
    y = randn(30, dtype=torch.float64, seed=1)
    counts = []
    for restart in (True, False):
        record = Record()
        keywords: dict[str, Any] = {"adjoint": matrix.mH.mv, "callback": record}
        fista(matrix.mv, y, no_penalty(), None, 5000, 1e-9, restart=restart, **keywords)
        assert record.reason is StopReason.CONVERGED
        counts.append(record.iterations)
    assert counts[0] < 0.7 * counts[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("exponent", [-70, -50, -20, 20, 50, 70])
def test_the_unit_of_the_data_does_not_matter(dtype: torch.dtype, exponent: int) -> None:
    matrix, y = randn(6, 4, dtype=dtype, seed=0), randn(6, dtype=dtype, seed=1)
    unit = 2.0**exponent
    x, scaled = (
        fista(matrix.mv, y * u, soft_threshold(0.5 * u), None, 300, 1e-6, adjoint=matrix.mH.mv)
        for u in (1.0, unit)
    )
    torch.testing.assert_close(scaled / unit, x, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("solve", [fista, proximal_gradient])
@pytest.mark.parametrize(
    ("scale", "of_y"), [(3, 3000), (100, 30000), (300, 60), (0.01, 1e-4)], ids=str
)
def test_a_solution_in_the_range_of_float16_is_found(
    solve: Callable[..., Tensor], scale: float, of_y: float
) -> None:
    """The first gradient, or A.N of it, is not."""
    A = Diagonal(torch.full((6,), scale, dtype=torch.float16), ("N",))
    y = torch.full((6,), of_y, dtype=torch.float16)
    torch.testing.assert_close(solve(A, y, no_penalty()), y / scale, rtol=2e-3, atol=0)


def test_an_image_is_found_from_few_samples() -> None:
    """A sparse signal in a third of its Fourier coefficients: the classic of compressed sensing."""
    generator = torch.Generator().manual_seed(0)
    image = torch.zeros(16, 16, dtype=torch.complex128)
    places = torch.randperm(256, generator=generator)[:8]
    image.view(-1)[places] = torch.randn(8, dtype=torch.complex128, generator=generator)
    A = Sampling.from_mask(torch.rand(16, 16, generator=generator) < 0.33) @ FFT(2)
    x = fista(A, A(image), soft_threshold(1e-4), None, 3000, 1e-8)
    torch.testing.assert_close(x, image, rtol=0, atol=2e-3)


def test_gradients_flow_through_the_steps() -> None:
    matrix = randn(4, 3, dtype=torch.complex128, seed=0)
    y = randn(4, dtype=torch.complex128, seed=1)

    def solution(matrix: Tensor, y: Tensor) -> Tensor:
        keywords: dict[str, Any] = {"adjoint": matrix.mH.mv, "step": 0.02}
        return fista(matrix.mv, y, soft_threshold(0.1), None, 5, 0.0, **keywords)

    assert torch.autograd.gradcheck(solution, (matrix.requires_grad_(), y.requires_grad_()))


def test_it_says_why_it_stopped() -> None:
    A = Diagonal(torch.tensor([1.0, 2.0, 3.0]), ("N",))
    y = torch.ones(3)
    for steps, tol, reason in (
        (0, 1e-3, StopReason.MAX_ITERATIONS),
        (2, 1e-9, StopReason.MAX_ITERATIONS),
        (500, 1e-3, StopReason.CONVERGED),
        (5000, 0.0, StopReason.ROUNDING),
    ):
        record = Record()
        fista(A, y, no_penalty(), None, steps, tol, callback=record)
        assert record.reason is reason
        assert record.iterations <= min(steps, 300)
    assert fista(A, torch.zeros(3), soft_threshold(), callback=record).tolist() == [0, 0, 0]


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_a_step_is_found_where_the_first_gradient_vanishes(scale: float) -> None:
    """The residual is 0 at the guess, and the right step not near 1."""
    A = Diagonal(scale * torch.tensor([1.0, 2.0], dtype=torch.float64), ("N",))
    guess = torch.ones(2, dtype=torch.float64)
    x = fista(A, A(guess), soft_threshold(scale**2), guess, 2000, 1e-12)
    np.testing.assert_allclose(x.numpy(), [0.0, 0.75], atol=1e-6)


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"y": torch.ones(2, dtype=torch.int64)}, TypeError, r"a floating or complex dtype, got"),
        ({"adjoint": None}, TypeError, r"the adjoint of a function must be given"),
        ({"step": 0.3}, ValueError, r"step must be at most 1 / \|A\|\^2, got 0.3 where the curv"),
        ({"step": -1.0}, ValueError, r"step must be positive and finite, got -1"),
        ({"max_num_iters": -1}, ValueError, r"max_num_iters must be at least 0, got -1"),
        ({"x0": torch.ones(3)}, ValueError, r"x0 must have the shape and dtype of the output of"),
        ({"x0": torch.ones(2).double()}, ValueError, r"x0 must have the shape and dtype of the"),
        (
            {"proximal": lambda z, t: z[:1]},
            ValueError,
            r"what proximal returns must have the shape and dtype of its argument",
        ),
        ({"adjoint": lambda x: x.double()}, ValueError, r"the output of A must have the shape"),
        ({"y": torch.tensor([1.0, float("inf")])}, ArithmeticError, r"must stay finite, got inf"),
        (
            {"proximal": lambda z, t: z * float("nan")},
            ArithmeticError,
            r"values must stay finite, got nan",
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
        "proximal": no_penalty(),
    }
    with pytest.raises(error, match=rf"fista: .*{message}"):
        fista(**{**given, **keywords})


def test_an_adjoint_that_changes_its_shape_is_refused() -> None:
    shapes = iter([2, 2, 3])
    with pytest.raises(ValueError, match=r"the output of the adjoint must have the shape"):
        fista(
            lambda x: x.clone(),
            torch.rand(2),
            no_penalty(),
            adjoint=lambda y: y.clone() if next(shapes) == 2 else torch.ones(3),
        )


@pytest.mark.parametrize("solve", [fista, proximal_gradient])
def test_a_step_applies_only_the_closed_form_of_the_normal(solve: Callable[..., Tensor]) -> None:
    calls: list[str] = []

    class Counted(Diagonal):
        @staticmethod
        def fn(linop: Diagonal, x: Tensor, /) -> Tensor:
            calls.append("A")
            return linop.weight * x

        @staticmethod
        def adj_fn(linop: Diagonal, x: Tensor, /) -> Tensor:
            calls.append("adjoint")
            return linop.weight.conj() * x

        @staticmethod
        def normal_fn(linop: Diagonal, x: Tensor, /) -> Tensor:
            calls.append("normal")
            return linop.weight.abs().square() * x

    def count(steps: int) -> Counter[str]:
        calls.clear()
        A = Counted(torch.tensor([1.0, 2.0, 3.0]), ("N",))
        solve(A, torch.ones(3), soft_threshold(0.1), max_num_iters=steps, tol=0, step=0.1)
        return Counter(calls)

    assert count(9) - count(2) == {"normal": 7}
