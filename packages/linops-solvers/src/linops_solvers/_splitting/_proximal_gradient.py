"""The proximal gradient method: FISTA without its momentum."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from .._proximals._proximal import Proximal
from .._shared._options import Checkpointed, with_options
from .._shared._stacked import Operators, Vectors
from ._fista import fista
from ._forward_backward import ForwardBackward
from ._problem import PenalizedProblem


@with_options(Checkpointed, like=fista)
def proximal_gradient(
    A: Operators,
    y: Vectors,
    proximal: Proximal,
    x0: Tensor | None = None,
    max_num_iters: int = 100,
    tol: float = 1e-5,
    *,
    step: float | None = None,
    adjoint: Operators | None = None,
    **watching: Unpack[Checkpointed],
) -> Tensor:
    r"""The x that minimises :math:`\frac12 |A x - y|^2 + g(x)`, by steps that never increase it.

    A step is :math:`x' = \mathrm{prox}_{t g}(x - t A^H (A x - y))`. :func:`fista` adds momentum and
    is faster for a convex g. If g is not convex, such as :func:`l0` (iterative hard thresholding),
    the steps end at a stationary point. With :func:`l2_ball`, :func:`simplex` or :func:`box` this
    is the projected gradient method, with ``no_penalty()`` the Landweber method.

    Memory, ``values`` and errors are those of :func:`fista`.

    References
    ----------
    P. L. Combettes and V. R. Wajs, "Signal recovery by proximal forward-backward splitting",
    Multiscale Modeling and Simulation 4 (2005), 1168-1200.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> from linops_solvers import soft_threshold
    >>> A = Diagonal(torch.tensor([1.0, 2.0]), ("N",))
    >>> x = proximal_gradient(A, torch.tensor([3.0, 0.25]), soft_threshold(1.0))
    >>> torch.round(x, decimals=3)
    tensor([2., 0.])
    """
    name = "proximal_gradient"
    problem = PenalizedProblem(name, A, adjoint, y, proximal, x0, needs_convex=False)
    return ForwardBackward(problem, max_num_iters, tol, step, watching).solve()
