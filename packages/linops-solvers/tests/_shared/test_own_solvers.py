"""Solvers of users: a state and a step, with what the solvers of the library have."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Dense
from linops_solvers import (
    ConvergenceWarning,
    OperatorPair,
    Progress,
    Record,
    SolverSteps,
    Space,
    Step,
    StopReason,
)


class HeavyBall(SolverSteps):
    """Gradient steps with momentum, whose last step is in another object."""

    def __init__(self, pair: OperatorPair, y: Tensor) -> None:
        self._pair, self._y = pair, y
        self.x = torch.zeros_like(pair.adjoint(y))
        self.moved = Moved(self.x)
        self._target: Tensor | None = None

    def step(self) -> tuple[dict[str, float], StopReason | None]:
        if self._target is None:
            self._target = self._pair.adjoint(self._y)
        gradient = self._pair.adjoint(self._pair.forward(self.x)) - self._target
        self.moved.last = 0.3 * self.moved.last - 0.02 * gradient
        self.x = self.x + self.moved.last
        return {"gradient": self._pair.input.norm(gradient).item()}, None

    def result(self) -> Tensor:
        return self.x

    def fingerprint(self) -> dict[str, object]:
        return {"y": (self._pair.output, self._y), **self._pair.sketch(self.x)}

    def holders(self) -> dict[str, object]:
        return {"state": self, "moved": self.moved}

    def restored(self, reasons: Sequence[StopReason | None]) -> None:
        self._target = self._pair.adjoint(self._y)


class Moved:
    def __init__(self, x: Tensor) -> None:
        self.last = torch.zeros_like(x)


def heavy_ball(A: Dense, y: Tensor, **options: Any) -> Tensor:
    pair = OperatorPair("heavy_ball", A, None, y.dtype)
    progress = Progress("heavy_ball", 6, options, space=pair.input)
    return progress.follow(HeavyBall(pair, y))


def problem(seed: int) -> tuple[Dense, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weight, y = (
        torch.randn(n, dtype=torch.complex128, generator=generator) for n in ((5, 3), (5,))
    )
    return Dense(weight, ("M", "N"), ("N",), ("M",)), y


@given(st.integers(0, 2**16), st.integers(1, 6), st.integers(1, 3))
def test_one_that_is_interrupted_goes_on_to_the_same_bits(seed: int, end: int, every: int) -> None:
    A, y = problem(seed)
    whole, later = Record(), Record()
    x = heavy_ball(A, y, callback=whole)

    def interrupt(step: Step) -> None:
        if step.iteration == end:
            raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder:
        files = {"checkpoint": Path(folder) / "x.pt", "checkpoint_every": every}
        with pytest.raises(KeyboardInterrupt):
            heavy_ball(A, y, callback=interrupt, **files)
        assert torch.equal(heavy_ball(A, y, callback=later, **files), x)
        n_told = len(later.values["gradient"])
        assert later.values["gradient"] == whole.values["gradient"][-n_told:]
        with pytest.raises(ValueError, match=r"heavy_ball: .* got one that differs in y"):
            heavy_ball(A, 2 * y, **files)


def test_its_options_are_those_of_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    A, y = problem(0)
    heavy_ball(A, y, progress=True)
    assert "heavy_ball: 100%" in capsys.readouterr().err
    with pytest.raises(TypeError, match=r"heavy_ball\(\) got an unexpected keyword argument 'shw'"):
        heavy_ball(A, y, shw=True)


def test_the_adjoint_of_a_function_is_asked_for_when_it_is_needed() -> None:
    """Of a Hermitian function it is the function itself."""
    pair, x = OperatorPair("mine", torch.neg, None, torch.float64), torch.ones(2)
    assert torch.equal(pair.forward(x), -x)
    for needs_it in (pair.adjoint, pair.normal(), pair.sketch):
        with pytest.raises(TypeError, match="mine: the adjoint of a function must be given"):
            needs_it(x)
    assert torch.equal(OperatorPair("mine", torch.neg, torch.neg, x.dtype).adjoint(x), -x)


class Halved(SolverSteps):
    """x / 2 in each step."""

    def __init__(self, problem: dict[str, object] | None = None) -> None:
        self.x = torch.ones(2)
        if problem is not None:
            self.fingerprint = lambda: problem  # type: ignore[method-assign]

    def step(self) -> tuple[dict[str, float], None]:
        self.x = self.x / 2
        return {}, None

    def result(self) -> Tensor:
        return self.x


@pytest.mark.parametrize(
    ("problem", "error", "match"),
    [
        (None, NotImplementedError, "Halved: fingerprint must say which problem a checkpoint"),
        ({"tol": 1.0}, TypeError, r"halved: the fingerprint .* got no vector; write \(Space"),
        ({"y": torch.ones(2)}, TypeError, r"must have vectors as pairs .*, got \['y'\]"),
    ],
)
def test_a_checkpoint_of_no_problem_is_refused(
    problem: dict[str, object] | None, error: type[Exception], match: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=match):
        Progress("halved", 2, {"checkpoint": tmp_path / "x"}, space=Space()).follow(Halved(problem))
    assert Progress("halved", 2, space=Space()).follow(Halved(problem)).tolist() == [0.25, 0.25]


class Turned(SolverSteps):
    """x times a state, which is a number of any kind."""

    def __init__(self, state: Any) -> None:
        self.x, self.state = torch.ones(2, dtype=torch.complex128), state

    def step(self) -> tuple[dict[str, float], None]:
        self.state = self.state * self.state + self.state
        self.x = self.x * complex(self.state)
        return {"state": abs(self.state)}, None

    def result(self) -> Tensor:
        return self.x

    def fingerprint(self) -> dict[str, object]:
        return {"tol": np.float64(0.5), "y": (Space(), torch.ones(2))}


@pytest.mark.parametrize(
    "state",
    [
        0.5 + 0.25j,
        np.float64(0.5),
        np.float32(0.1),
        np.complex64(0.1 + 0.3j),
        np.int64(2),
        np.complex128(0.5j),
        2,
    ],
)
def test_numbers_of_every_kind_are_saved(state: Any, tmp_path: Path) -> None:
    def solve(limit: int, **options: Any) -> Tensor:
        return Progress("turned", limit, options, space=Space()).follow(Turned(state))

    def interrupt(step: Step) -> None:
        if step.iteration == 2:
            raise KeyboardInterrupt

    files = {"checkpoint": tmp_path / "x", "checkpoint_every": 1}
    with pytest.raises(KeyboardInterrupt):
        solve(4, callback=interrupt, **files)
    record = Record()
    assert torch.equal(solve(4, callback=record, **files), solve(4))
    assert len(record.values["state"]) == 3  # of the loaded step 2, and of 3 and 4


@pytest.mark.parametrize(
    ("state", "match"),
    [
        (np.ones(2), "turned: state must be a number, a string, a tensor or None .*, got ndarray"),
        ([1.0], "turned: state must be .*, got list; begin its name with an underscore if it is"),
        ({"a": (1.0,)}, r"turned: state\['a'\] must be a number, .*, got tuple"),
        (np.longdouble(0.5), "turned: state must be a number, .*, got longdouble"),
        (StopReason.CONVERGED, "turned: state must be a number, .*, got StopReason"),
        (torch.Generator(), "turned: state must be a number, .*, got Generator"),
        (Moved(torch.ones(2)), "turned: state must be a number, .*, got Moved"),
    ],
)
def test_a_state_that_cannot_be_saved_is_refused(state: Any, match: str, tmp_path: Path) -> None:
    start: Any = ({}, StopReason.CONVERGED)
    progress = Progress("turned", 4, {"checkpoint": tmp_path / "x"}, space=Space())
    with pytest.raises(TypeError, match=match):
        progress.follow(Turned(state), start)
    assert not (tmp_path / "x").exists()


class Growing:
    """A part of a solver that a user made, with a number that steps change."""

    def __init__(self) -> None:
        self.count = 0


Growing.__module__ = "linops_solvers.mine"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda steps: setattr(steps.part, "count", 1), "halved: part.count must not change, bec"),
        (lambda steps: setattr(steps, "part", Growing()), "part must not change, .*another Growi"),
        (
            lambda steps: setattr(steps, "f", lambda x: x),
            "f must not change, .* return its object",
        ),
        (lambda steps: steps.record(Step("", 1, steps.x, {})), r"record\.values must not change, "),
    ],
)
def test_a_part_that_changes_and_is_not_saved_is_refused(
    change: Callable[[Any], None], match: str, tmp_path: Path
) -> None:
    class WithPart(Halved):
        def step(self) -> tuple[dict[str, float], None]:
            change(self)
            return super().step()

    steps: Any = WithPart({"y": (Space(), torch.ones(2))})
    steps.part, steps.record, steps.f = Growing(), Record(), None
    progress = Progress("halved", 2, {"checkpoint": tmp_path / "x"}, space=Space())
    with pytest.raises(TypeError, match=match):
        progress.follow(steps)
    assert not (tmp_path / "x").exists()


class Measuring(SolverSteps):
    """A step that returns what it is given."""

    def __init__(self, measured: Any) -> None:
        self._measured = measured

    def step(self) -> Any:
        return self._measured

    def result(self) -> Tensor:
        return torch.zeros(2)


@pytest.mark.parametrize(
    ("measured", "error", "match"),
    [
        (None, TypeError, "mine: step must return a dict of numbers, .*, got None"),
        (({"gap": 1.0},), TypeError, "mine: step must return a dict of numbers"),
        ((1.0, None), TypeError, r"step must return a dict .* got \(1.0, None\)"),
        (({"gap": 1.0}, "done"), TypeError, "and a StopReason, None, or a list of these, got"),
        (({"gap": 1.0}, (None, None)), TypeError, r"a list of these, got .*\(None, None\)"),
        (({"gap": 1.0}, ["done"]), TypeError, "step must return"),
        (
            ({"other": 1.0}, None),
            ValueError,
            r"mine: the values of the last .*, got none of \['gap'\]",
        ),
    ],
)
def test_what_a_step_returns_is_checked(measured: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        Progress("mine", 2, goals={"gap": 0.1}).follow(Measuring(measured))


def test_a_value_that_is_nan_at_the_end_warns() -> None:
    with pytest.warns(ConvergenceWarning, match="mine: .* got gap = nan for a tolerance of 0.1"):
        Progress("mine", 2, goals={"gap": 0.1}).follow(Measuring(({"gap": math.nan}, None)))


def test_what_has_no_step_is_no_solver() -> None:
    with pytest.raises(TypeError, match="abstract"):
        SolverSteps()  # type: ignore[abstract]
