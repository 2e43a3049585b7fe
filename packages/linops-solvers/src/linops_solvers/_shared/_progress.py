"""The loop of every solver: steps, callbacks, and the reason to stop.

A solver checks its options, makes its :class:`SolverSteps`, and follows them by :class:`Progress`.
"""

from __future__ import annotations

import inspect
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias, TypedDict, TypeVar

from torch import Tensor
from tqdm.auto import tqdm

from linops_core.siblings import check_integer

from ._checkpoint import Checkpoint, checkpoint_of
from ._checks import check_callable
from ._space import Space

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


Solver = TypeVar("Solver", bound=Callable[..., object])
Reasons: TypeAlias = list[StopReason | None] | StopReason | None
Measured: TypeAlias = tuple[Mapping[str, float], Reasons]
"""The values of a step, and the reasons to stop, if any."""


class Watching(TypedDict, total=False):
    """Options of all solvers, which show their steps."""

    progress: bool
    tqdm_kwargs: Mapping[str, object] | None
    callback: Callback | None


class Checkpointed(Watching, total=False):
    """Options of solvers that also continue from a file."""

    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int


_DEFAULTS = Checkpointed(
    progress=False, tqdm_kwargs=None, callback=None, checkpoint=None, checkpoint_every=10
)


def with_options(options: type) -> Callable[[Solver], Solver]:
    """Let ``help`` and editors show the options that a solver takes as ``**watching``."""

    def shown(solver: Solver) -> Solver:
        found = inspect.signature(solver)
        parameters = [*found.parameters.values()][:-1]
        for name, kind in options.__annotations__.items():
            kind, default = kind.__forward_arg__, _DEFAULTS[name]  # type: ignore[literal-required]
            parameters.append(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
                )
            )
        vars(solver)["__signature__"] = found.replace(parameters=parameters)
        return solver

    return shown


def reading_options(watching: Checkpointed) -> dict[str, object]:
    """Return the options that need values of tensors, so that a graph cannot have them."""
    return {name: watching.get(name) for name in [*_DEFAULTS][:-1]}


class SolverSteps(ABC):
    """One solve: its state, and how it goes on. Subclass it to write a solver.

    All that a step needs from the step before is in public attributes of this object. A checkpoint
    has those that are numbers, strings and tensors. Attributes with an underscore are constants, or
    memory that steps write into.
    """

    @abstractmethod
    def step(self) -> Measured:
        """Go on by one step.

        Returns
        -------
        values : mapping of str to float
            What was measured, such as a residual.
        reasons : StopReason, None, or a list of these
            Why to stop, None to go on; of each problem of a batch.
        """

    @abstractmethod
    def result(self) -> Tensor:
        """Return the result so far, in memory into which later steps do not write."""

    def fingerprint(self) -> Mapping[str, object]:
        """Return what tells this problem from others, for checkpoints.

        Returns
        -------
        mapping of str
            Numbers and strings, which must be equal when a solve continues; and pairs
            (:class:`Space`, tensor) of vectors, such as the data and what the operator makes of
            some vector, which must agree to rounding. The first vector has the dtype and the device
            of the problem.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: fingerprint must say which problem a checkpoint belongs to, "
            'got none; return the options and the vectors, as {"tol": tol, "y": (pair.output, y)}'
        )

    def holders(self) -> Mapping[str, object]:
        """Return the objects whose public attributes are the state: by default this one."""
        return {"state": self}

    def restored(self, reasons: Sequence[StopReason | None]) -> None:
        """Make what is not saved, after a checkpoint was loaded into the public attributes.

        ``reasons`` are those of the loaded step. By default there is nothing to do.
        """
        return None


class Progress:
    """The loop of a solver: its largest number of steps, callback, progress bar and checkpoints.

    Parameters
    ----------
    solver : str
        The name of the solver, for messages, steps and the progress bar.
    max_num_iters : int
        The largest number of steps.
    options : mapping, optional
        Those of ``progress``, ``tqdm_kwargs``, ``callback``, ``checkpoint`` and
        ``checkpoint_every`` that the user has given; see :mod:`linops_solvers`.
    goals : mapping of str to float, optional
        The tolerances of measured values. Steps may change them in ``goals``. A value that is above
        100 times its tolerance after the last step causes a :class:`ConvergenceWarning`, unless the
        tolerance is 0.
    space : Space, optional
        That of a vector of the problem. It knows the processes that write checkpoints together.
        Without it, ``checkpoint`` is refused.
    count : (str, int)
        The name of ``max_num_iters`` in messages, and its least value.

    Raises
    ------
    TypeError
        If an option is unknown or has a wrong type.
    ValueError
        If ``max_num_iters`` or ``checkpoint_every`` is too small.
    """

    def __init__(
        self,
        solver: str,
        max_num_iters: int,
        options: Mapping[str, object] | None = None,
        *,
        goals: Mapping[str, float] | None = None,
        space: Space | None = None,
        count: tuple[str, int] = ("max_num_iters", 0),
    ) -> None:
        check_integer(solver, count[0], max_num_iters, count[1])
        known = Watching if space is None else Checkpointed
        for name in options or ():
            if name not in known.__annotations__:
                raise TypeError(f"{solver}() got an unexpected keyword argument {name!r}")
        given: dict[str, Any] = {**_DEFAULTS, **(options or {})}
        self.solver, self.limit, self.callback = solver, max_num_iters, given["callback"]
        if self.callback is not None:
            check_callable(solver, "callback", self.callback)
        bar = given["tqdm_kwargs"]
        if not isinstance(bar, Mapping | None):
            raise TypeError(
                f"{solver}: tqdm_kwargs must be a mapping of options of tqdm, got {bar!r}; "
                "progress=True shows a bar with those of this package"
            )
        self.tqdm_kwargs = {} if given["progress"] and bar is None else bar
        self.checkpoint: Checkpoint | None = None
        if space is not None:
            files = given["checkpoint"], given["checkpoint_every"]
            self.checkpoint = checkpoint_of(solver, *files, space.totals.processes)
        self.goals = dict(goals or {})
        """The tolerances of values; steps may change them. 0 is none."""
        self._warnings: list[str] = []

    @property
    def is_watched(self) -> bool:
        """Whether there is a callback or a progress bar, so that values are shown."""
        return self.tqdm_kwargs is not None or self.callback is not None

    def follow(self, steps: SolverSteps, start: Measured = ({}, None)) -> Tensor:
        """Do steps until there is a reason to stop; return the result.

        ``start`` is measured before the first step. If there is a checkpoint, the steps continue
        from its newest state.
        """
        values, reasons = start
        iteration, checkpoint = 0, self.checkpoint
        if checkpoint is not None:
            problem = {"max_num_iters": int(self.limit), **steps.fingerprint()}
            saved = checkpoint.begin(problem, steps.holders())
            if saved is not None:
                iteration, values = saved["iteration"], saved["values"]
                reasons = [name and StopReason[name] for name in saved["reasons"]]
                steps.restored(reasons)
        options: dict[str, Any] = {"desc": self.solver, "total": self.limit}
        bar = None if self.tqdm_kwargs is None else tqdm(**(options | dict(self.tqdm_kwargs)))
        with bar or nullcontext():
            while True:
                each = reasons if isinstance(reasons, list) else [reasons]
                if iteration == self.limit:
                    each = [reason or StopReason.MAX_ITERATIONS for reason in each]
                    if StopReason.MAX_ITERATIONS in each:
                        self._complain(values)
                is_done = None not in each
                if checkpoint is not None:
                    checkpoint.keep(iteration, values, [reason and reason.name for reason in each])
                if bar is not None and (iteration or is_done):
                    bar.set_postfix({k: f"{v:.2e}" for k, v in values.items()}, refresh=False)
                    bar.update(iteration - bar.n)
                if self.callback is not None and (iteration or is_done):
                    x = steps.result().detach()
                    self.callback(Step(self.solver, iteration, x, values, tuple(each)))
                    del x
                if is_done:
                    return steps.result()
                values, reasons = steps.step()
                iteration += 1

    def again(self, max_num_iters: int | None = None) -> Progress:
        """Return the loop of a further solve for the same result, such as that of its gradient.

        It has no callback, bar and checkpoint, and all of them together warn once.
        """
        limit = self.limit if max_num_iters is None else max_num_iters
        further = Progress(self.solver, limit, goals=self.goals)
        further._warnings = self._warnings
        return further

    def warn_once(self, message: str) -> None:
        """Give a ConvergenceWarning with the line of the user, unless there was one before."""
        if self._warnings:
            return
        self._warnings.append(message)
        frame, level = inspect.currentframe(), 0
        while frame is not None and frame.f_globals["__name__"].startswith(_INSIDE):
            frame, level = frame.f_back, level + 1
        warnings.warn(message, ConvergenceWarning, stacklevel=level + 1)

    def _complain(self, values: Mapping[str, float]) -> None:
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


def reason_of(found: float, goal: float, noise: float, least: float = 0.0) -> StopReason | None:
    """Return the reason to stop, given a value, its goal, its rounding, and where no more helps."""
    if found + noise <= goal:
        return StopReason.CONVERGED
    return StopReason.ROUNDING if found <= max(noise, least) else None


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
