"""FISTA: least squares with a penalty that has a proximal map."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from ._progress import Progress
from ._proximal import Proximal, in_moderate_unit
from ._random import random_like
from ._step import Callback, StopReason
from ._vectors import (
    Operator,
    check_count,
    check_like,
    check_positive,
    check_vector,
    extrapolated,
    magnitudes,
    real_dot,
    with_adjoint,
)

_NAME = "fista"


def fista(
    A: Operator,
    y: Tensor,
    proximal: Proximal,
    x0: Tensor | None = None,
    max_num_iters: int = 100,
    tol: float = 1e-5,
    *,
    step: float | None = None,
    restart: bool = True,
    adjoint: Operator | None = None,
    tqdm_kwargs: Mapping[str, object] | None = None,
    callback: Callback | None = None,
) -> Tensor:
    r"""The x that minimises :math:`\frac12 |A x - y|^2 + g(x)` for a convex g.

    In k steps the function comes within :math:`2 L |x_0 - x|^2 / (k + 1)^2` of its minimum, where
    L is the square of the norm of A. A step applies A and its adjoint once.

    It takes the memory of seven vectors of the input and six of the output at most, with what
    A, its adjoint and the proximal map return, and waits for the device once in a step.
    Gradients flow through the steps, all of which autograd then keeps; the length of a step and
    the momentum are taken for constants.

    Parameters
    ----------
    A : NamedLinop or function
    y : Tensor
        Of the shape of the output; real or complex. It is one vector.
    proximal : function
        The proximal map of g: a function of z and t that returns the x that minimises
        :math:`g(x) + |x - z|^2 / 2t`, such as :func:`soft_threshold`.
    x0 : Tensor, optional
        Where to begin; zero by default.
    max_num_iters : int
        Number of steps after which to stop in any case.
    tol : float
        Stop when a step from the extrapolated point z to x is no longer than this times the
        longer of both: x is a minimum when it has length 0.
    step : float, optional
        Length of a step, at most 1 / L. By default it begins with the inverse curvature along
        the first gradient, and is made shorter where the curvature that is met is larger. That
        needs no more applications of A, but for those steps that are done again.
    restart : bool
        Forget the momentum when it goes uphill. That does no harm and helps where the function
        is strongly convex near the minimum.
    adjoint : function, optional
        The adjoint, where A is a function and not a NamedLinop.
    tqdm_kwargs : mapping, optional
        For a progress bar, which is shown if this is given.
    callback : function, optional
        Called with a :class:`Step` after every step. Its ``values`` are "change", what ``tol`` is
        compared with, "residual", :math:`|A x - y| / |y|`, and "step".

    Returns
    -------
    Tensor
        Of the shape of the input of A.

    Raises
    ------
    TypeError
        If y is neither floating nor complex, or A is a function without adjoint.
    ValueError
        If shapes or dtypes do not fit, a number is out of its range, or the step that was given
        shows itself to be too long.
    ArithmeticError
        If the iteration meets NaN or infinity.

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
    check_vector(_NAME, "y", y)
    check_count(_NAME, "max_num_iters", max_num_iters)
    A, adjoint = with_adjoint(_NAME, A, adjoint)
    unit, proximal = in_moderate_unit(_NAME, y, proximal)
    y = y if unit == 1.0 else y / unit
    if x0 is None:
        x = torch.zeros_like(adjoint(y))
    else:
        x = x0 / unit
    image = A(x)
    check_like(_NAME, "the output of A", image, "y", y)
    is_given = step is not None
    if step is None:
        step = _first_step(A, adjoint, image - y)
    check_positive(_NAME, "step", step)
    precision = torch.finfo(x.dtype).eps
    z, z_image, age = x.clone(), image.clone(), 1.0
    with Progress(_NAME, max_num_iters, tqdm_kwargs, callback) as progress:
        if max_num_iters == 0:
            values = {"change": math.inf, "residual": _residual(image, y), "step": step}
            progress.tell(0, partial(torch.mul, x, unit), values, StopReason.MAX_ITERATIONS)
        for iteration in range(1, max_num_iters + 1):
            gradient = adjoint(z_image - y)
            check_like(_NAME, "the output of the adjoint", gradient, "x", x)
            while True:
                found = proximal(torch.sub(z, gradient, alpha=step), step)
                check_like(_NAME, "what the proximal map returns", found, "x", x)
                found_image = A(found)
                move = found - z
                vectors = (move, found_image - z_image, found, z)
                along = real_dot(move, found - x)
                length, bent, size, z_size, slope = magnitudes(_NAME, *vectors, numbers=[along])
                rounding = precision * max(size, z_size)
                if bent**2 * step <= length**2 * (1 + 1e-3) or length <= 16 * rounding:
                    break
                if is_given:
                    raise ValueError(
                        f"{_NAME}: step must be at most 1 / |A|^2, got {step:.6g} where the "
                        f"curvature is {(bent / length) ** 2:.6g}"
                    )
                step = 0.9 * (length / bent) ** 2
            reason = None
            if length <= max(tol * max(size, z_size), rounding):
                reason = StopReason.CONVERGED if tol >= precision else StopReason.ROUNDING
            elif iteration == max_num_iters:
                reason = StopReason.MAX_ITERATIONS
            if restart and slope < 0:
                age = 1.0
            before, age = age, (1 + math.sqrt(1 + 4 * age**2)) / 2
            momentum = 1 + (before - 1) / age
            z = extrapolated(x, found, momentum, into=z)
            z_image = extrapolated(image, found_image, momentum, into=z_image)
            x, image = found, found_image
            del found, found_image, gradient, move, vectors, along  # before others are made
            if progress.is_watched:
                values = {
                    "change": length / (max(size, z_size) or 1.0),
                    "residual": _residual(image, y),
                    "step": step,
                }
                progress.tell(iteration, partial(torch.mul, x, unit), values, reason)
            if reason is not None:
                break
    return x * unit


def _residual(image: Tensor, y: Tensor) -> float:
    residual, size = magnitudes(_NAME, image - y, y)
    return residual / (size or 1.0)


@torch.no_grad()
def _first_step(A: Operator, adjoint: Operator, residual: Tensor) -> float:
    """Return the inverse curvature along the gradient; along a random vector if it is zero."""
    direction = adjoint(residual)
    (size,) = magnitudes(_NAME, direction)
    if not size:
        generator = torch.Generator().manual_seed(0)
        direction = random_like(direction, generator)
        (size,) = magnitudes(_NAME, direction)
    (bent,) = magnitudes(_NAME, A(direction))
    return (size / bent) ** 2 if bent else 1.0
