"""Proximal gradient steps, with momentum or without."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .._proximals._proximal import reusable
from .._shared._adjoint_check import check_adjoint
from .._shared._checks import (
    Operator,
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


def forward_backward(
    problem: PenalizedProblem,
    max_num_iters: int,
    tol: float,
    step: float | None,
    watching: Checkpointed,
    *,
    has_momentum: bool = False,
    restart: bool = False,
) -> Tensor:
    """Return the x that minimises |A x - y|^2 / 2 + g; the options are those of FISTA."""
    owner = problem.owner
    tol = checked_number(owner, "tol", tol)
    space = problem.A.input
    progress = Progress(owner, max_num_iters, watching, goals={"change": tol}, space=space)
    if step is not None:
        step = checked_number(owner, "step", step, is_positive=True)
    given = step
    pair, y = problem.A, problem.y
    given_normal = pair.normal()
    precision, rounding = torch.finfo(pair.dtype).eps, rounding_of(pair.dtype)
    target = pair.adjoint(y)
    version = version_of(target)
    check_adjoint(pair, y, target)
    target_size, y_size = pair.magnitudes([target], [y])

    def normal(x: Tensor) -> Tensor:
        """Return A^H A x, by the closed form where there is one."""
        image = given_normal(x)
        check_like(owner, "the output of the adjoint", image, "x", x)
        return image

    def residual(x: Tensor) -> float:
        """Return |A x - y| / |y|."""
        return _misfit(pair, x, y) / (y_size or 1.0)

    def start() -> _State:
        x = torch.zeros_like(target) if problem.x0 is None else problem.x0
        check_output(owner, pair, pair.forward(x), y)
        gradient = normal(x) - target
        step = _first_step(pair, normal, gradient) if given is None else given
        step = checked_number(owner, "step", step, is_positive=True)
        state = _State(x, gradient, x.clone(), gradient.clone(), step)
        options = {"tol": tol, "step": given, "momentum": has_momentum, "restart": restart}
        progress.resume(options, lambda: problem.known(x), state=state)
        return state

    state = start()
    # Memory that later steps write into. Proximal maps of the user get none: they may keep it.
    argument: Tensor | None = None
    change: Tensor | None = None
    values = {"change": math.inf, "residual": residual(state.x), "step": state.step}

    def do_step() -> Measured:
        nonlocal argument, change
        x, gradient, z, z_gradient = state.x, state.gradient, state.z, state.z_gradient
        step, version_of_x = state.step, version_of(x)
        while True:
            argument = scaled_sum(z, -step, z_gradient, argument)
            found = problem.proximal(argument, step)
            check_like(owner, "what the proximal map returns", found, "x", x)
            check_unchanged(owner, "the proximal map", x, version_of_x, found)
            argument = reusable(argument, problem.proximal, found)
            image = normal(found)
            check_unchanged(owner, "A", target, version, image)
            found_gradient = image - target
            del image
            argument = move = scaled_sum(found, -1, z, argument)
            change = scaled_sum(found_gradient, -1, z_gradient, change)
            products = [(move, change)]
            if has_momentum and restart:
                products.append((move, found - x))
            length, size, z_size, bent, *slope = pair.magnitudes(
                (move, found, z), products=products
            )
            del move, products
            # Rounding of both gradients limits the curvature.
            noise = rounding * (size + z_size + step * target_size)
            if step * bent <= length**2 * (1 + 1e-3) + length * noise:
                break
            if given is not None:
                raise ValueError(
                    f"{owner}: step must be at most 1 / |A|^2, got {step:.6g} where the "
                    f"curvature is {bent / length**2:.6g}"
                )
            step = 0.9 * length**2 / bent
        reason, size = None, max(size, z_size)
        if length <= max(tol, precision) * size:
            # Rounding of the proximal map and its argument, and of the gradient.
            noise = rounding * (size + step * target_size)
            reason = reason_of(length, tol * size, noise, precision * size)
        if not has_momentum or (slope and slope[0] < 0):
            state.age = 1.0
        before, state.age = state.age, (1 + math.sqrt(1 + 4 * state.age**2)) / 2
        momentum = 1 + (before - 1) / state.age
        state.z = torch.lerp(x, found, momentum, out=free(z, x, found))
        into = free(z_gradient, gradient, found_gradient)
        state.z_gradient = torch.lerp(gradient, found_gradient, momentum, out=into)
        state.x, state.gradient, state.step = found, found_gradient, step
        del x, gradient, z, z_gradient, into  # before A is applied again
        values = {"change": length / (size or 1.0), "residual": math.nan, "step": step}
        if progress.is_watched:
            values["residual"] = residual(found)
            values |= problem.objective(values["residual"] * (y_size or 1.0), found)
        return values, reason

    return problem.solve(state, do_step, values, progress)


@dataclass
class _State:
    """The values that a step needs from the step before."""

    x: Tensor
    gradient: Tensor
    z: Tensor
    z_gradient: Tensor
    step: float
    age: float = 1.0


def _misfit(A: OperatorPair, x: Tensor, y: Tensor) -> float:
    return A.magnitudes([], [A.forward(x) - y])[0]


@torch.no_grad()
def _first_step(A: OperatorPair, normal: Operator, direction: Tensor) -> float:
    """Return the inverse curvature along the gradient; along a random vector if it is zero."""
    (size,) = A.magnitudes([direction])
    if not size:
        direction = A.input.random_like(direction)
        (size,) = A.magnitudes([direction])
    (bent,) = A.magnitudes([], products=[(direction, normal(direction))])
    return size**2 / bent if bent > 0 else 1.0
