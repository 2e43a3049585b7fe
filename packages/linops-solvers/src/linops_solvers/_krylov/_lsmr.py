"""LSMR: least squares equivalent to MINRES, whose gradient decreases in every step."""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor

from .._shared._options import Checkpointed, with_options
from .._shared._products import scaled_sum
from .._shared._stacked import Operators, Vectors
from ._bidiagonal import Bidiagonalization, rotation
from ._least_squares import LeastSquaresOptions, Norms, least_squares
from ._lsqr import lsqr


@with_options(Checkpointed, like=lsqr)
def lsmr(
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

    Gradients, errors and warnings are those of :func:`lsqr`. With the residual r, every step
    decreases :math:`|A^H r|`, so it is safer to stop early. The residual decreases as well, but
    more slowly. ``lsmr`` keeps one more vector of the input than ``lsqr``.

    References
    ----------
    D. C.-L. Fong and M. A. Saunders, "LSMR: an iterative algorithm for sparse least-squares
    problems", SIAM Journal on Scientific Computing 33 (2011), 2950-2971.

    Examples
    --------
    >>> from linops_core import Dense
    >>> A = Dense.from_einstr(torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), "MN,N->M")
    >>> torch.round(lsmr(A, torch.tensor([1.0, 3.0, 5.0])), decimals=4)
    tensor([1., 2.])
    """
    options = LeastSquaresOptions(damp, atol, btol, conlim)
    return least_squares("lsmr", LSMR, A, adjoint, y, x0, options, max_num_iters, watching)


class LSMR:
    """The recurrences of Fong and Saunders; names as in their sections 2 and 3."""

    def __init__(self, pair: Bidiagonalization, damp: float, gain: float) -> None:
        self.pair, self.damp, self.gain = pair, damp, gain
        self.h, self.h_bar = pair.v.clone(), torch.zeros_like(pair.v)
        self.alpha_bar, self.zeta_bar = pair.alpha, pair.alpha * pair.beta
        self.rho = self.rho_bar = self.cosine_bar = 1.0
        self.sine_bar = self.zeta = 0.0
        self.largest, self.smallest = 0.0, math.inf
        # The rotations that give |r|.
        self.beta_dot, self.rho_dot = pair.beta, 1.0
        self.beta_damped = self.theta_tilde = self.tau_tilde = self.damped_squared = 0.0

    def step(self, x: Tensor) -> Norms:
        """Do one step of the bidiagonalisation and move x, in place."""
        pair = self.pair
        (norm_of_x,) = pair.step(x)
        turned, damped, alpha_hat = rotation(self.alpha_bar, self.damp)
        rho_before, rho_bar_before, zeta_before = self.rho, self.rho_bar, self.zeta
        cosine, sine, self.rho = rotation(alpha_hat, pair.beta)
        theta, self.alpha_bar = sine * pair.alpha, cosine * pair.alpha
        theta_bar, inner = self.sine_bar * self.rho, self.cosine_bar * self.rho
        self.cosine_bar, self.sine_bar, self.rho_bar = rotation(inner, theta)
        self.zeta = self.cosine_bar * self.zeta_bar
        self.zeta_bar *= -self.sine_bar

        factor = -theta_bar * self.rho / (rho_before * rho_bar_before)
        self.h_bar = scaled_sum(self.h, factor, self.h_bar, self.h_bar)
        x.add_(self.h_bar, alpha=self.zeta / (self.rho * self.rho_bar) * self.gain)
        self.h = scaled_sum(pair.v, -theta / self.rho, self.h, self.h)

        condition = max(self.largest, inner) / min(self.smallest, inner)
        # The last one changes in the next step and is counted then.
        self.largest = max(self.largest, self.rho_bar)
        self.smallest = min(self.smallest, self.rho_bar)

        acute, check = turned * self.beta_dot, -damped * self.beta_dot
        beta_hat, self.beta_dot = cosine * acute, -sine * acute
        theta_before = self.theta_tilde
        cosine, sine, rho_tilde = rotation(self.rho_dot, theta_bar)
        self.theta_tilde, self.rho_dot = sine * self.rho_bar, cosine * self.rho_bar
        self.beta_damped = -sine * self.beta_damped + cosine * beta_hat
        self.tau_tilde = (zeta_before - theta_before * self.tau_tilde) / rho_tilde
        tau_dot = (self.zeta - self.theta_tilde * self.tau_tilde) / self.rho_dot
        self.damped_squared += check**2
        rest = math.hypot(self.beta_damped - tau_dot, self.beta_dot)
        return Norms(
            residual=math.hypot(rest, math.sqrt(self.damped_squared)),
            gradient=abs(self.zeta_bar),
            norm=math.hypot(pair.norm, self.damp),
            condition=condition,
            # Of the previous x, which was measured together with the rest of this step.
            x=norm_of_x / self.gain,
        )
