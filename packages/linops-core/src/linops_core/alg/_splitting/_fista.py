"""FISTA: least squares with a penalty that has a proximal map."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from ..._kernels._tracing import is_recorded
from .._proximals._proximal import Proximal
from .._shared._checks import check_count, check_like, checked_number
from .._shared._precision import OperatorPair, rounding_of
from .._shared._progress import Callback, Iterate, Progress, StopReason
from .._shared._stacked import Operators, Vectors
from .._shared._vectors import inner, magnitudes, random_like
from ._problem import PenalizedProblem

_NAME = "fista"


def fista(
    A: Operators,
    y: Vectors,
    proximal: Proximal,
    x0: Tensor | None = None,
    max_num_iters: int = 100,
    tol: float = 1e-5,
    *,
    step: float | None = None,
    restart: bool = True,
    adjoint: Operators | None = None,
    tqdm_kwargs: Mapping[str, object] | None = None,
    callback: Callback | None = None,
) -> Tensor:
    r"""The x that minimises :math:`\frac12 |A x - y|^2 + g(x)` for a convex g.

    In k steps the function comes within :math:`2 L |x_0 - x|^2 / (k + 1)^2` of its minimum, where
    L is the square of the norm of A. A step applies A and its adjoint once.

    It takes the memory of seven vectors of the input and six of the output at most, with what
    A, its adjoint and the proximal map return, and waits for the device once in a step. Gradients
    flow through the steps, all of which autograd keeps; their length and momentum are constants.

    Parameters
    ----------
    proximal : function
        The proximal map of g: a function of z and t that returns the x that minimises
        :math:`g(x) + |x - z|^2 / 2t`, such as :func:`soft_threshold`.
    tol : float
        Stop when a step from the extrapolated point z to x is no longer than this times the
        longer of both: x is a minimum when it has length 0.
    step : float, optional
        Length of a step, at most 1 / L; a ValueError where it shows itself to be too long. By
        default it begins with the inverse curvature along the first gradient, and is made shorter
        where the curvature that is met is larger, which only costs the steps that are done again.
    restart : bool
        Forget the momentum when it goes uphill: a help where the function is strongly convex.
    A, y, x0, max_num_iters, adjoint, tqdm_kwargs, callback
        See :mod:`linops_core.alg`. The ``values`` of a step are "change", what ``tol`` is compared
        with, "residual", :math:`|A x - y| / |y|`, and "step".

    References
    ----------
    A. Beck and M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse
    problems", SIAM Journal on Imaging Sciences 2 (2009), 183-202.
    B. O'Donoghue and E. Candes, "Adaptive restart for accelerated gradient schemes", Foundations
    of Computational Mathematics 15 (2015), 715-732, the gradient scheme.

    Examples
    --------
    >>> from linops_core import Diagonal
    >>> from linops_core.alg import soft_threshold
    >>> A = Diagonal(torch.tensor([1.0, 2.0]), ("N",))
    >>> x = fista(A, torch.tensor([3.0, 0.25]), soft_threshold(1.0))
    >>> torch.round(x, decimals=3)
    tensor([2., 0.])
    """
    check_count(_NAME, "max_num_iters", max_num_iters)
    tol = checked_number(_NAME, "tol", tol)
    if step is not None:
        step = checked_number(_NAME, "step", step, is_positive=True)
    given, problem = step, PenalizedProblem(_NAME, A, adjoint, y, proximal, x0)
    pair, y = problem.A, problem.y
    precision, rounding = torch.finfo(pair.dtype).eps, rounding_of(pair.dtype)
    progress = Progress(_NAME, max_num_iters, tqdm_kwargs, callback)

    def steps() -> Iterator[Iterate[Tensor]]:
        x = torch.zeros_like(pair.adjoint(y)) if problem.x0 is None else problem.x0
        image = pair.forward(x)
        check_like(_NAME, "the output of A", image, "y", y)
        step = _first_step(pair, image - y) if given is None else given
        step = checked_number(_NAME, "step", step, is_positive=True)
        z, z_image, age = x.clone(), image.clone(), 1.0
        yield x, {"change": math.inf, "residual": _residual(image, y), "step": step}, None
        while True:
            misfit = z_image - y
            gradient = pair.adjoint(misfit)
            check_like(_NAME, "the output of the adjoint", gradient, "x", x)
            while True:
                found = problem.proximal(torch.sub(z, gradient, alpha=step), step)
                check_like(_NAME, "what the proximal map returns", found, "x", x)
                found_image = pair.forward(found)
                move = found - z
                vectors = (move, found_image - z_image, found, z)
                along = inner(move, found - x).real
                length, bent, size, z_size, slope = magnitudes(_NAME, *vectors, numbers=[along])
                # The curvature is known to the rounding of both images.
                known = max(0.0, bent * math.sqrt(step) - rounding * (size + z_size))
                if known**2 <= length**2 * (1 + 1e-3):
                    break
                if given is not None:
                    raise ValueError(
                        f"{_NAME}: step must be at most 1 / |A|^2, got {step:.6g} where the "
                        f"curvature is {(bent / length) ** 2:.6g}"
                    )
                step = 0.9 * (length / bent) ** 2
            reason, size = None, max(size, z_size)
            if length <= max(tol, precision) * size:
                (misfit_size,) = magnitudes(_NAME, misfit)
                # That of the proximal map and its argument, and of A, of which the norm is such.
                noise = rounding * (size + math.sqrt(step) * misfit_size)
                if length + noise <= tol * size:
                    reason = StopReason.CONVERGED
                elif length <= max(noise, precision * size):
                    reason = StopReason.ROUNDING
            if restart and slope < 0:
                age = 1.0
            before, age = age, (1 + math.sqrt(1 + 4 * age**2)) / 2
            momentum = 1 + (before - 1) / age
            z = _extrapolated(x, found, momentum, into=z)
            z_image = _extrapolated(image, found_image, momentum, into=z_image)
            x, image = found, found_image
            del found, found_image, gradient, misfit, move, vectors, along  # before others are made
            residual = _residual(image, y) if progress.is_watched else math.nan
            values = {"change": length / (size or 1.0), "residual": residual, "step": step}
            yield x, values, reason

    return problem.solve(steps(), progress)


def _extrapolated(x: Tensor, z: Tensor, factor: float, into: Tensor) -> Tensor:
    return torch.lerp(x, z, factor, out=None if is_recorded(x, z) else into)


def _residual(image: Tensor, y: Tensor) -> float:
    residual, size = magnitudes(_NAME, image - y, y)
    return residual / (size or 1.0)


@torch.no_grad()
def _first_step(A: OperatorPair, residual: Tensor) -> float:
    """Return the inverse curvature along the gradient; along a random vector if it is zero."""
    direction = A.adjoint(residual)
    (size,) = magnitudes(_NAME, direction)
    if not size:
        direction = random_like(direction)
        (size,) = magnitudes(_NAME, direction)
    (bent,) = magnitudes(_NAME, A.forward(direction))
    return (size / bent) ** 2 if bent else 1.0
