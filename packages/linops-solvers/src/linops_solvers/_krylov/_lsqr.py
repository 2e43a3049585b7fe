"""LSQR: least squares by bidiagonalisation, more stable than conjugate gradients on A.N."""

from __future__ import annotations

import math
from typing import Unpack

from torch import Tensor

from .._shared._options import Checkpointed, with_options
from .._shared._products import scaled_sum
from .._shared._stacked import Operators, Vectors
from ._bidiagonal import Bidiagonalization, rotation
from ._least_squares import LeastSquaresOptions, Norms, least_squares


@with_options(Checkpointed)
def lsqr(
    A: Operators,
    y: Vectors,
    x0: Tensor | None = None,
    max_num_iters: int | None = None,
    *,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    adjoint: Operators | None = None,
    **watching: Unpack[Checkpointed],
) -> Tensor:
    r"""The x that minimises :math:`|A x - y|^2 + \mathrm{damp}^2 |x - x_0|^2`.

    A may have any shape and rank. Without damping, the result is the least-squares solution nearest
    to x0. In exact arithmetic, each step has the x of conjugate gradients on :math:`A^H A`. But
    rounding grows with the condition number of A, not with its square.

    The solver keeps three vectors of the input and one of the output, and one output of A or its
    adjoint at a time. It waits for the device once in a step. Gradients are those of the exact
    solution, as in :func:`conjugate_gradients` with ``implicit=True``: the backward pass solves two
    more least-squares problems. For gradients to weights of A or to x0 without damping, the forward
    pass solves one more. If neither the columns nor the rows of A are independent, gradients to
    weights are right for changes that keep the rank; other changes have no derivative.

    Parameters
    ----------
    atol, btol : float
        Relative errors of A and of y. The solver stops when such errors explain the residual r,
        :math:`|r| \le \mathrm{btol} |y| + \mathrm{atol} |A| |x|`, or when x is a least-squares
        solution for such an A, :math:`|A^H r| \le \mathrm{atol} |A| |r|`. ``|A|`` is the norm that
        the steps have shown. With x0, read y - A x0 for y, and x - x0 for x. Before it stops, the
        solver computes r (and A^H r) anew to confirm the recurrence.
    conlim : float
        Stop when the estimated condition number of A reaches it; 0 for no limit.
    damp : float
        Weight of :math:`|x - x_0|`, in the unit of A.
    max_num_iters : int, optional
        Largest number of steps; by default twice the number of unknowns.
    callback
        The ``values`` of a step are "residual", :math:`|r| / |y|`, "gradient",
        :math:`|A^H r| / (|A| |r|)`, "objective", the minimised function, and "condition", of the
        (damped) A. They come from the recurrence, and in the last step from x itself. With x0, read
        y - A x0 for y.
    adjoint
        If the steps show that it is not the adjoint of A, a ValueError is raised.

    Warns
    -----
    ConvergenceWarning
        If the condition number of A or the precision ended the steps, and neither rule holds with
        the root of the precision as atol and btol.

    References
    ----------
    C. C. Paige and M. A. Saunders, "LSQR: an algorithm for sparse linear equations and sparse
    least squares", ACM Transactions on Mathematical Software 8 (1982), 43-71.

    G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
    problems whose variables separate", SIAM Journal on Numerical Analysis 10 (1973), theorem 4.3,
    for the gradients.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Dense
    >>> A = Dense.from_einstr(torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), "MN,N->M")
    >>> torch.round(lsqr(A, torch.tensor([1.0, 3.0, 5.0])), decimals=4)
    tensor([1., 2.])
    """
    options = LeastSquaresOptions(damp, atol, btol, conlim)
    return least_squares("lsqr", LSQR, A, adjoint, y, x0, options, max_num_iters, watching)


class LSQR:
    """The recurrences of Paige and Saunders; names as in their section 4 and 5."""

    def __init__(self, pair: Bidiagonalization, damp: float, gain: float) -> None:
        self.pair, self.damp, self.gain = pair, damp, gain
        self.w = pair.v.clone()
        self.phi_bar, self.rho_bar = pair.beta, pair.alpha
        self.norm_squared = self.inverse_squared = self.damped_squared = 0.0
        # The rotations from the right that give |x|.
        self.z = self.x_squared = self.sine = 0.0
        self.cosine = -1.0

    def step(self, x: Tensor) -> Norms:
        """Do one step of the bidiagonalisation and move x, in place."""
        pair, damp = self.pair, self.damp
        before = pair.alpha
        (norm_of_w,) = pair.step(self.w)
        self.norm_squared += before**2 + pair.beta**2 + damp**2
        cosine, sine, rho_bar = rotation(self.rho_bar, damp)
        psi, phi_bar = sine * self.phi_bar, cosine * self.phi_bar
        cosine, sine, rho = rotation(rho_bar, pair.beta)
        theta, self.rho_bar = sine * pair.alpha, -cosine * pair.alpha
        phi, self.phi_bar = cosine * phi_bar, sine * phi_bar
        x.add_(self.w, alpha=phi / rho * self.gain)
        self.w = scaled_sum(pair.v, -theta / rho, self.w, self.w)
        self.inverse_squared += (norm_of_w / rho) ** 2
        self.damped_squared += psi**2
        delta, gamma_bar = self.sine * rho, -self.cosine * rho
        rest = phi - delta * self.z
        norm_of_x = math.sqrt(self.x_squared + (rest / gamma_bar) ** 2)
        self.cosine, self.sine, gamma = rotation(gamma_bar, theta)
        self.z = rest / gamma
        self.x_squared += self.z**2
        return Norms(
            residual=math.hypot(self.phi_bar, math.sqrt(self.damped_squared)),
            gradient=pair.alpha * abs(sine * phi),
            norm=math.hypot(pair.norm, damp),
            condition=math.sqrt(self.norm_squared) * math.sqrt(self.inverse_squared),
            x=norm_of_x,
        )
