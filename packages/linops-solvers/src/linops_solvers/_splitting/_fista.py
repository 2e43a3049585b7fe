"""FISTA: least squares with a penalty that has a proximal map."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from linops_core.siblings import check_flags

from .._proximals._proximal import Proximal
from .._shared._options import Checkpointed, with_options
from .._shared._stacked import Operators, Vectors
from ._forward_backward import ForwardBackward
from ._problem import PenalizedProblem


@with_options(Checkpointed)
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
    **watching: Unpack[Checkpointed],
) -> Tensor:
    r"""The x that minimises :math:`\frac12 |A x - y|^2 + g(x)` for a convex g.

    After k steps the function is within :math:`2 L |x_0 - x|^2 / (k + 1)^2` of its minimum, where L
    is the square of the norm of A. A step applies A.N once, which may have a closed form, or A and
    the adjoint if they are functions. If steps are watched, A is applied to x, too.

    The solver keeps at most ten vectors of the input, and y. Results of A.N and of the proximal map
    are among them. It waits for the device once in a step.
    Gradients flow through the steps, and autograd keeps all steps; step sizes and the momentum
    count as constants.

    Parameters
    ----------
    proximal : function
        The proximal map of g: a function of z and t that returns the x that minimises
        :math:`g(x) + |x - z|^2 / 2t`, such as :func:`soft_threshold`.
    tol : float
        Stop when the step from the extrapolated point z to x is small:
        :math:`|x - z| \le \mathrm{tol} \max(|x|, |z|)`. If x = z, x is a minimum.
    step : float, optional
        Step size, at most 1 / L. A larger one raises a ValueError when it is noticed. By default
        the first one is the inverse curvature along the first gradient. It is reduced when a step
        meets a larger curvature, and the step is done again.
    restart : bool
        Reset the momentum when it increases the function. This helps if the function is strongly
        convex.
    callback
        The ``values`` of a step are "change", which ``tol`` bounds, "residual",
        :math:`|A x - y| / |y|`, "step" and, if the function of ``proximal`` is known, "objective".

    References
    ----------
    A. Beck and M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse
    problems", SIAM Journal on Imaging Sciences 2 (2009), 183-202.
    B. O'Donoghue and E. Candes, "Adaptive restart for accelerated gradient schemes", Foundations
    of Computational Mathematics 15 (2015), 715-732, the gradient scheme.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> from linops_solvers import soft_threshold
    >>> A = Diagonal(torch.tensor([1.0, 2.0]), ("N",))
    >>> x = fista(A, torch.tensor([3.0, 0.25]), soft_threshold(1.0))
    >>> torch.round(x, decimals=3)
    tensor([2., 0.])
    """
    check_flags("fista", restart=restart)
    problem = PenalizedProblem("fista", A, adjoint, y, proximal, x0)
    options = problem, max_num_iters, tol, step, watching
    return ForwardBackward(*options, has_momentum=True, restart=restart).solve()
