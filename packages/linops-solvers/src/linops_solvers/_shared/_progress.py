"""The loop of every solver: steps, callbacks, and the reason to stop.

A solver checks its options, and has a generator that yields an :data:`Iterate` for each step.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any, TypeAlias, TypeVar

from torch import Tensor
from tqdm.auto import tqdm

from ._checkpoint import Checkpoint

FAR = 100.0  # times its tolerance
_INSIDE = ("linops_solvers.", "linops_core.", "torch.")


class ConvergenceWarning(RuntimeWarning):
    """A solver returned a result that misses its tolerances by far.

    The precision of the dtype stopped it, or the result grew in directions in which the operator is
    almost zero. Or the largest number of steps is done, and a value is more than 100 times its
    tolerance; a tolerance of 0 switches this off.
    """

    __module__ = "linops_solvers"  # a traceback shows the name that users import


class StopReason(Enum):
    """Why a solver stopped; the better reasons come first."""

    CONVERGED = "the tolerance is reached"
    LEAST_SQUARES = "a least-squares solution is reached within the tolerance"
    STALLED = "a step changed no more than its tolerance"
    ROUNDING = "the precision allows no better result; A may be singular in this precision"
    ILL_CONDITIONED = "the estimated condition number exceeds its limit"
    MAX_ITERATIONS = "the largest number of iterations is done"

    def __str__(self) -> str:
        """Return the reason in words."""
        return self.value


@dataclass(frozen=True)
class Step:
    """The state of a solver after a step; callbacks get it.

    The last step has the reason to stop. If there is nothing to do, it is step 0.
    """

    solver: str
    """Name of the function."""
    iteration: int
    """Number of steps done."""
    x: Tensor
    """The result so far: a copy, without gradient."""
    values: Mapping[str, float]
    """Measured values by name; each solver documents them."""
    reasons: tuple[StopReason | None, ...] = (None,)
    """Why each problem of a batch stopped, None while it runs."""

    @property
    def reason(self) -> StopReason | None:
        """Why the solver stopped: the worst of ``reasons``, or None while it runs."""
        if None in self.reasons:
            return None
        order = list(StopReason)
        return max((reason for reason in self.reasons if reason), key=order.index, default=None)


Callback: TypeAlias = Callable[[Step], object]


@dataclass
class Record:
    """A callback that keeps the measured values and the reason to stop.

    Examples
    --------
    >>> import torch
    >>> from linops_solvers import conjugate_gradients
    >>> record = Record()
    >>> x = conjugate_gradients(lambda x: 2 * x, torch.ones(3), callback=record)
    >>> record.iterations, record.reason
    (1, <StopReason.CONVERGED: 'the tolerance is reached'>)
    >>> record.values["residual"]
    [0.0]
    >>> print(record)
    conjugate_gradients: the tolerance is reached after 1 step (residual 0, loss -0.75)
    """

    values: dict[str, list[float]] = field(default_factory=dict)
    """The values of each step, by name."""
    reasons: tuple[StopReason | None, ...] = (None,)
    """As in the last :class:`Step`."""
    iterations: int = 0
    """Number of steps done."""
    last: Step | None = None
    """The last step."""

    def __call__(self, step: Step) -> None:
        """Keep the values of the step, and the ``x`` of the last step only."""
        self.last = step
        self.iterations = step.iteration
        self.reasons = step.reasons
        for name, value in step.values.items():
            self.values.setdefault(name, []).append(value)

    @property
    def reason(self) -> StopReason | None:
        """Why the solver stopped; None if it has not stopped."""
        return None if self.last is None else self.last.reason

    def __str__(self) -> str:
        """Return the reason, the number of steps and the last values."""
        if self.last is None:
            return "no step was done"
        values = ", ".join(f"{name} {value:.3g}" for name, value in self.last.values.items())
        steps = f"{self.iterations} step{'s' * (self.iterations != 1)}"
        return f"{self.last.solver}: {self.reason or 'not yet stopped'} after {steps} ({values})"


State = TypeVar("State")
Reasons: TypeAlias = list[StopReason | None] | StopReason | None
Iterate: TypeAlias = tuple[State, Mapping[str, float], Reasons]
"""After a step: the state, the measured values, and the reasons to stop, if any."""


@dataclass(frozen=True)
class Progress:
    """The largest number of steps of a solver, its callback and its progress bar."""

    solver: str
    limit: int
    tqdm_kwargs: Mapping[str, object] | None = None
    callback: Callback | None = None
    checkpoint: Checkpoint | None = None
    goals: dict[str, float] = field(default_factory=dict)
    """The tolerances of values; the steps may change them. 0 is none."""
    warned: list[str] = field(default_factory=list)
    """The warning that was given, if any."""

    @property
    def is_watched(self) -> bool:
        """Whether there is a callback or a progress bar."""
        return self.tqdm_kwargs is not None or self.callback is not None

    def follow(
        self, steps: Iterator[Iterate[State]], shown: Callable[[State], Tensor], first: int = 0
    ) -> State:
        """Do the steps until there is a reason to stop; return the state.

        ``shown`` copies the result so far for the callback. ``first`` is the number of steps that
        were done before.
        """
        options: dict[str, Any] = {"desc": self.solver, "total": self.limit}
        bar = None if self.tqdm_kwargs is None else tqdm(**(options | dict(self.tqdm_kwargs)))
        with bar or nullcontext():
            for iteration in count(first):
                state, values, reasons = next(steps)
                each = [*reasons] if isinstance(reasons, list) else [reasons]
                saved = None if self.checkpoint is None else self.checkpoint.step
                if saved is not None:
                    if iteration == first:
                        values = saved["values"]
                        each = [name and StopReason[name] for name in saved["reasons"]]
                    iteration += saved["iteration"] - first
                if iteration == self.limit:
                    each = [reason or StopReason.MAX_ITERATIONS for reason in each]
                if StopReason.MAX_ITERATIONS in each:  # one iterate may be that of many steps
                    self.complain(values)
                is_done = None not in each
                if self.checkpoint is not None:
                    names = [reason and reason.name for reason in each]
                    self.checkpoint.keep(iteration, values, names)
                if bar is not None and (iteration or is_done):
                    bar.set_postfix({k: f"{v:.2e}" for k, v in values.items()}, refresh=False)
                    bar.update(iteration - bar.n)
                if self.callback is not None and (iteration or is_done):
                    x = shown(state).detach()
                    self.callback(Step(self.solver, iteration, x, values, tuple(each)))
                    del x
                if is_done:
                    return state
                del state  # free its memory before the next step
        raise AssertionError("itertools.count never ends")

    def warn_once(self, message: str) -> None:
        """Give a ConvergenceWarning, unless there was one for this solve."""
        if not self.warned:
            self.warned.append(message)
            warn(message)

    def complain(self, values: Mapping[str, float]) -> None:
        """Warn if values are far from their tolerances when the largest number of steps is done."""
        far = self.limit and [
            f"{name} = {values[name]:.2g} for a tolerance of {goal:.2g}"
            for name, goal in self.goals.items()
            if goal and values[name] > FAR * goal
        ]
        if far:
            self.warn_once(
                f"{self.solver}: the result must be within its tolerance, got {', '.join(far)} "
                f"after {self.limit} steps; allow more steps, or give the tolerance 0 if you "
                "choose their number instead"
            )


def warn(message: str) -> None:
    """Give a ConvergenceWarning with the line that calls this package."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals["__name__"].startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, ConvergenceWarning, stacklevel=level + 1)


def reason_of_both(
    found: tuple[float, float], goals: tuple[float, float], noises: tuple[float, float]
) -> StopReason | None:
    """Return the reason to stop, given two norms, their goals and their rounding."""
    triples = list(zip(found, goals, noises, strict=True))
    if not all(length <= goal for length, goal, _ in triples):
        return None
    if all(length + noise <= goal for length, goal, noise in triples):
        return StopReason.CONVERGED
    # Each is at its rounding or below its goal.
    if all(length + noise <= goal or length <= noise for length, goal, noise in triples):
        return StopReason.ROUNDING
    return None
