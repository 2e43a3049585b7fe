"""MINRES: Hermitian systems, also indefinite ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Unpack

import torch
from torch import Tensor

from linops_core.siblings import inner

from .._shared._checks import Operator
from .._shared._progress import Iterate, StopReason, Watching, with_options
from ._bidiagonal import rotation
from ._square_system import SquareSystem, solved


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
    A, y, x0, max_num_iters, progress, tqdm_kwargs, callback
        See :mod:`linops_solvers`. The ``values`` of a step are "residual",
        :math:`|A x - y| / |y|`.

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

    def method(system: SquareSystem, M: object) -> tuple[Iterator[Iterate[Tensor]], Operator]:
        return _steps(system), lambda x: x

    return solved("minres", method, (A, A, None), y, x0, max_num_iters, tol, watching)


def _steps(system: SquareSystem) -> Iterator[Iterate[Tensor]]:
    yield system.x, system.values(system.length), system.reason_at_start()
    while True:  # starting at the residual that was computed anew
        for x, said, reason in _lanczos(system):
            yield x, system.values(said), reason


def _lanczos(system: SquareSystem) -> Iterator[tuple[Tensor, float, StopReason | None]]:
    """Yield the x of each step, its residual, and the reason to stop; names of the reference."""
    precision = torch.finfo(system.dtype).eps
    x, v, before = system.x, system.residual / system.length, torch.zeros_like(system.y)
    older, old = torch.zeros_like(x), torch.zeros_like(x)
    beta, said, drift = 0.0, system.length, 0.0
    cosine, sine, delta_bar, epsilon = -1.0, 0.0, 0.0, 0.0
    while True:
        image = system.forward(v)
        size, alpha, cross = system.measured(image, inner(v, image), inner(before, image))
        rest = torch.sub(image, before, alpha=beta).sub_(alpha.real * v)
        rest_size = system.space.norm(rest)
        numbers = torch.stack([alpha, cross, rest_size.to(alpha), size.to(alpha)]).tolist()
        curvature, crossed, left, length = map(complex, numbers)
        system.note_norm(length.real)
        rounding = 8 * precision * system.norm
        # Loss of orthogonality of the vectors, each of which is a difference.
        drift = min((system.norm * drift + rounding) / beta, 1.0) if beta else 0.0
        _check_hermitian(system, curvature, crossed - beta, 2 * system.norm * drift)
        beta = left.real if left.real > rounding else 0.0
        delta = cosine * delta_bar + sine * curvature.real
        gamma_bar = sine * delta_bar - cosine * curvature.real
        old_epsilon, epsilon, delta_bar = epsilon, sine * beta, -cosine * beta
        gradient = said * math.hypot(gamma_bar, delta_bar)  # |A r| of the previous x
        cosine, sine, gamma = rotation(gamma_bar, beta)
        if gradient <= max(system.tol, precision) * system.norm * said or gamma <= rounding:
            reason = system.settled(x, said)
            yield system.x, system.length, reason
            return
        older, old = old, (v - old_epsilon * older - delta * old) / gamma
        x = x + (cosine * said) * old
        said = abs(sine * said)
        if said <= system.goal or not beta:
            reason = system.settled(x, said)
            yield system.x, system.length, reason
            return
        yield x, said, None
        before, v = v, rest / beta


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
