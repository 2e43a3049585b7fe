"""What all solvers tell of their steps, and why they stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from torch import Tensor


class ConvergenceWarning(RuntimeWarning):
    """A solver returned a result that is far from what its tolerances ask for.

    It is given where the precision of the dtype stopped the solver, or where the result grew in
    directions in which the operator is almost zero. A solver that only reached its largest number
    of steps gives none.
    """


class StopReason(Enum):
    """Why an iteration ended; the better reasons come first."""

    CONVERGED = "the tolerance is reached"
    LEAST_SQUARES = "a least-squares solution is reached within the tolerance"
    STALLED = "a step changed no more than its tolerance"
    ROUNDING = "the precision, to which A may be singular, allows no better"
    ILL_CONDITIONED = "the estimated condition number is past its limit"
    MAX_ITERATIONS = "the largest number of iterations is done"

    def __str__(self) -> str:
        """Return the reason in words."""
        return self.value


@dataclass(frozen=True)
class Step:
    """Where an iteration stands after a step: what the callback of every solver is given.

    The last step of a solver says why it stops. A solver that has nothing to do (a right-hand
    side of zero, a first guess that is the solution) reports one step, with number 0.
    """

    solver: str
    """Name of the function."""
    iteration: int
    """Number of steps done."""
    x: Tensor
    """The result so far: a copy, without gradient."""
    values: Mapping[str, float]
    """What the solver measures, by name; each solver says which in its docstring."""
    reasons: tuple[StopReason | None, ...] = (None,)
    """Why each of the independent problems stopped, None while it runs; one problem unless there
    are batches."""

    @property
    def reason(self) -> StopReason | None:
        """Why the iteration stopped: the worst of ``reasons``, or None while it goes on."""
        if None in self.reasons:
            return None
        order = list(StopReason)
        return max((reason for reason in self.reasons if reason), key=order.index, default=None)


Callback: TypeAlias = Callable[[Step], object]


@dataclass
class Record:
    """A callback that keeps what was measured, and why the solver stopped.

    Examples
    --------
    >>> import torch
    >>> from linops_core.alg import conjugate_gradients
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
    """What was measured at each step, by name."""
    reasons: tuple[StopReason | None, ...] = (None,)
    """As in the last :class:`Step`."""
    iterations: int = 0
    """Number of steps done."""
    last: Step | None = None
    """The last step."""

    def __call__(self, step: Step) -> None:
        """Keep the step's values; of its ``x`` only that of the last."""
        self.last = step
        self.iterations = step.iteration
        self.reasons = step.reasons
        for name, value in step.values.items():
            self.values.setdefault(name, []).append(value)

    @property
    def reason(self) -> StopReason | None:
        """Why the solver stopped; None if it did not (yet)."""
        return None if self.last is None else self.last.reason

    def __str__(self) -> str:
        """Return the reason, the number of steps and the last values."""
        if self.last is None:
            return "no step was done"
        values = ", ".join(f"{name} {value:.3g}" for name, value in self.last.values.items())
        steps = f"{self.iterations} step{'s' * (self.iterations != 1)}"
        return f"{self.last.solver}: {self.reason or 'not yet stopped'} after {steps} ({values})"
