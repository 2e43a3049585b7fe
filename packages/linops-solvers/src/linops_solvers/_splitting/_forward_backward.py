"""Proximal gradient steps, with momentum or without."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .._proximals._proximal import reusable
from .._shared._adjoint_check import check_adjoint
from .._shared._checks import (
    check_like,
    check_output,
    check_unchanged,
    checked_number,
    version_of,
)
from .._shared._precision import OperatorPair, rounding_of
from .._shared._products import free, scaled_sum
from .._shared._progress import Checkpointed, Measured, Progress, reason_of
from ._problem import PenalizedProblem


@dataclass
class _State:
    """The values that a step needs from the step before."""

    x: Tensor
    image: Tensor
    z: Tensor
    z_image: Tensor
    step: float
    age: float = 1.0


class ForwardBackward:
    """The steps of FISTA, whose options these are, or without momentum."""

    # Memory that later steps write into. Proximal maps of the user get none: they may keep it.
    argument: Tensor | None = None
    of_output: Tensor | None = None

    def __init__(
        self,
        problem: PenalizedProblem,
        max_num_iters: int,
        tol: float,
        step: float | None,
        watching: Checkpointed,
        *,
        has_momentum: bool = False,
        restart: bool = False,
    ) -> None:
        self.problem, self.has_momentum, self.restart = problem, has_momentum, restart
        pair, y, owner = problem.A, problem.y, problem.owner
        self.tol = checked_number(owner, "tol", tol)
        goals, space = {"change": self.tol}, pair.input
        self.progress = Progress(owner, max_num_iters, watching, goals=goals, space=space)
        if step is not None:
            step = checked_number(owner, "step", step, is_positive=True)
        self.given = step
        back = pair.adjoint(y)
        check_adjoint(pair, y, back)
        x = torch.zeros_like(back) if problem.x0 is None else problem.x0
        del back
        image = pair.forward(x)
        check_output(owner, pair, image, y)
        length = _first_step(pair, image - y) if step is None else step
        length = checked_number(owner, "step", length, is_positive=True)
        self.state = _State(x, image, x.clone(), image.clone(), length)
        options = {"tol": self.tol, "step": step, "momentum": has_momentum, "restart": restart}
        self.progress.resume(options, lambda: problem.known(x), state=self.state)
        (self.y_size,) = pair.magnitudes([], [y])

    def solve(self) -> Tensor:
        """Return the x that minimises |A x - y|^2 / 2 + g."""
        return self.progress.follow(self, (self.values(math.inf), None))

    def step(self) -> Measured:
        """Go from z to x, with a shorter step where the curvature asks for one."""
        state, problem, pair, owner = self.state, self.problem, self.problem.A, self.problem.owner
        tol, precision, rounding = self.tol, torch.finfo(pair.dtype).eps, rounding_of(pair.dtype)
        x, image, z, z_image, step = state.x, state.image, state.z, state.z_image, state.step
        versions = version_of(x), version_of(image)
        while True:
            self.of_output = scaled_sum(z_image, -1, problem.y, self.of_output)
            gradient = pair.adjoint(self.of_output)
            check_like(owner, "the output of the adjoint", gradient, "x", x)
            self.argument = scaled_sum(z, -step, gradient, self.argument)
            del gradient  # found again for a shorter step, because that is rare
            self.of_output = None  # not used until A was applied: it may be much larger than x
            found = problem.proximal(self.argument, step)
            check_like(owner, "what the proximal map returns", found, "x", x)
            check_unchanged(owner, "the proximal map", x, versions[0], found)
            self.argument = reusable(self.argument, problem.proximal, found)
            found_image = pair.forward(found)
            check_unchanged(owner, "A", image, versions[1], found_image)
            self.argument = move = scaled_sum(found, -1, z, self.argument)
            self.of_output = scaled_sum(found_image, -1, z_image, self.of_output)
            length, size, z_size, bent, *slope = pair.magnitudes(
                (move, found, z),
                [self.of_output],
                products=[(move, found - x)] if self.has_momentum and self.restart else [],
            )
            del move
            # Rounding of both images limits the curvature.
            known = max(0.0, bent * math.sqrt(step) - rounding * (size + z_size))
            if known**2 <= length**2 * (1 + 1e-3):
                break
            if self.given is not None:
                raise ValueError(
                    f"{owner}: step must be at most 1 / |A|^2, got {step:.6g} where the "
                    f"curvature is {(bent / length) ** 2:.6g}"
                )
            step = 0.9 * (length / bent) ** 2
        reason, size = None, max(size, z_size)
        if length <= max(tol, precision) * size:
            self.of_output = scaled_sum(z_image, -1, problem.y, self.of_output)
            (misfit_size,) = pair.magnitudes([], [self.of_output])
            # Rounding of the proximal map and its argument, and of A, with this norm.
            noise = rounding * (size + math.sqrt(step) * misfit_size)
            reason = reason_of(length, tol * size, noise, precision * size)
        if not self.has_momentum or (slope and slope[0] < 0):
            state.age = 1.0
        before, state.age = state.age, (1 + math.sqrt(1 + 4 * state.age**2)) / 2
        momentum = 1 + (before - 1) / state.age
        state.z = torch.lerp(x, found, momentum, out=free(z, x, found))
        into = free(z_image, image, found_image)
        state.z_image = torch.lerp(image, found_image, momentum, out=into)
        state.x, state.image, state.step = found, found_image, step
        del found, found_image  # before others are made
        del x, image, z, z_image, into
        return self.values(length / (size or 1.0)), reason

    def values(self, change: float) -> dict[str, float]:
        """Return the values of a step; those that cost a pass over vectors if they are shown."""
        state, problem = self.state, self.problem
        values = {"change": change, "residual": math.nan, "step": state.step}
        if self.progress.is_watched:
            (misfit,) = problem.A.magnitudes([], [state.image - problem.y])
            values["residual"] = misfit / (self.y_size or 1.0)
            values |= problem.objective(misfit, state.x)
        return values

    def result(self) -> Tensor:
        """Return x in the unit of y."""
        return self.problem.result(self.state.x)


@torch.no_grad()
def _first_step(A: OperatorPair, residual: Tensor) -> float:
    """Return the inverse curvature along the gradient; along a random vector if it is zero."""
    direction = A.adjoint(residual)
    (size,) = A.magnitudes([direction])
    if not size:
        direction = A.input.random_like(direction)
        (size,) = A.magnitudes([direction])
    (bent,) = A.magnitudes([], [A.forward(direction)])
    return (size / bent) ** 2 if bent else 1.0
