"""Shared by GMRES and MINRES: the residual computed anew, reasons to stop, gradients."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from linops_core import NamedLinop
from linops_core.siblings import check_real, check_vector, is_differentiated

from .._shared._checks import (
    Operator,
    check_complex_linear,
    check_finite,
    check_like,
    check_scale,
    check_square,
)
from .._shared._options import Watching
from .._shared._precision import (
    OperatorPair,
    at_least_single,
    in_given_precision,
    in_own_space,
    rounding_of,
)
from .._shared._products import is_moderate
from .._shared._progress import Progress, SolverSteps
from .._shared._reports import StopReason
from .._shared._space import norms_of, spaces_of
from ._implicit import attach_gradient, has_gradient


class SquareSystem:
    """A x = y in a unit in which y is near 1, with the residual of x as computed anew."""

    def __init__(self, owner: str, A: Operator, y: Tensor, x0: Tensor | None, tol: float) -> None:
        check_complex_linear(owner, A, "the basis of its powers is a complex one")
        self.owner, self.tol, self.dtype = owner, tol, y.dtype
        self.applied = in_own_space(owner, A, y.dtype)
        self.space, _ = spaces_of(owner, A)
        residual = (
            at_least_single(y)
            if x0 is None
            else at_least_single(y) - self.applied(at_least_single(x0))
        )
        check_like(owner, "the output of A", residual, "y", at_least_single(y))
        self.unit = self.space.unit_of(owner, at_least_single(y), residual)
        self.y, self.residual = at_least_single(y) / self.unit, residual / self.unit
        self.x = torch.zeros_like(self.y) if x0 is None else at_least_single(x0) / self.unit
        self.norm_of_y, self.misfit, self.norm_of_x = self.norms(self.y, self.residual, self.x)
        self.norm_of_y = self.norm_of_y or self.misfit
        self.unit_of_A = 0.0
        """The unit of A, once it has been applied to a vector near 1."""
        self.norm = 0.0
        """The largest |A v| / |v| so far, in the unit of A."""
        self.complaint: str | None = None
        """Why x is not a solution although more steps do not help."""

    def forward(self, x: Tensor) -> Tensor:
        """Return A x in the unit of A, which the first x shows: it is near 1."""
        image = self.applied(x)
        if not self.unit_of_A:
            unit = self.space.unit_of(self.owner, image, is_output=True)
            check_scale(self.owner, unit, self.dtype)
            self.unit_of_A = 1.0 if is_moderate(unit) else unit
            self.x.mul_(self.unit_of_A)  # steps may hold it already
            self.norm_of_x *= self.unit_of_A
        return image if self.unit_of_A == 1 else image / self.unit_of_A

    def norms(self, *vectors: Tensor) -> list[float]:
        """Return the norms of vectors, safe at any scale."""
        return norms_of(self.owner, (self.space, vectors))

    def note_norm(self, norm: float) -> None:
        """Raise the estimate of |A| to |A v| of a unit vector v."""
        self.norm = max(self.norm, check_finite(self.owner, norm, self.dtype))

    def values(self, misfit: float) -> dict[str, float]:
        """Return the values of a step, given the norm of the residual."""
        return {"residual": misfit / (self.norm_of_y or 1.0)}

    def reason_at_start(self) -> StopReason | None:
        """Return the reason to stop before the first step, or None."""
        return StopReason.CONVERGED if self.misfit <= self.tol * self.norm_of_y else None

    @property
    def goal(self) -> float:
        """The norm of a residual at which it is computed anew."""
        goal = self.tol * self.norm_of_y
        return max(goal - self._noise_of(self.norm_of_x), 0.5 * goal)

    def _noise_of(self, norm_of_x: float) -> float:
        """Return a bound of the rounding of the residual of an x of this norm."""
        return rounding_of(self.dtype) * (self.norm * norm_of_x + self.norm_of_y)

    def take(self, x: Tensor) -> tuple[float, float]:
        """Take x if its residual is smaller; return its residual, and a bound of the rounding."""
        residual = self.y - self.forward(x)
        misfit, norm_of_x = self.norms(residual, x)
        if misfit < self.misfit:
            self.x, self.residual, self.misfit, self.norm_of_x = x, residual, misfit, norm_of_x
        return misfit, self._noise_of(norm_of_x)

    def moved_to(self, x: Tensor, misfit_by_recurrence: float) -> StopReason | None:
        """Take x if its residual, computed anew, is smaller; return the reason to stop, or None."""
        before = self.misfit
        misfit, noise = self.take(x)
        if misfit == self.misfit and misfit + noise <= self.tol * self.norm_of_y:
            return StopReason.CONVERGED
        if noise < misfit < (1 - 1e-6) * before:
            return None
        coarse = max(self.tol, math.sqrt(torch.finfo(self.dtype).eps)) * self.norm_of_y
        if misfit > noise or self.misfit > coarse:
            self.complain()
        is_rounding = misfit <= noise or misfit_by_recurrence < 0.5 * misfit
        return StopReason.ROUNDING if is_rounding else StopReason.STALLED

    def complain(self) -> None:
        """Note the warning for users who do not look at the reason."""
        self.complaint = (
            f"{self.owner}: the residual |A x - y| must fall to tol |y|, {self.tol:.2g} |y|, "
            f"got {self.misfit / self.norm_of_y:.2g} |y|, and more steps do not help in "
            f"{self.dtype}: A may be singular and y out of its range, or restart too low; "
            "lsqr solves least squares"
        )

    def settled(self, x: Tensor, misfit_by_recurrence: float) -> StopReason | None:
        """Take x of a Hermitian A; return the reason to stop, which may be LEAST_SQUARES."""
        reason = self.moved_to(x, misfit_by_recurrence)
        if reason is StopReason.CONVERGED:
            return reason
        (slope,) = self.norms(self.forward(self.residual))
        if slope + self.norm * self._noise_of(self.norm_of_x) <= self.tol * self.norm * self.misfit:
            self.complain()
            return StopReason.LEAST_SQUARES
        return reason

    def result(self, x: Tensor) -> Tensor:
        """Return x in the unit and dtype of the caller."""
        unit = self.unit / (self.unit_of_A or 1.0)
        return in_given_precision(self.owner, x, self.dtype, unit, self.space, of_y=self.unit)


class SquareSteps(SolverSteps):
    """The steps of a system, which has the last x whose residual was computed anew."""

    system: SquareSystem

    @abstractmethod
    def x(self) -> Tensor:
        """Return x so far."""

    def result(self) -> Tensor:
        """Return x in the unit of y."""
        return self.system.result(self.x())


def solution_with_gradient(
    owner: str,
    method: Callable[[SquareSystem, Operator | None], SquareSteps],
    operators: tuple[Operator, Operator | None, Operator | None],
    y: Tensor,
    x0: Tensor | None,
    max_num_iters: int,
    tol: float,
    watching: Watching,
) -> Tensor:
    """Return the solution, with the gradients of the exact solution.

    The operators are A, its adjoint, and a preconditioner.
    """
    A, adjoint, preconditioner = operators
    check_vector(owner, "y", y)
    check_square(owner, A, "lsqr(A, y) solves least squares")
    tol = check_real(owner, "tol", tol, 0)
    if x0 is not None:
        check_like(owner, "x0", x0, "y", y)

    progress = Progress(owner, max_num_iters, watching, goals={"residual": tol})

    def solve(
        A: Operator, y: Tensor, x0: Tensor | None, M: Operator | None, progress: Progress
    ) -> tuple[Tensor, SquareSystem]:
        system = SquareSystem(owner, A, y, x0, tol)
        steps = method(system, M)
        start = system.values(system.misfit), system.reason_at_start()
        progress.follow(steps, start)
        if (x := steps.x()) is not system.x:  # only the recurrence has said its residual
            system.take(x)
        return system.result(system.x), system

    with torch.no_grad():
        x, system = solve(A, y, x0, preconditioner, progress)
    complaint = system.complaint
    if complaint is not None:
        progress.warn_once(complaint)
    if not (torch.is_grad_enabled() or is_differentiated()):
        return x
    defect = y - A(x)
    if not has_gradient(owner, defect):
        return x
    pair = OperatorPair(owner, A, adjoint, y.dtype)
    if adjoint is None and not isinstance(A, NamedLinop):
        pair.adjoint(y)  # raises its error here, because in the backward pass it would come late
    _, back = pair.given

    def to_y(gradient: Tensor) -> tuple[Tensor, str | None]:
        z, other = solve(back, gradient, None, None, progress.again())
        return z, other.complaint

    return attach_gradient(x, defect, to_y, owner, (A, back), complaint)
