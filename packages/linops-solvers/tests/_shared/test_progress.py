"""The loop that all solvers share, and what it tells of each step."""

import inspect
import re
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import linops_solvers
from linops_core import Dense, Diagonal
from linops_solvers import (
    ConvergenceWarning,
    Record,
    Step,
    StopReason,
    admm,
    conjugate_gradients,
    douglas_rachford,
    estimate_diagonal,
    estimate_trace,
    fista,
    gmres,
    irls,
    l1_ball,
    l2_squared,
    lbfgs,
    lsmr,
    lsqr,
    minres,
    mlem,
    omp,
    operator_norm,
    osem,
    pdhg,
    power_method,
    proximal_gradient,
    richardson_lucy,
    soft_threshold,
    split_bregman,
    svd,
)
from linops_solvers._shared._options import with_options
from linops_solvers._shared._progress import Progress, SolverSteps
from linops_solvers._shared._reports import Measured, reason_of_both


class By(SolverSteps):
    """Steps that are made of two functions."""

    def __init__(self, step: Callable[[], Measured], result: Callable[[], Tensor]) -> None:
        self._step, self._result = step, result

    def step(self) -> Measured:
        return self._step()

    def result(self) -> Tensor:
        return self._result()


def follow(limit: int, least: float = 0.0) -> tuple[Tensor, list[Step]]:
    """Halve ones until they are small enough."""
    seen: list[Step] = []
    x = torch.ones(2)

    def measured() -> Measured:
        largest = float(x.abs().max())
        return {"largest": largest}, StopReason.CONVERGED if largest <= least else None

    def step() -> Measured:
        x.mul_(0.5)
        return measured()

    progress = Progress("halved", limit, {"callback": seen.append})
    return progress.follow(By(step, lambda: x.clone()), measured()), seen


def test_steps_are_told_from_the_first_on_and_end_where_there_is_a_reason() -> None:
    x, seen = follow(10, 0.25)
    assert x.tolist() == [0.25, 0.25]
    assert [step.iteration for step in seen] == [1, 2]
    assert [step.reason for step in seen] == [None, StopReason.CONVERGED]
    assert [step.values["largest"] for step in seen] == [0.5, 0.25]


def test_the_last_step_in_any_case_says_so() -> None:
    x, seen = follow(3)
    assert x.tolist() == [0.125, 0.125]
    assert seen[-1].reason is StopReason.MAX_ITERATIONS and len(seen) == 3


@pytest.mark.parametrize(
    ("limit", "least", "reason"),
    [(0, 0.0, StopReason.MAX_ITERATIONS), (5, 1.0, StopReason.CONVERGED)],
)
def test_a_start_that_is_the_end_is_told(limit: int, least: float, reason: StopReason) -> None:
    x, seen = follow(limit, least)
    assert x.tolist() == [1, 1]
    assert [(step.iteration, step.reason) for step in seen] == [(0, reason)]


def test_several_problems_go_on_until_the_last_has_stopped() -> None:
    reasons: list[Measured] = [
        ({}, [None, StopReason.CONVERGED]),
        ({}, [StopReason.STALLED, StopReason.CONVERGED]),
    ]
    record = Record()
    progress = Progress("solver", 9, {"callback": record})
    steps = By(iter(reasons).__next__, lambda: torch.ones(1))
    progress.follow(steps, ({}, [None, None]))
    assert (record.iterations, record.reason) == (2, StopReason.STALLED)


def test_no_result_is_kept_in_the_next_step() -> None:
    results: list[weakref.ref[Tensor]] = []

    def result() -> Tensor:
        x = torch.ones(1)
        results.append(weakref.ref(x))
        return x

    def step() -> Measured:
        assert all(known() is None for known in results)
        return {}, None

    Progress("solver", 3, {"callback": lambda step: None}).follow(By(step, result), ({}, None))
    assert len(results) == 4


@pytest.mark.parametrize(
    ("values", "goals", "noises", "reason"),
    [
        ((1.0, 1.0), (2.0, 2.0), (0.1, 0.1), StopReason.CONVERGED),
        ((1.0, 3.0), (2.0, 2.0), (0.1, 0.1), None),
        ((1.0, 1.0), (2.0, 2.0), (0.1, 1.5), StopReason.ROUNDING),
        ((1.0, 1.0), (1.1, 2.0), (0.5, 0.1), None),
    ],
)
def test_two_norms_are_proved_or_end_at_their_rounding(
    values: tuple[float, float],
    goals: tuple[float, float],
    noises: tuple[float, float],
    reason: StopReason | None,
) -> None:
    assert reason_of_both(values, goals, noises) is reason


def step(*reasons: StopReason | None, iteration: int = 3) -> Step:
    return Step("solver", iteration, torch.zeros(1), {"residual": 0.5}, reasons)


def test_the_reason_of_several_problems_is_the_worst() -> None:
    assert step(StopReason.CONVERGED, StopReason.STALLED).reason is StopReason.STALLED
    assert step(StopReason.MAX_ITERATIONS, StopReason.ROUNDING).reason is StopReason.MAX_ITERATIONS
    assert step(StopReason.CONVERGED, None).reason is None
    assert step().reason is None


def test_a_record_keeps_the_values_of_all_steps_and_the_last_reason() -> None:
    record = Record()
    assert record.reason is None and str(record) == "no step was done"
    record(step(None))
    assert str(record) == "solver: not yet stopped after 3 steps (residual 0.5)"
    record(step(StopReason.STALLED, iteration=4))
    assert record.values == {"residual": [0.5, 0.5]}
    assert (record.iterations, record.reasons) == (4, (StopReason.STALLED,))
    assert str(record).startswith("solver: a step changed no more than its tolerance after 4")


def test_a_record_of_a_second_solve_begins_anew() -> None:
    A, record = Diagonal(torch.logspace(0, 3, 9).double(), ("N",)), Record()
    for y in torch.eye(9).double().cumsum(0):
        conjugate_gradients(A, y, max_num_iters=40, gtol=1e-6, ltol=0, callback=record)
        assert len(record.values["residual"]) == record.iterations > 0
    record(step(None, iteration=1))  # of a solve that is interrupted
    record(step(None, iteration=1))
    assert record.values == {"residual": [0.5]} and record.iterations == 1


def test_the_x_of_a_step_is_a_copy_without_gradient() -> None:
    seen: list[Step] = []
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    x = conjugate_gradients(lambda x: weight * x, torch.ones(2), gtol=1e-6, callback=seen.append)
    kept = [one.x.clone() for one in seen]
    x.detach().zero_()
    assert x.requires_grad and not any(one.x.requires_grad for one in seen)
    assert all(torch.equal(one.x, before) for one, before in zip(seen, kept, strict=True))
    assert kept[-1].tolist() == pytest.approx([1.0, 0.5])


HILBERT = 1 / (torch.arange(6)[:, None] + torch.arange(6.0).double() + 1)
A = Dense.from_einstr(HILBERT, "MN,N->M")
Y = torch.ones(6, dtype=torch.float64)
L1 = soft_threshold(1e-3)
LIMITED: dict[str, Callable[[int, float], Any]] = {
    "conjugate_gradients": lambda n, tol: conjugate_gradients(A, Y, None, n, tol, 0),
    "conjugate_gradients of several": lambda n, tol: conjugate_gradients(
        lambda x: x @ HILBERT, torch.eye(6).double(), None, n, tol, 0, batch_dims=1
    ),
    "gmres": lambda n, tol: gmres(A, Y, max_num_iters=n, tol=tol),
    "minres": lambda n, tol: minres(A, Y, max_num_iters=n, tol=tol),
    "lsqr": lambda n, tol: lsqr(A, Y, max_num_iters=n, atol=tol, btol=tol),
    "lsmr": lambda n, tol: lsmr(A, Y, max_num_iters=n, atol=tol, btol=tol),
    "fista": lambda n, tol: fista(A, Y, L1, None, n, tol),
    "proximal_gradient": lambda n, tol: proximal_gradient(A, Y, L1, None, n, tol),
    "pdhg": lambda n, tol: pdhg(A, l2_squared(1.0, center=Y), L1, 0 * Y, n, eps_rel=tol),
    "admm": lambda n, tol: admm(A, Y, L1, None, None, n, eps_rel=tol),
    "split_bregman": lambda n, tol: split_bregman(A, Y, L1, None, None, n, eps_rel=tol),
    "douglas_rachford": lambda n, tol: douglas_rachford(
        l1_ball(1.0), l2_squared(1.0, center=Y), 9 * Y, n, tol
    ),
    "mlem": lambda n, tol: mlem(A, Y, None, n, tol),
    "osem": lambda n, tol: osem(A, Y, None, n, tol, subsets={"M": 2}),
    "irls": lambda n, tol: irls(A, Y, None, n, tol),
    "lbfgs": lambda n, tol: lbfgs(lambda x: (A(x) - Y).square().sum(), 0 * Y, n, tol=tol),
    "power_method": lambda n, tol: power_method(A, Y.cumsum(0), n, tol),
    "operator_norm": lambda n, tol: operator_norm(A, max_iters=n, tol=tol),
    "svd": lambda n, tol: svd(
        Dense.from_einstr(torch.arange(900.0).sin().reshape(30, 30) + torch.eye(30), "MN,N->M"),
        2,
        max_num_iters=n,
        tol=tol,
    ),
}


@pytest.mark.parametrize("solve", LIMITED.values(), ids=LIMITED)
def test_a_last_step_far_from_its_tolerance_warns_at_the_line_of_the_user(solve: Any) -> None:
    with pytest.warns(ConvergenceWarning, match="the result must be within its tol") as told:
        solve(1, 1e-9)
    assert [warning.filename for warning in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve(1, 0.0)  # the number of steps is what was chosen
        solve(1, 0.5)


@pytest.mark.parametrize("is_watched", [False, True])
def test_the_rule_of_the_loss_alone_warns_too(is_watched: bool) -> None:
    A = Diagonal(torch.logspace(0, 4, 64).double(), ("N",))
    y, record = torch.ones(64).double(), Record() if is_watched else None
    with pytest.warns(ConvergenceWarning, match=r"got decrease = .* for a tolerance of 1e-06"):
        conjugate_gradients(A, y, max_num_iters=2, gtol=0, ltol=1e-6, callback=record)


@pytest.mark.parametrize("limit", [1, 2, 5, 20])
def test_conjugate_gradients_warns_at_any_number_of_steps(limit: int) -> None:
    A = Diagonal(torch.logspace(0, 9, 64).double(), ("N",))
    with pytest.warns(ConvergenceWarning, match=f"got residual = .* after {limit} steps"):
        conjugate_gradients(A, torch.ones(64).double(), max_num_iters=limit, gtol=1e-6)


def test_a_solve_warns_once() -> None:
    A = Diagonal(torch.tensor([[1.0, 1e-9], [1.0, 1.0]]), ("B", "N"))
    y = torch.ones(2, 2)
    with pytest.warns(ConvergenceWarning) as told:
        conjugate_gradients(A, y, max_num_iters=2, gtol=1e-6, ltol=1e-9, batch_dims="B")
    assert len(told) == 1


@pytest.mark.parametrize(
    "solve",
    [
        lambda A, y: lsqr(A, y, max_num_iters=2, atol=1e-9, btol=1e-9),
        lambda A, y: lsmr(A, y, max_num_iters=9, atol=1e-9, btol=1e-9, conlim=2.0),
        lambda A, y: gmres(A, y, max_num_iters=2, tol=1e-9),
        lambda A, y: minres(A, y, max_num_iters=2, tol=1e-9),
        lambda A, y: conjugate_gradients(A, y, None, 2, 1e-9, implicit=True),
    ],
)
@pytest.mark.parametrize("has_weight", [False, True])
def test_a_solve_and_its_gradients_warn_once(solve: Any, has_weight: bool) -> None:
    weight = torch.nn.Parameter(HILBERT.clone(), requires_grad=has_weight)
    with pytest.warns(ConvergenceWarning) as told:
        x = solve(Dense.from_einstr(weight, "MN,N->M"), Y.clone().requires_grad_())
        for _ in range(2):
            x.sum().backward(retain_graph=True)
    assert [warning.filename for warning in told] == [__file__]


def test_the_warning_of_operator_norm_names_it() -> None:
    A = Diagonal(torch.linspace(1, 2, 9), ("N",))
    with pytest.warns(ConvergenceWarning, match="operator_norm: the result must"):
        operator_norm(A, max_iters=2, tol=1e-9)


MORE: dict[str, Callable[..., Any]] = {
    "conjugate_gradients": lambda **o: conjugate_gradients(A, Y, **o),
    "gmres": lambda **o: gmres(A, Y, **o),
    "minres": lambda **o: minres(A, Y, **o),
    "lsqr": lambda **o: lsqr(A, Y, **o),
    "lsmr": lambda **o: lsmr(A, Y, **o),
    "fista": lambda **o: fista(A, Y, L1, **o),
    "proximal_gradient": lambda **o: proximal_gradient(A, Y, L1, **o),
    "pdhg": lambda **o: pdhg(A, l2_squared(1.0, center=Y), L1, 0 * Y, **o),
    "admm": lambda **o: admm(A, Y, L1, **o),
    "split_bregman": lambda **o: split_bregman(A, Y, L1, **o),
    "douglas_rachford": lambda **o: douglas_rachford(l1_ball(1.0), L1, 9 * Y, **o),
    "mlem": lambda **o: mlem(A, Y, **o),
    "osem": lambda **o: osem(A, Y, subsets={"M": 2}, **o),
    "richardson_lucy": lambda **o: richardson_lucy(Y, HILBERT[0], **o),
    "irls": lambda **o: irls(A, Y, **o),
    "lbfgs": lambda **o: lbfgs(lambda x: (A(x) - Y).square().sum(), 0 * Y, **o),
    "omp": lambda **o: omp(A, Y, **o),
    "power_method": lambda **o: power_method(A, Y, **o),
    "operator_norm": lambda **o: operator_norm(A, **o),
    "svd": lambda **o: svd(A, 2, **o),
    "estimate_trace": lambda **o: estimate_trace(A, **o),
    "estimate_diagonal": lambda **o: estimate_diagonal(A, **o),
}
COUNTED = {"max_num_iters": 2}
COUNTS = {
    "power_method": {"max_iters": 2},
    "operator_norm": {"max_iters": 2},
    "estimate_trace": {"num_samples": 3},
    "estimate_diagonal": {"num_samples": 3},
}
WITHOUT_OBJECTIVE = {"gmres", "minres", "omp", "power_method", "operator_norm", "svd"} | {
    "estimate_trace",
    "estimate_diagonal",
}


@pytest.mark.filterwarnings("ignore::linops_solvers.ConvergenceWarning")
@pytest.mark.parametrize("solver", MORE)
def test_every_solver_shows_its_steps(solver: str, capsys: pytest.CaptureFixture[str]) -> None:
    record, options = Record(), COUNTS.get(solver, COUNTED)
    MORE[solver](progress=True, callback=record, **options)
    shown = capsys.readouterr().err
    assert {"split_bregman": "admm"}.get(solver, solver) in shown
    assert record.iterations
    if solver not in WITHOUT_OBJECTIVE:
        assert len(record.values["objective"]) == record.iterations and "objective=" in shown
    MORE[solver](**options)
    assert not capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::linops_solvers.ConvergenceWarning")
@pytest.mark.parametrize("solver", MORE)
def test_options_that_no_solver_has_are_refused_by_name(solver: str) -> None:
    name = {"split_bregman": "admm"}.get(solver, solver)
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'shw'"):
        MORE[solver](shw=True)
    with pytest.raises(TypeError, match="callback must be an operator or a function, got 'print'"):
        MORE[solver](callback="print")
    with pytest.raises(TypeError, match=r"tqdm_kwargs must be a mapping .*progress=True shows"):
        MORE[solver](tqdm_kwargs=True)
    parameters = inspect.signature(getattr(linops_solvers, solver)).parameters
    assert {"progress", "tqdm_kwargs", "callback"} <= {*parameters} and "watching" not in parameters
    if "checkpoint" not in parameters:
        with pytest.raises(TypeError, match="unexpected keyword argument 'checkpoint'"):
            MORE[solver](checkpoint="file")


@pytest.mark.parametrize("solver", MORE)
def test_help_says_what_every_parameter_is(solver: str) -> None:
    function = getattr(linops_solvers, solver)
    entries = re.findall(r"^(\w+(?:, \w+)*) : \S", function.__doc__, re.MULTILINE)
    names = [name for entry in entries for name in entry.split(", ")]
    parameters = inspect.signature(function).parameters
    assert [name for name in parameters if name not in names] == []
    assert len({*names}) == len(names) and "linops_solvers`" not in function.__doc__
    several_too = "lsqr lsmr fista proximal_gradient admm split_bregman mlem".split()
    several = "A : NamedLinop or function, or a sequence of them\n"
    assert (several in function.__doc__) is (solver in several_too)


def test_a_parameter_that_no_docstring_describes_is_named() -> None:
    def landweber(A: Any, y: Any, relaxation: float) -> None:
        """Solve by steps of one size."""

    with pytest.raises(TypeError, match="landweber: its docstring must describe 'relaxation'"):
        with_options()(landweber)


@pytest.mark.parametrize("solve", [lsqr, lsmr])
@pytest.mark.parametrize("damp", [0.0, 0.5])
def test_the_objective_of_least_squares_is_that_of_its_x(solve: Any, damp: float) -> None:
    matrix = torch.tensor([[1.0, 2.0], [3.0, 1.0], [0.0, 5.0]]).double()
    y, x0 = 1e3 * torch.tensor([1.0, -2.0, 4.0]).double(), torch.ones(2).double()
    seen: list[Step] = []
    solve(Dense.from_einstr(matrix, "MN,N->M"), y, x0, damp=damp, callback=seen.append)
    for one in seen:
        rest = (matrix @ one.x - y).square().sum() + damp**2 * (one.x - x0).square().sum()
        assert one.values["objective"] == pytest.approx(float(rest), rel=1e-6)
