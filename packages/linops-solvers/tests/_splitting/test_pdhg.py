from typing import Any

import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Dense, Diagonal
from linops_solvers import (
    Record,
    StopReason,
    l2_ball,
    l2_squared,
    no_penalty,
    pdhg,
    soft_threshold,
)
from linops_solvers._splitting import _pdhg

seeds = st.integers(0, 2**16)


def randn(*shape: int, dtype: torch.dtype, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@given(
    st.integers(1, 4),
    st.sampled_from([torch.float32, torch.float64, torch.complex64, torch.complex128]),
    seeds,
    st.booleans(),
)
def test_least_squares_have_their_closed_form(
    n: int, dtype: torch.dtype, seed: int, with_dual: bool
) -> None:
    matrix, y = randn(n + 2, n, dtype=dtype, seed=seed), randn(n + 2, dtype=dtype, seed=1)
    center = randn(n, dtype=dtype, seed=2)
    K = Dense.from_einstr(matrix, "MN,N->M")
    p0 = randn(n + 2, dtype=dtype, seed=3) if with_dual else None
    single = torch.finfo(dtype).bits == 32
    x = pdhg(
        K,
        l2_squared(1.0, y),
        l2_squared(0.5, center),
        torch.zeros(n, dtype=dtype),
        20000,
        p0=p0,
        eps_rel=1e-5 if single else 1e-9,
    )
    eye = torch.eye(n, dtype=dtype)
    wanted = torch.linalg.solve(matrix.mH @ matrix + 0.5 * eye, matrix.mH @ y + 0.5 * center)
    tolerance = 1e-3 if single else 1e-6
    torch.testing.assert_close(x, wanted, rtol=tolerance, atol=tolerance)


@settings(max_examples=8)
@given(st.integers(1, 3), st.integers(0, 3), seeds)
def test_the_least_sum_of_magnitudes_is_that_of_a_linear_program(
    rows: int, more: int, seed: int
) -> None:
    """min |x|_1 with A x = y, where x = u - v with u, v >= 0."""
    columns = rows + more
    matrix = randn(rows, columns, dtype=torch.float64, seed=seed)
    y = matrix @ randn(columns, dtype=torch.float64, seed=seed + 1)
    x = pdhg(
        matrix.mv,
        l2_ball(0.0, center=y),
        soft_threshold(),
        torch.zeros(columns, dtype=torch.float64),
        20000,
        adjoint=matrix.mH.mv,
        eps_rel=1e-6,
    )
    both = torch.cat([matrix, -matrix], dim=1).numpy()
    wanted = scipy.optimize.linprog([1.0] * 2 * columns, A_eq=both, b_eq=y.numpy())
    torch.testing.assert_close(matrix @ x, y, rtol=1e-4, atol=1e-4)
    assert float(x.abs().sum()) == pytest.approx(wanted.fun, rel=1e-3, abs=1e-3)


def test_a_jump_is_kept_and_lowered_by_total_variation() -> None:
    """The solution for two levels is known: each moves by w over its number of entries."""
    b = torch.tensor([0.0] * 4 + [5.0] * 2, dtype=torch.float64)
    D = (torch.eye(6, dtype=torch.float64).roll(1, 1) - torch.eye(6, dtype=torch.float64))[:5]
    x = pdhg(
        Dense.from_einstr(D, "MN,N->M"),
        soft_threshold(2.0),
        l2_squared(1.0, b),
        torch.zeros(6, dtype=torch.float64),
        5000,
        eps_rel=1e-9,
    )
    torch.testing.assert_close(x, torch.tensor([0.5] * 4 + [4.0] * 2, dtype=torch.float64))


@pytest.mark.parametrize("steps", [{"tau": 0.05}, {"sigma": 3.0}, {"tau": 0.5, "sigma": 0.5}])
def test_the_steps_do_not_change_the_solution(steps: Any) -> None:
    K = Diagonal(torch.tensor([1.0, 2.0], dtype=torch.float64), ("N",))
    y = torch.tensor([3.0, 1.0], dtype=torch.float64)
    record = Record()
    zeros = torch.zeros(2, dtype=torch.float64)
    x = pdhg(
        K, l2_squared(1.0, y), no_penalty(), zeros, 5000, eps_rel=1e-8, callback=record, **steps
    )
    torch.testing.assert_close(x, torch.tensor([3.0, 0.5], dtype=torch.float64))
    assert record.values["tau"][-1] * record.values["sigma"][-1] * 4 <= 1 + 1e-9


def test_steps_from_too_small_an_estimate_of_the_norm_become_shorter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_pdhg, "norm_of", lambda *args, **keywords: torch.tensor(0.3))
    matrix = randn(5, 4, dtype=torch.float64, seed=0)
    y = randn(5, dtype=torch.float64, seed=1)
    record = Record()
    x = pdhg(
        matrix.mv,
        l2_squared(1.0, y),
        l2_squared(0.1),
        torch.zeros(4, dtype=torch.float64),
        5000,
        adjoint=matrix.mH.mv,
        eps_rel=1e-9,
        callback=record,
    )
    eye = 0.1 * torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(x, torch.linalg.solve(matrix.mH @ matrix + eye, matrix.mH @ y))
    assert record.values["tau"][-1] < record.values["tau"][0]


@pytest.mark.parametrize("exponent", [-70, 70])
def test_the_unit_does_not_matter(exponent: int) -> None:
    matrix, y = randn(5, 3, dtype=torch.float32, seed=0), randn(5, dtype=torch.float32, seed=1)
    unit = 2.0**exponent
    x, scaled = (
        pdhg(
            matrix.mv,
            l2_squared(1.0, y * u),
            soft_threshold(0.3 * u),
            torch.zeros(3),
            2000,
            adjoint=matrix.mH.mv,
        )
        for u in (1.0, unit)
    )
    torch.testing.assert_close(scaled / unit, x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("exponent", [-10, 10])
@pytest.mark.parametrize("has_rows", [True, False])
def test_the_unit_of_the_operator_does_not_change_the_steps(exponent: int, has_rows: bool) -> None:
    """Of a sum of squares and a penalty, over all of K or over an operator of its own."""
    matrix, y = randn(8, 5, dtype=torch.float64, seed=0), randn(8, dtype=torch.float64, seed=1)
    rough = torch.eye(5, dtype=torch.float64).diff(dim=0)
    results = []
    for unit in (1.0, 2.0**exponent):
        record = Record()
        A = Dense.from_einstr(unit * matrix, "MN,N->M")
        fit, penalty = l2_squared(1.0, unit * y), soft_threshold(0.3 * unit**2)
        zeros = torch.zeros(5, dtype=torch.float64)
        if has_rows:
            D = Dense.from_einstr(rough, "MN,N->M")
            x = pdhg([A, D], [fit, penalty], no_penalty(), zeros, 2000, callback=record)
        else:
            x = pdhg(A, fit, penalty, zeros, 2000, callback=record)
        assert record.reason is StopReason.CONVERGED
        results.append((record.iterations, x))
    assert results[0][0] == results[1][0] <= 200
    torch.testing.assert_close(results[0][1], results[1][1])


@settings(max_examples=settings().max_examples // 2)
@given(seeds, st.floats(-3, 3))
def test_default_steps_end_soon_in_any_unit(seed: int, decades: float) -> None:
    """Least squares with a sum of magnitudes: steps of equal sizes took thousands."""
    generator = torch.Generator().manual_seed(seed)
    U, _, V = torch.linalg.svd(torch.randn(30, 20, dtype=torch.float64, generator=generator), False)
    matrix = (U * torch.logspace(0, -1, 20, dtype=torch.float64)) @ V * 10**decades
    truth = torch.randn(20, dtype=torch.float64, generator=generator)
    y = matrix @ (truth * (torch.rand(20, generator=generator) < 0.3))
    weight, record = 0.05 * float((matrix.T @ y).abs().max()), Record()
    zeros = torch.zeros(20, dtype=torch.float64)
    maps = l2_squared(1.0, y), soft_threshold(weight)
    pdhg(matrix.mv, *maps, zeros, 600, adjoint=matrix.T.mv, callback=record)
    assert record.reason is StopReason.CONVERGED


def test_a_constraint_alone_is_met() -> None:
    """Without the extrapolation the iteration would go round the saddle point for ever."""
    K = Diagonal(torch.tensor([1.0, 2.0], dtype=torch.float64), ("N",))
    y = torch.tensor([3.0, 1.0], dtype=torch.float64)
    zeros = torch.zeros(2, dtype=torch.float64)
    x = pdhg(K, l2_ball(0.0, center=y), no_penalty(), zeros, 3000, eps_rel=0, eps_abs=1e-9)
    torch.testing.assert_close(x, torch.tensor([3.0, 0.5], dtype=torch.float64))


def test_the_conditions_of_optimality_are_those_that_it_reports() -> None:
    """With f = |. - y|^2 / 2 and g = w |.|^2 / 2 they are p + y - K x and w x + K^H p."""
    matrix = randn(5, 3, dtype=torch.complex128, seed=0)
    y = randn(5, dtype=torch.complex128, seed=1)
    duals: list[Tensor] = []

    def adjoint(p: Tensor) -> Tensor:
        duals.append(p.clone())
        return matrix.mH @ p

    record = Record()
    x = pdhg(
        matrix.mv,
        l2_squared(1.0, y),
        l2_squared(0.5),
        torch.zeros(3, dtype=torch.complex128),
        7,
        sigma=0.03,
        adjoint=adjoint,
        callback=record,
    )
    p = duals[-1]
    primal, dual = 0.5 * x + matrix.mH @ p, p + y - matrix @ x
    assert record.values["primal"][-1] == pytest.approx(float(primal.norm()))
    assert record.values["dual"][-1] == pytest.approx(float(dual.norm()))


def test_it_stops_when_both_conditions_of_optimality_hold() -> None:
    """With f = |. - y|^2 / 2 and g = w |.|^2 / 2 the two vectors can be computed from x and p."""
    matrix = randn(5, 3, dtype=torch.float64, seed=0)
    y = randn(5, dtype=torch.float64, seed=1)
    zeros = torch.zeros(3, dtype=torch.float64)
    keywords: dict[str, Any] = {"adjoint": matrix.mH.mv}
    f, g = l2_squared(1.0, y), l2_squared(0.5)
    for steps, eps_rel, reason in (
        (0, 1e-3, StopReason.MAX_ITERATIONS),
        (5, 1e-9, StopReason.MAX_ITERATIONS),
        (5000, 1e-3, StopReason.CONVERGED),
        (20000, 0.0, StopReason.ROUNDING),
    ):
        record = Record()
        x = pdhg(matrix.mv, f, g, zeros, steps, eps_rel=eps_rel, callback=record, **keywords)
        assert record.reason is reason
        if reason is StopReason.CONVERGED:
            norm = float(torch.linalg.matrix_norm(matrix, 2))
            assert record.values["dual"][-1] <= eps_rel * norm * float(x.norm())
            slope = float((matrix.mH @ (matrix @ x - y) + 0.5 * x).norm())
            dual = norm * record.values["dual"][-1]
            assert slope <= record.values["primal"][-1] + dual + 1e-12
    record = Record()
    pdhg(matrix.mv, f, g, zeros, eps_rel=0, eps_abs=1e-3, callback=record, **keywords)
    assert record.reason is StopReason.CONVERGED
    assert record.values["primal"][-1] <= 1e-3 * 3**0.5
    assert record.values["dual"][-1] <= 1e-3 * 5**0.5


def test_gradients_flow_through_the_steps() -> None:
    matrix = randn(3, 2, dtype=torch.complex128, seed=0)
    y = randn(3, dtype=torch.complex128, seed=1)
    zeros = torch.zeros(2, dtype=torch.complex128)

    def solution(matrix: Tensor, y: Tensor) -> Tensor:
        keywords: dict[str, Any] = {"adjoint": matrix.mH.mv, "tau": 0.1, "sigma": 0.1}
        return pdhg(matrix.mv, l2_squared(1.0, y), soft_threshold(0.1), zeros, 4, **keywords)

    assert torch.autograd.gradcheck(solution, (matrix.requires_grad_(), y.requires_grad_()))


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"x0": torch.ones(2, dtype=torch.int64)}, TypeError, r"x0 must be of a floating or comp"),
        ({"adjoint": None}, TypeError, r"the adjoint of a function must be given"),
        ({"tau": 0.0}, ValueError, r"tau must be positive and finite, got 0"),
        ({"sigma": float("inf")}, ValueError, r"sigma must be positive and finite, got inf"),
        (
            {"tau": 1.0, "sigma": 1.0},
            ValueError,
            r"tau and sigma must satisfy tau sigma \|K\|\^2 <= 1, got 1 and 1 for a norm of",
        ),
        ({"max_num_iters": -1}, ValueError, r"max_num_iters must be at least 0, got -1"),
        ({"p0": torch.ones(3)}, ValueError, r"p0 must have the shape and dtype of the output of K"),
        (
            {"proximal_f": lambda z, t: z.double()},
            ValueError,
            r"what proximal_f returns must have the shape and dtype of its argument",
        ),
        (
            {"proximal_g": lambda z, t: z[:1]},
            ValueError,
            r"what proximal_g returns must have the shape and dtype of its argument",
        ),
        (
            {"proximal_g": lambda z, t: z * float("nan")},
            ArithmeticError,
            r"values must stay finite, got nan",
        ),
    ],
)
def test_what_is_no_such_problem_is_refused(
    keywords: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {
        "K": lambda x: 2 * x,
        "adjoint": lambda x: 2 * x,
        "x0": torch.tensor([1.0, 3.0]),
        "proximal_f": l2_squared(),
        "proximal_g": l2_squared(),
    }
    with pytest.raises(error, match=rf"pdhg: .*{message}"):
        pdhg(**{**given, **keywords})


def test_steps_that_only_turn_out_to_be_too_long_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_pdhg, "norm_of", lambda *args, **keywords: torch.tensor(0.3))
    K = Diagonal(torch.tensor([1.0, 2.0]), ("N",))
    with pytest.raises(ValueError, match=r"tau sigma \|K\|\^2 <= 1, got 1 and 1 for a norm of"):
        pdhg(K, l2_squared(), l2_squared(1.0, 3.0), torch.ones(2), tau=1.0, sigma=1.0)


def test_an_adjoint_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"operator_norm|power_method|the output of the adjoint"):
        pdhg(
            lambda x: x.clone(),
            no_penalty(),
            no_penalty(),
            torch.ones(2),
            tau=1.0,
            sigma=1.0,
            adjoint=lambda x: torch.ones(3),
        )


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e100])
@pytest.mark.parametrize("is_dual", [False, True])
def test_it_ends_at_zero_from_any_start(scale: float, is_dual: bool) -> None:
    """There x and p fall for ever, and their norms of a step show no scale."""
    K = Dense.from_einstr(randn(4, 3, dtype=torch.float64, seed=0), "MN,N->M")
    x0, p0 = (scale * randn(n, dtype=torch.float64, seed=n) for n in (3, 4))
    start: dict[str, Any] = {"x0": 0 * x0, "p0": p0} if is_dual else {"x0": x0}
    for map_of_g in (soft_threshold(0.1 * scale), l2_squared(0.1)):
        record = Record()
        x = pdhg(K, l2_squared(1.0), map_of_g, **start, callback=record)
        assert record.reason is StopReason.CONVERGED and record.iterations < 200
        assert float(x.norm()) <= 1e-2 * scale
