"""L-BFGS: the minimum of a smooth function, by torch's optimiser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import torch
from torch import Tensor

from linops_core.siblings import check_integer, check_real, check_vector

from .._shared._checks import check_callable, check_finite
from .._shared._options import Watching, with_options
from .._shared._precision import at_least_single, in_given_precision, to_half
from .._shared._progress import Progress, SolverSteps
from .._shared._reports import Measured, StopReason
from .._shared._space import Space, norms_of

_NAME = "lbfgs"
_MOST_EVALUATIONS = 25  # in one search along a line, which is torch's own limit


@with_options(Watching)
def lbfgs(
    function: Callable[[Tensor], Tensor],
    x0: Tensor,
    max_num_iters: int = 100,
    tol: float = 1e-5,
    *,
    history_size: int = 10,
    **watching: Unpack[Watching],
) -> Tensor:
    r"""A minimum of a smooth real function, whose gradient comes from autograd.

    This is :class:`torch.optim.LBFGS` with a line search by the strong Wolfe conditions, and with
    the options, the callback and the reasons of the other solvers. It stops when the norm of the
    gradient is at most ``tol`` times that at x0, or when a step changes neither x nor the function
    (``ROUNDING``). Torch ignores curvatures below 1e-10, so scale the function to a moderate unit.

    The solver keeps 2 ``history_size`` + 6 vectors. The result has no gradient.

    Parameters
    ----------
    function : function
        Maps a tensor like x0, real or complex, to a real tensor without dimensions.
    x0 : Tensor
        The first x; the result has its shape and dtype.
    tol : float
        Bound of the gradient, relative to the gradient at x0.
    history_size : int
        Number of steps from which the curvature is estimated.
    callback
        The ``values`` of a step are "objective", the function, and "gradient", which ``tol``
        bounds.

    References
    ----------
    D. C. Liu and J. Nocedal, "On the limited memory BFGS method for large scale optimization",
    Mathematical Programming 45 (1989), 503-528.

    Examples
    --------
    >>> target = torch.tensor([1.0, 2.0])
    >>> x = lbfgs(lambda x: ((x - target) ** 4).sum() + (x**2).sum(), torch.zeros(2))
    >>> torch.round(4 * (x - target) ** 3 + 2 * x, decimals=2).abs()
    tensor([0., 0.])
    """
    check_callable(_NAME, "function", function)
    check_vector(_NAME, "x0", x0)
    check_integer(_NAME, "history_size", history_size, 1)
    tol = check_real(_NAME, "tol", tol, 0)
    progress = Progress(_NAME, max_num_iters, watching, goals={"gradient": tol})
    steps = _LbfgsSteps(function, x0, tol, history_size)
    values, slope = steps.values(), steps.slope
    return progress.follow(steps, (values, None if slope else StopReason.CONVERGED))


class _LbfgsSteps(SolverSteps):
    """x and torch's optimiser, which has the steps before, with the function and its slope at x."""

    def __init__(
        self, function: Callable[[Tensor], Tensor], x0: Tensor, tol: float, history_size: int
    ) -> None:
        self.function, self.dtype, self.tol = function, x0.dtype, tol
        with torch.inference_mode(False):  # a tensor made in inference mode records no gradients
            # Contiguous, because the optimiser takes views of it.
            x = at_least_single(x0).detach().clone(memory_format=torch.contiguous_format)
            self.x = x.requires_grad_()
        self.optimizer = torch.optim.LBFGS(
            [self.x],
            max_iter=1,
            max_eval=1 + _MOST_EVALUATIONS,
            history_size=history_size,
            tolerance_grad=0.0,
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )
        self.measure()
        self.steepest = self.slope or 1.0

    def loss_of(self) -> Tensor:
        """Return the function at x, and compute its gradient."""
        self.optimizer.zero_grad()
        with torch.inference_mode(False), torch.enable_grad():
            loss = self.function(to_half(self.x, self.dtype))
            if not isinstance(loss, Tensor) or loss.ndim or loss.is_complex():
                kind = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss)
                raise ValueError(
                    f"{_NAME}: function must return a real tensor without dimensions, got {kind}"
                )
            if not loss.requires_grad:
                raise ValueError(
                    f"{_NAME}: function must compute its result from x by operations that "
                    "autograd records, got a result without a gradient; leave out detach, item, "
                    "no_grad and NumPy"
                )
            torch.autograd.backward(loss, inputs=[self.x])
        return loss.detach()

    def measure(self) -> None:
        """Note the function and the norm of its gradient at x."""
        self.loss = check_finite(_NAME, float(self.loss_of()))
        assert self.x.grad is not None
        (self.slope,) = norms_of(_NAME, (Space(), [self.x.grad]))

    def values(self) -> dict[str, float]:
        """Return the values of a step."""
        return {"objective": self.loss, "gradient": self.slope / self.steepest}

    def step(self) -> Measured:
        """Do a step of torch's optimiser."""
        before, last = self.x.detach().clone(), self.loss
        self.optimizer.step(lambda: float(self.loss_of()))
        self.measure()
        reason = None
        if self.slope <= self.tol * self.steepest:
            reason = StopReason.CONVERGED
        elif self.loss == last and torch.equal(before, self.x.detach()):
            reason = StopReason.ROUNDING
        return self.values(), reason

    def result(self) -> Tensor:
        """Return x in the precision of x0."""
        return in_given_precision(_NAME, self.x.detach(), self.dtype)
