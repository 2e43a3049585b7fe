"""The split Bregman method: ADMM with a fixed weight."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from .._proximals._separable import Proximals
from .._shared._options import Checkpointed, with_options
from .._shared._stacked import Operators, Vectors
from ._admm import admm


@with_options(Checkpointed, like=admm)
def split_bregman(
    A: Operators,
    y: Vectors,
    proximal: Proximals,
    L: Operators | None = None,
    x0: Tensor | None = None,
    max_num_iters: int = 100,
    *,
    rho: float = 1.0,
    eps_abs: float = 0.0,
    eps_rel: float = 1e-3,
    max_cg_iters: int = 20,
    adjoint: Operators | None = None,
    L_adjoint: Operators | None = None,
    **watching: Unpack[Checkpointed],
) -> Tensor:
    r"""The x that minimises :math:`\frac12 |A x - y|^2 + g(L x)` for a convex g.

    With one inner iteration, the method of Goldstein and Osher is :func:`admm` with a fixed rho.
    The Bregman variable is the scaled dual variable u. This function calls :func:`admm`,
    with the same ``values`` and errors.

    Parameters
    ----------
    rho : float
        Weight of :math:`\frac12 |L x - z + u|^2`, which Goldstein and Osher call lambda.

    References
    ----------
    T. Goldstein and S. Osher, "The split Bregman method for L1-regularized problems", SIAM Journal
    on Imaging Sciences 2 (2009), 323-343.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> from linops_solvers import soft_threshold
    >>> A = Diagonal(torch.tensor([1.0, 2.0]), ("N",))
    >>> x = split_bregman(A, torch.tensor([3.0, 0.25]), soft_threshold(1.0), eps_rel=1e-5)
    >>> torch.round(x, decimals=3)
    tensor([2., 0.])
    """
    return admm(
        A,
        y,
        proximal,
        L,
        x0,
        max_num_iters,
        rho=rho,
        is_rho_fixed=True,
        eps_abs=eps_abs,
        eps_rel=eps_rel,
        max_cg_iters=max_cg_iters,
        adjoint=adjoint,
        L_adjoint=L_adjoint,
        **watching,
    )
