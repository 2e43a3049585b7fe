"""MINRES: Hermitian systems, also indefinite ones."""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor

from linops_core.siblings import host_numbers

from .._shared._checks import Operator
from .._shared._options import Watching, with_options
from .._shared._reports import Measured
from ._bidiagonal import rotation
from ._square_system import SquareSteps, SquareSystem, solution_with_gradient


@with_options(Watching)
def minres(
    A: Operator,
    y: Tensor,
    x0: Tensor | None = None,
    max_num_iters: int = 200,
    tol: float = 1e-5,
    **watching: Unpack[Watching],
) -> Tensor:
    r"""Solve :math:`A x = y` for a Hermitian A, which may be indefinite or singular.

    A step applies A once, and x has the smallest residual :math:`|A x - y|` of the Krylov space. It
    stops when the residual, computed anew, is at most :math:`\mathrm{tol} \, |y|`, or when x is a
    least-squares solution, :math:`|A r| \le \mathrm{tol} \, |A| |r|` for the residual r. If the
    steps show that A is not Hermitian, a ValueError is raised.

    The solver keeps 13 vectors, and waits for the device once in a step. Gradients are those of
    the exact solution: the backward pass solves with A once more. If one of both systems has no
    solution, it raises a RuntimeError.

    Parameters
    ----------
    tol : float
        Bound of the residual, relative to y (relative to the residual of x0 if y is zero).
    callback
        The ``values`` of a step are "residual", :math:`|A x - y| / |y|`.

    Warns
    -----
    ConvergenceWarning
        If the residual is above the tolerance and more steps would not help.

    References
    ----------
    C. C. Paige and M. A. Saunders, "Solution of sparse indefinite systems of linear equations",
    SIAM Journal on Numerical Analysis 12 (1975), 617-629.

    Examples
    --------
    >>> A = torch.tensor([[0.0, 2.0], [2.0, 3.0]])
    >>> torch.round(minres(A.mv, torch.tensor([2.0, 5.0])), decimals=4)
    tensor([1., 1.])
    """
    return solution_with_gradient(
        "minres", _MinresSteps, (A, A, None), y, x0, max_num_iters, tol, watching
    )


class _MinresSteps(SquareSteps):
    """The recurrences of Paige and Saunders, which start at the residual."""

    def __init__(self, system: SquareSystem, _: Operator | None) -> None:
        self.system = system
        self.begin()

    def begin(self) -> None:
        """Start at the residual that was computed anew."""
        system = self.system
        self.moved, self.v = system.x, system.residual / (system.misfit or 1.0)
        self.before = torch.zeros_like(system.y)
        self.older, self.old = torch.zeros_like(system.x), torch.zeros_like(system.x)
        self.beta, self.said, self.drift = 0.0, system.misfit, 0.0
        self.cosine, self.sine, self.delta_bar, self.epsilon = -1.0, 0.0, 0.0, 0.0

    def x(self) -> Tensor:
        """Return x."""
        return self.moved

    def step(self) -> Measured:
        """Add a direction; begin anew when x is computed anew."""
        system, v, precision = self.system, self.v, torch.finfo(self.system.dtype).eps
        image = system.forward(v)
        pairs = [(v, image), (self.before, image)]
        alpha, cross, norm_of_image = system.space.measured(pairs, [image])
        rest = torch.sub(image, self.before, alpha=self.beta).sub_(alpha.real * v)
        norm_of_rest = system.space.norm(rest)
        curvature, crossed, left, norm = host_numbers(alpha, cross, norm_of_rest, norm_of_image)
        system.note_norm(norm)
        rounding = 8 * precision * system.norm
        # A vector is a difference over beta, so a small beta raises its loss of orthogonality.
        drift = (system.norm * self.drift + rounding) / self.beta if self.beta else 0.0
        self.drift = min(drift, 1.0)
        _check_hermitian(system, curvature, crossed - self.beta, 2 * system.norm * self.drift)
        self.beta = beta = left if left > rounding else 0.0
        delta = self.cosine * self.delta_bar + self.sine * curvature.real
        gamma_bar = self.sine * self.delta_bar - self.cosine * curvature.real
        old_epsilon, self.epsilon = self.epsilon, self.sine * beta
        self.delta_bar = -self.cosine * beta
        gradient = self.said * math.hypot(gamma_bar, self.delta_bar)  # |A r| of the previous x
        self.cosine, self.sine, gamma = rotation(gamma_bar, beta)
        limit = max(system.tol, precision) * system.norm * self.said
        is_end = gradient <= limit or gamma <= rounding
        if not is_end:
            direction = (v - old_epsilon * self.older - delta * self.old) / gamma
            self.older, self.old = self.old, direction
            self.moved = self.moved + (self.cosine * self.said) * direction
            self.said = abs(self.sine * self.said)
            is_end = self.said <= system.goal or not beta
        if not is_end:
            self.before, self.v = v, rest / beta
            return system.values(self.said), None
        reason = system.settled(self.moved, self.said)
        self.begin()
        return system.values(system.misfit), reason


def _check_hermitian(
    system: SquareSystem, curvature: complex, crossed: complex, noise: float
) -> None:
    """Raise an error unless v^H A v is real and u^H A v is the conjugate of v^H A u."""
    allowed = torch.finfo(system.dtype).eps ** 0.5 * system.norm + noise
    if abs(curvature.imag) > allowed or abs(crossed) > allowed:
        raise ValueError(
            f"minres: A must be Hermitian, got v^H A v = {curvature:.3g} and u^H A v - conj(v^H A "
            f"u) = {crossed:.3g} for unit vectors, where |A| is at least {system.norm:.3g}; gmres "
            "takes any square A"
        )
