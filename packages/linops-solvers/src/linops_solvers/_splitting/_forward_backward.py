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
    precision, rounding = torch.finfo(pair.dtype).eps, rounding_of(pair.dtype)

    def start() -> _State:
        back = pair.adjoint(y)
        check_adjoint(pair, y, back)
        x = torch.zeros_like(back) if problem.x0 is None else problem.x0
        del back
        image = pair.forward(x)
        check_output(owner, pair, image, y)
        step = _first_step(pair, image - y) if given is None else given
        step = checked_number(owner, "step", step, is_positive=True)
        state = _State(x, image, x.clone(), image.clone(), step)
        options = {"tol": tol, "step": given, "momentum": has_momentum, "restart": restart}
        progress.resume(options, lambda: problem.known(x), state=state)
        return state

    state = start()
    misfit = _misfit(pair, state.image, y)
    # Memory that later steps write into. Proximal maps of the user get none: they may keep it.
    argument: Tensor | None = None
    of_output: Tensor | None = None
    (y_size,) = pair.magnitudes([], [y])
    values = {"change": math.inf, "residual": misfit / (y_size or 1.0), "step": state.step}

    def do_step() -> Measured:
        nonlocal argument, of_output
        x, image, z, z_image, step = state.x, state.image, state.z, state.z_image, state.step
        versions = version_of(x), version_of(image)
        while True:
            of_output = scaled_sum(z_image, -1, y, of_output)
            gradient = pair.adjoint(of_output)
            check_like(owner, "the output of the adjoint", gradient, "x", x)
            argument = scaled_sum(z, -step, gradient, argument)
            del gradient  # found again for a shorter step, because that is rare
            of_output = None  # not used until A was applied: it may be much larger than x
            found = problem.proximal(argument, step)
            check_like(owner, "what the proximal map returns", found, "x", x)
            check_unchanged(owner, "the proximal map", x, versions[0], found)
            argument = reusable(argument, problem.proximal, found)
            found_image = pair.forward(found)
            check_unchanged(owner, "A", image, versions[1], found_image)
            argument = move = scaled_sum(found, -1, z, argument)
            of_output = scaled_sum(found_image, -1, z_image, of_output)
            length, size, z_size, bent, *slope = pair.magnitudes(
                (move, found, z),
                [of_output],
                products=[(move, found - x)] if has_momentum and restart else [],
            )
            del move
            # Rounding of both images limits the curvature.
            known = max(0.0, bent * math.sqrt(step) - rounding * (size + z_size))
            if known**2 <= length**2 * (1 + 1e-3):
                break
            if given is not None:
                raise ValueError(
                    f"{owner}: step must be at most 1 / |A|^2, got {step:.6g} where the "
                    f"curvature is {(bent / length) ** 2:.6g}"
                )
            step = 0.9 * (length / bent) ** 2
        reason, size = None, max(size, z_size)
        if length <= max(tol, precision) * size:
            of_output = scaled_sum(z_image, -1, y, of_output)
            (misfit_size,) = pair.magnitudes([], [of_output])
            # Rounding of the proximal map and its argument, and of A, with this norm.
            noise = rounding * (size + math.sqrt(step) * misfit_size)
            reason = reason_of(length, tol * size, noise, precision * size)
        if not has_momentum or (slope and slope[0] < 0):
            state.age = 1.0
        before, state.age = state.age, (1 + math.sqrt(1 + 4 * state.age**2)) / 2
        momentum = 1 + (before - 1) / state.age
        state.z = torch.lerp(x, found, momentum, out=free(z, x, found))
        into = free(z_image, image, found_image)
        state.z_image = torch.lerp(image, found_image, momentum, out=into)
        state.x, state.image, state.step = found, found_image, step
        del found, found_image  # before others are made
        del x, image, z, z_image, into
        misfit = _misfit(pair, state.image, y) if progress.is_watched else math.nan
        values = {"change": length / (size or 1.0), "residual": misfit / (y_size or 1.0)}
        values |= {"step": step}
        if progress.is_watched:
            values |= problem.objective(misfit, state.x)
        return values, reason

    return problem.solve(state, do_step, values, progress)


@dataclass
class _State:
    """The values that a step needs from the step before."""

    x: Tensor
    image: Tensor
    z: Tensor
    z_image: Tensor
    step: float
    age: float = 1.0


def _misfit(A: OperatorPair, image: Tensor, y: Tensor) -> float:
    return A.magnitudes([], [image - y])[0]


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
