"""What a solver reports: its steps, why it stopped, and a warning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from torch import Tensor


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

    If it is used for a second solve, it begins anew.

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
    conjugate_gradients: the tolerance is reached after 1 step (residual 0, objective -0.75)
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
        if self.reason is not None or step.iteration <= self.iterations:  # it is of another solve
            self.values = {}
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


Reasons: TypeAlias = list[StopReason | None] | StopReason | None
Measured: TypeAlias = tuple[Mapping[str, float], Reasons]
"""The values of a step, and the reasons to stop, if any."""


def reason_of(value: float, goal: float, noise: float) -> StopReason | None:
    """Return the reason to stop, given a value, its goal and its rounding."""
    if value + noise <= goal:
        return StopReason.CONVERGED
    return StopReason.ROUNDING if value <= noise else None


def reason_of_both(
    values: tuple[float, float], goals: tuple[float, float], noises: tuple[float, float]
) -> StopReason | None:
    """Return the reason to stop, given two norms, their goals and their rounding."""
    triples = list(zip(values, goals, noises, strict=True))
    if not all(value <= goal for value, goal, _ in triples):
        return None
    if all(value + noise <= goal for value, goal, noise in triples):
        return StopReason.CONVERGED
    # Each is at its rounding or below its goal.
    if all(value + noise <= goal or value <= noise for value, goal, noise in triples):
        return StopReason.ROUNDING
    return None
