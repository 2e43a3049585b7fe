"""The loop of every solver.

A solver checks its options, makes its :class:`SolverSteps`, and follows them by :class:`Progress`.
"""

from __future__ import annotations

import inspect
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from linops_core.siblings import check_flags, check_integer

from ._checkpoint import Checkpoint
from ._checks import check_callable
from ._options import DEFAULTS, Checkpointed, Watching
from ._reports import ConvergenceWarning, Measured, Step, StopReason
from ._space import Space

FAR = 100.0  # A value above this multiple of its tolerance causes a warning.
_PATIENCE = 10  # Steps without a smaller move, at least, after which only rounding moves x.
_INSIDE = ("linops_solvers.", "linops_core.", "torch.")


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
            What was measured, such as a residual. See also :meth:`shown`.
        reasons : StopReason, None, or a list of these
            Why to stop, None to go on; of each problem of a batch.
        """

    @abstractmethod
    def result(self) -> Tensor:
        """Return the result so far, in memory into which later steps do not write."""

    def shown(self) -> Mapping[str, float]:
        """Return further values of the last step; by default there are none.

        They are computed only if there is a callback or a progress bar.
        """
        return {}

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


class MovingSteps(SolverSteps):
    """Steps that end when they move x no more."""

    smallest = math.inf
    """The smallest move so far."""
    n_moves = n_larger = 0
    """The number of all steps, and of those since the smallest move."""

    def reason_of_move(self, move: float, goal: float, noise: float) -> StopReason | None:
        """Return the reason to stop, given the norm of a move, its goal and its rounding.

        A move below its rounding goes on to a better x as long as moves become smaller: in half
        precision, vectors are in single precision, and A rounds in the same way in each step.
        """
        self.n_moves += 1
        self.n_larger = 0 if move < self.smallest else self.n_larger + 1
        self.smallest = min(move, self.smallest)
        if move + noise <= goal:
            return StopReason.CONVERGED
        is_still = not move or self.n_larger > max(_PATIENCE, self.n_moves // 4)
        return StopReason.ROUNDING if 4 * move <= noise and is_still else None


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
        kind = Watching if space is None else Checkpointed
        for name in options or ():
            if name not in kind.__annotations__:
                raise TypeError(f"{solver}() got an unexpected keyword argument {name!r}")
        given: dict[str, Any] = {**DEFAULTS, **(options or {})}
        self.solver, self.limit, self.callback = solver, max_num_iters, given["callback"]
        if self.callback is not None:
            check_callable(solver, "callback", self.callback)
        bar = given["tqdm_kwargs"]
        if not isinstance(bar, Mapping | None):
            raise TypeError(
                f"{solver}: tqdm_kwargs must be a mapping of options of tqdm, got {bar!r}; "
                "progress=True shows a bar with those of this package"
            )
        check_flags(solver, progress=given["progress"])
        self.tqdm_kwargs = {} if given["progress"] and bar is None else bar
        self.checkpoint: Checkpoint | None = None
        if space is not None and given["checkpoint"] is not None:
            files = given["checkpoint"], given["checkpoint_every"]
            self.checkpoint = Checkpoint(solver, *files, space.totals.processes)
        self.goals = dict(goals or {})
        """The tolerances of values; steps may change them. 0 is none."""
        self._warnings: list[str] = []

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
                is_watched = bar is not None or self.callback is not None
                if is_watched and (iteration or is_done):
                    with torch.no_grad():
                        values = {**values, **steps.shown()}
                if bar is not None and (iteration or is_done):
                    bar.set_postfix({k: f"{v:.2e}" for k, v in values.items()}, refresh=False)
                    bar.update(iteration - bar.n)
                if self.callback is not None and (iteration or is_done):
                    x = steps.result().detach()
                    self.callback(Step(self.solver, iteration, x, values, tuple(each)))
                    del x
                if is_done:
                    return steps.result()
                values, reasons = self._checked(steps.step())
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

    def _checked(self, measured: Measured) -> Measured:
        """Return what a step returned, if it is what the loop takes."""
        is_pair = isinstance(measured, tuple) and len(measured) == 2
        values, reasons = measured if is_pair else (None, None)
        each = reasons if isinstance(reasons, list) else [reasons]
        if not isinstance(values, Mapping) or any(
            not isinstance(reason, StopReason | None) for reason in each
        ):
            raise TypeError(
                f"{self.solver}: step must return a dict of numbers, and a StopReason, None, or a "
                f"list of these, got {measured!r}"
            )
        return values, reasons

    def _complain(self, values: Mapping[str, float]) -> None:
        """Warn if values are far from their tolerances when the largest number of steps is done."""
        missing = [name for name in self.goals if name not in values]
        if missing and self.limit:
            raise ValueError(
                f"{self.solver}: the values of the last step must have those with a tolerance in "
                f"goals, {[*self.goals]}, got none of {missing}"
            )
        far = self.limit and [
            f"{name} = {values[name]:.2g} for a tolerance of {goal:.2g}"
            for name, goal in self.goals.items()
            if goal and not values[name] <= FAR * goal  # a NaN is not, either
        ]
        if far:
            self.warn_once(
                f"{self.solver}: the result must be within its tolerance, got {', '.join(far)} "
                f"after {self.limit} steps; allow more steps, or give the tolerance 0 if you "
                "choose their number instead"
            )
