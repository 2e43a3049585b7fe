"""Proximal gradient steps, with momentum or without."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from linops_core.siblings import check_real

from .._shared._checks import check_output, check_unchanged, version_of
from .._shared._options import Checkpointed
from .._shared._precision import OperatorPair, rounding_of
from .._shared._progress import MovingSteps, Progress
from .._shared._reports import Measured
from ._problem import PenalizedProblem


class ForwardBackward(MovingSteps):
    """The steps of FISTA, whose options these are, or without momentum."""

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
        pair, x, owner = problem.A, problem.first(), problem.owner
        self.tol = check_real(owner, "tol", tol, 0)
        goals, space = {"change": self.tol}, pair.input
        self.progress = Progress(owner, max_num_iters, watching, goals=goals, space=space)
        if step is not None:
            step = check_real(owner, "step", step, above=0)
        self.given, self.square = step, problem.unit_of_A**2
        check_output(owner, pair, pair.forward(x), problem.y)
        gradient = problem.gradient(x)
        step_size = _first_step(pair, gradient) if step is None else step * self.square
        step_size = check_real(owner, "step", step_size, above=0)
        self.x, self.z, self.step_size, self.age = x, x.clone(), step_size, 1.0
        self.gradient, self.z_gradient = gradient, gradient.clone()

    def fingerprint(self) -> dict[str, object]:
        """Return what tells this problem from others, for a checkpoint."""
        methods = {"momentum": self.has_momentum, "restart": self.restart}
        return {"tol": self.tol, "step": self.given, **methods, **self.problem.fingerprint()}

    def solve(self) -> Tensor:
        """Return the x that minimises |A x - y|^2 / 2 + g."""
        values = {"change": math.inf, "step": self.step_size / self.square}
        return self.progress.follow(self, (values, None))

    def step(self) -> Measured:
        """Go from z to x, with a shorter step where the curvature asks for one."""
        problem, pair, owner = self.problem, self.problem.A, self.problem.owner
        rounding = rounding_of(pair.dtype)
        x, gradient, z, z_gradient = self.x, self.gradient, self.z, self.z_gradient
        step, version_of_x = self.step_size, version_of(x)
        while True:
            x_new = problem.proximal(torch.sub(z, z_gradient, alpha=step), step)
            check_unchanged(owner, "the proximal map", x, version_of_x, x_new)
            new_gradient = problem.gradient(x_new)
            move = x_new - z
            products = [(move, new_gradient - z_gradient)]
            if self.has_momentum and self.restart:
                products.append((move, x_new - x))
            norm_of_move, norm_of_x, norm_of_z, bent, *slope = pair.norms_of(
                (move, x_new, z), products=products
            )
            del move, products
            # The difference of both gradients has their rounding, which a short move would blow up.
            noise = rounding * (norm_of_x + norm_of_z + step * problem.norm_of_target)
            if step * bent <= norm_of_move**2 * (1 + 1e-3) + norm_of_move * noise:
                break
            if self.given is not None:
                raise ValueError(
                    f"{owner}: step must be at most 1 / |A|^2, got {self.given:.6g} where the "
                    f"curvature is {self.square * bent / norm_of_move**2:.6g}"
                )
            step = 0.9 * norm_of_move**2 / bent
        scale = max(norm_of_x, norm_of_z)
        # A move has the rounding of x and z, and of the gradient over the step.
        noise = rounding * (scale + step * problem.norm_of_target)
        reason = self.reason_of_move(norm_of_move, self.tol * scale, noise)
        if not self.has_momentum or (slope and slope[0] < 0):
            self.age = 1.0
        before, self.age = self.age, (1 + math.sqrt(1 + 4 * self.age**2)) / 2
        momentum = 1 + (before - 1) / self.age
        # Vectors are deleted after their last use, so that at most ten exist at a time.
        del z, z_gradient
        self.z = torch.lerp(x, x_new, momentum)
        self.z_gradient = torch.lerp(gradient, new_gradient, momentum)
        self.x, self.gradient, self.step_size = x_new, new_gradient, step
        del x_new, new_gradient, x, gradient
        return {"change": norm_of_move / (scale or 1.0), "step": step / self.square}, reason

    def shown(self) -> dict[str, float]:
        """Return the residual and the objective, which need A x."""
        problem, misfit = self.problem, self.problem.misfit(self.x)
        residual = misfit / (problem.norm_of_y or 1.0)
        return {"residual": residual, **problem.objective(lambda: misfit, self.x)}

    def result(self) -> Tensor:
        """Return x in the unit of y."""
        return self.problem.result(self.x)


@torch.no_grad()
def _first_step(A: OperatorPair, direction: Tensor) -> float:
    """Return the inverse curvature along the gradient; along a random vector if it is zero."""
    if not any(A.norms_of([direction])):
        direction = A.input.random_like(direction)
    direction = direction / A.input.unit_of(A.owner, direction)  # else A of it may be out of range
    norm, norm_of_image = A.norms_of([direction], [A.forward(direction)])
    # Along a direction that A nearly hides, it may be past the range.
    longest = torch.finfo(direction.dtype).max
    return min((norm / norm_of_image) ** 2, longest) if norm_of_image else 1.0
