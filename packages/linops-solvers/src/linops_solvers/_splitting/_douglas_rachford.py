"""Douglas-Rachford splitting, of two proximal maps."""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor

from linops_core.siblings import check_real, check_vector

from .._proximals._proximal import Proximal
from .._shared._checks import check_unchanged, version_of
from .._shared._options import Watching, with_options
from .._shared._precision import at_least_single, in_given_precision, rounding_of
from .._shared._products import scaled_sum
from .._shared._progress import MovingSteps, Progress
from .._shared._reports import Measured
from .._shared._space import Space, norms_of
from ._problem import TwoFunctions

_NAME = "douglas_rachford"


@with_options(Watching)
def douglas_rachford(
    proximal_f: Proximal,
    proximal_g: Proximal,
    x0: Tensor,
    max_num_iters: int = 500,
    tol: float = 1e-5,
    *,
    step: float = 1.0,
    relaxation: float = 1.0,
    **watching: Unpack[Watching],
) -> Tensor:
    r"""The x that minimises :math:`f(x) + g(x)` for convex f and g with proximal maps.

    Starting with z = x0, a step is

    .. math:: x = \mathrm{prox}_{t f}(z), \quad w = \mathrm{prox}_{t g}(2 x - z), \quad
              z' = z + r (w - x).

    The result is the last x, so it satisfies the constraints in f. The solver keeps four vectors,
    beside those that the maps make, and waits for the device once in a step. Gradients flow through
    the steps, and autograd keeps all steps.

    Parameters
    ----------
    proximal_f, proximal_g : function
        The proximal maps of f and g: functions of z and t, such as :func:`l1_ball`.
    x0 : Tensor
        The first z; the result has its shape and dtype.
    tol : float
        Stop when :math:`|w - x| \le \mathrm{tol} \max(|w|, |x|)`. If w = x, x is a minimum.
    step : float
        t. It changes the speed and not the solution.
    relaxation : float
        r, between 0 and 2.
    callback
        The ``values`` of a step are "change", which ``tol`` bounds, and, if both functions are
        known, "objective", :math:`f(x) + g(w)`.

    References
    ----------
    P. L. Combettes and J.-C. Pesquet, "A Douglas-Rachford splitting approach to nonsmooth convex
    variational signal recovery", IEEE Journal of Selected Topics in Signal Processing 1 (2007),
    564-574.

    Examples
    --------
    >>> from linops_solvers import box, l2_squared
    >>> near = l2_squared(1.0, center=torch.tensor([3.0, 0.5]))
    >>> torch.round(douglas_rachford(box(0, 1), near, torch.zeros(2)), decimals=3)
    tensor([1.0000, 0.5000])
    """
    check_vector(_NAME, "x0", x0)
    tol = check_real(_NAME, "tol", tol, 0)
    progress = Progress(_NAME, max_num_iters, watching, goals={"change": tol})
    step = check_real(_NAME, "step", step, above=0)
    relaxation = check_real(_NAME, "relaxation", relaxation, above=0)
    if relaxation >= 2:
        raise ValueError(f"{_NAME}: relaxation must be below 2, got {relaxation}")
    maps = (proximal_f, Space()), (proximal_g, Space())
    functions = TwoFunctions(_NAME, *maps, x0.dtype)
    steps = _DouglasRachfordSteps(functions, x0, tol, step, relaxation)
    return progress.follow(steps, ({"change": math.inf}, None))


class _DouglasRachfordSteps(MovingSteps):
    """z, and the x that the proximal map of f makes of it."""

    _other: Tensor | None = None
    """w, if it is known already."""

    def __init__(
        self,
        functions: TwoFunctions,
        x0: Tensor,
        tol: float,
        step_size: float,
        relaxation: float,
    ) -> None:
        self.functions, self.dtype = functions, x0.dtype
        self.tol, self.step_size, self.relaxation = tol, step_size, relaxation
        self.z = at_least_single(x0).clone()
        self.x = functions.f(self.z.clone(), step_size)  # the map may write into its argument

    def step(self) -> Measured:
        """Apply the proximal map of g, move z, and apply that of f."""
        z, x, functions = self.z, self.x, self.functions
        version = version_of(x)
        other, self._other = self.other(), None
        check_unchanged(_NAME, "a proximal map", x, version, other)
        move = other - x
        norm_of_move, *norms, far = norms_of(_NAME, (Space(), [move, x, other, z]))
        scale, noise = max(norms), rounding_of(self.dtype) * max(*norms, far)
        values = {"change": norm_of_move / (scale or 1.0)}
        reason = self.reason_of_move(norm_of_move, self.tol * scale, noise)
        if reason is None:
            self.x = self.z = scaled_sum(z, self.relaxation, move, z)
            del z, x, other, move  # or they would be in memory beside what the map makes
            self.x = functions.f(self.z.clone(), self.step_size)
        else:
            self._other = other
        return values, reason

    def other(self) -> Tensor:
        """Return w, which the objective and the next step share."""
        if self._other is None:  # lerp makes 2 x - z
            self._other = self.functions.g(torch.lerp(self.z, self.x, 2.0), self.step_size)
        return self._other

    def shown(self) -> dict[str, float]:
        """Return the objective; nothing if only a map is known."""
        return self.functions.objective(self.x, self.other)

    def result(self) -> Tensor:
        """Return x in the precision of x0."""
        return in_given_precision(_NAME, self.x, self.dtype)
