"""Iteratively reweighted least squares: the p-norm of residuals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Unpack

import torch
from torch import Tensor

from linops_core.siblings import check_integer, check_real, check_vector, is_differentiated

from .._krylov._conjugate_steps import ConjugateSteps
from .._proximals._proximal import absolute_values, squared_magnitudes
from .._shared._checks import Operator, check_like
from .._shared._options import Watching, with_options
from .._shared._precision import OperatorPair, at_least_single, in_given_precision, rounding_of
from .._shared._products import LARGEST_OF_PRODUCTS
from .._shared._progress import Progress, SolverSteps
from .._shared._reports import Measured, StopReason, reason_of
from .._shared._space import Space, summed_over_processes, terms

_NAME = "irls"
_STEP_SIZES = (0.0, *(2.0**n for n in range(-5, 4)))
"""The multiples of a step at which the slope along it is known."""


@with_options(Watching)
def irls(
    A: Operator,
    y: Tensor,
    x0: Tensor | None = None,
    max_num_iters: int = 100,
    tol: float = 1e-4,
    *,
    p: float = 1.0,
    epsilon: float = 1e-3,
    damp: float = 0.0,
    max_cg_iters: int = 100,
    adjoint: Operator | None = None,
    **watching: Unpack[Watching],
) -> Tensor:
    r"""The x that minimises :math:`\frac1p \sum_n (|A x - y|_n^2 + e^2)^{p/2} + \frac{d^2}2 |x|^2`.

    With p = 1, the default, outliers in y have little influence (least absolute deviations). A step
    solves a weighted least-squares problem by conjugate gradients. Its weights are
    :math:`(|r|_n^2 + e_k^2)^{p/2 - 1}` with the residual r = y - A x, less a part of rank one for
    each n, which makes it a Newton step of the function and of its dual (Chan, Golub and Mulet).
    :math:`e_k` falls to e with the excess of the function.

    The function is convex. For all dual vectors u it is above its minimum by at most
    :math:`\sum_n (f(r_n) + f^*(u_n) - \mathrm{Re}\, \bar u_n r_n)` plus
    :math:`|A^H u - d^2 x| |x - x_*|`, where f is the first term of the function and :math:`f^*` its
    conjugate. The solver stops when this is at most ``tol`` times the function for the u of the
    last step or for the gradient of f, with the largest of the norms of x, of the x before and
    of the last step in place of :math:`|x - x_*|`.

    A step takes up to ``max_cg_iters`` products with A and its adjoint: about 60, or 5 s on one
    thread, for a diagonal A with 2^24 real unknowns.
    The solver keeps at most 16 vectors of the sizes of x and y. Gradients flow through the steps,
    whose sizes count as constants, and autograd then keeps all steps. They converge more slowly
    than the function: with the default ``tol`` they may err by 10 %, with 1e-12 by 1e-6.

    Parameters
    ----------
    tol : float
        Bound of the excess of the function over its minimum, relative to the function, as above.
    p : float
        Exponent of the norm of the residual, from 1 to 2.
    epsilon : float
        e, relative to the root mean square of y. Residuals below e count as squares.
    damp : float
        d. It must not be 0 if the columns of A are dependent.
    max_cg_iters : int
        Largest number of steps of conjugate gradients in one step.
    callback
        The ``values`` of a step are "gap", which ``tol`` bounds, and "objective", the function, in
        the unit of y.

    References
    ----------
    T. F. Chan, G. H. Golub and P. Mulet, "A nonlinear primal-dual method for total variation-based
    image restoration", SIAM Journal on Scientific Computing 20 (1999), 1964-1977.

    R. Chartrand and W. Yin, "Iteratively reweighted algorithms for compressive sensing", ICASSP
    (2008), 3869-3872.

    P. W. Holland and R. E. Welsch, "Robust regression using iteratively reweighted least-squares",
    Communications in Statistics: Theory and Methods 6 (1977), 813-827.

    Examples
    --------
    The median, which an outlier does not move:

    >>> from linops_core import Dense
    >>> A = Dense.from_einstr(torch.ones(5, 1), "MN,N->M")
    >>> torch.round(irls(A, torch.tensor([1.0, 2.0, 3.0, 4.0, 1000.0]), epsilon=1e-5), decimals=2)
    tensor([3.])
    """
    check_vector(_NAME, "y", y)
    check_integer(_NAME, "max_cg_iters", max_cg_iters, 1)
    tol, damp = check_real(_NAME, "tol", tol, 0), check_real(_NAME, "damp", damp, 0)
    progress = Progress(_NAME, max_num_iters, watching, goals={"gap": tol})
    p = check_real(_NAME, "p", p, 0)
    epsilon = check_real(_NAME, "epsilon", epsilon, above=0)
    if not 1 <= p <= 2:
        raise ValueError(f"{_NAME}: p must be between 1 and 2, got {p}")
    pair, inner = OperatorPair(_NAME, A, adjoint, y.dtype), Progress(_NAME, max_cg_iters)
    steps = _IrlsSteps(pair, y, x0, inner, tol=tol, p=p, epsilon=epsilon, damp=damp)
    return progress.follow(steps, steps.measured(torch.zeros_like(steps.x)))


class _IrlsSteps(SolverSteps):
    """x, its residual and the dual vector, in a unit in which y is near 1."""

    loss = gap = estimate = 0.0
    reach = math.inf
    """The norm of x before."""

    def __init__(
        self,
        pair: OperatorPair,
        y: Tensor,
        x0: Tensor | None,
        inner: Progress,
        *,
        tol: float,
        p: float,
        epsilon: float,
        damp: float,
    ) -> None:
        self.inner, self.tol, self.p = inner, tol, p
        self.unit = unit = pair.output.unit_of(_NAME, at_least_single(y))
        scaled = at_least_single(y) / unit
        back = pair.adjoint(scaled)
        unit_of_A = pair.input.unit_of(_NAME, back)
        pair, unit_of_A = pair.in_moderate_unit(unit_of_A, LARGEST_OF_PRODUCTS, back)
        self.pair, self.unit_of_x = pair, unit / unit_of_A
        # A product of large numbers is infinite, where a power of one raises OverflowError.
        root = damp / unit_of_A * unit ** (1 - p / 2)
        self.damping = root * root
        (self.norm_of_y,) = pair.norms_of([], [scaled])
        self.count = max(pair.output.count(y), 1)
        self.softer = (self.norm_of_y or 1.0) / math.sqrt(self.count)
        """The e of the weights."""
        e: float | Tensor = epsilon * self.softer
        if self.norm_of_y and is_differentiated(scaled):  # e depends on y
            e = pair.output.norm(scaled) * (epsilon / math.sqrt(self.count))
        self.misfit = _Misfit(p, e)
        self.x = torch.zeros_like(back) if x0 is None else at_least_single(x0) / self.unit_of_x
        image = pair.forward(self.x)
        check_like(_NAME, "the output of A", image, "y", scaled)
        self.residual = scaled - image
        """y - A x, from which each step subtracts its image. Computed anew, the smallest entries,
        which have the largest weights, would be rounding."""
        self.dual = self.misfit.slopes(self.residual)

    def step(self) -> Measured:
        """Do a Newton step, with softer weights while the excess of the function is large."""
        pair, misfit = self.pair, self.misfit
        excess = (self.p * self.gap * self.loss / (2 * self.count)) ** (1 / self.p)
        self.softer = min(self.softer, excess)
        weights = _Weights(_Misfit(self.p, max(misfit.e, self.softer)), self.residual, self.dual)
        self.dual = weights.dual  # the dual before is not needed any more, and would take memory
        step = self.newton_step(weights)
        image = pair.forward(step)
        dual = weights.slopes - weights(image)  # its adjoint image is d^2 (x + step)
        step_size = self.step_size(weights.misfit, step, image)
        self.x = torch.add(self.x, step, alpha=step_size)
        self.residual = torch.sub(self.residual, image, alpha=step_size)
        self.dual = weights.misfit.shortened(dual, self.residual)
        # Vectors are deleted after their last use, so that at most 16 exist at a time.
        del weights, image, dual
        return self.measured(step)

    def newton_step(self, weights: _Weights) -> Tensor:
        """Return the solution of the weighted problem."""
        pair, damping = self.pair, self.damping

        def normal(x: Tensor) -> Tensor:
            return torch.add(pair.adjoint(weights(pair.forward(x))), x, alpha=damping)

        descent = torch.sub(pair.adjoint(weights.slopes), self.x, alpha=damping)
        # The weights are linear over the reals only.
        vectors = Space(pair.input.totals, has_complex_products=False)
        gtol = min(0.1, max(self.tol / (4 * self.estimate), 1e-4))
        system = ConjugateSteps(normal, None, vectors, descent, None, (gtol, 0.0), pair.dtype)
        return system.solve(self.inner)

    @torch.no_grad()
    def step_size(self, misfit: _Misfit, step: Tensor, image: Tensor) -> float:
        """Return about the multiple of the step with the least function, which is convex."""

        def of_misfit(residual: Tensor, image: Tensor) -> Tensor:
            ahead = (torch.sub(residual, image, alpha=each) for each in _STEP_SIZES)
            return torch.stack([-_products(image, misfit.slopes(r)).sum() for r in ahead])

        def of_square(x: Tensor, step: Tensor) -> Tensor:
            ahead = (torch.add(x, step, alpha=each) for each in _STEP_SIZES)
            return torch.stack([self.damping * _products(step, x).sum() for x in ahead])

        totals = summed_over_processes(
            terms(self.pair.output, of_misfit, self.residual, image),
            terms(self.pair.input, of_square, self.x, step),
        )
        slopes: list[float] = (totals[0].double().cpu() + totals[1].double().cpu()).tolist()
        for (a, b), (low, high) in zip(pairwise(_STEP_SIZES), pairwise(slopes), strict=True):
            if low < 0 <= high:
                return a + (b - a) * low / (low - high)
        return _STEP_SIZES[-1] if slopes[0] < 0 else 0.0

    @torch.no_grad()
    def measured(self, step: Tensor) -> Measured:
        """Measure the function and a bound of its excess."""
        pair, misfit, x, residual, dual = self.pair, self.misfit, self.x, self.residual, self.dual
        forces = misfit.slopes(residual)
        slopes = pair.adjoint(forces)
        check_like(_NAME, "x0", x, "the output of the adjoint", slopes)
        descent = torch.sub(slopes, x, alpha=self.damping)
        del slopes
        defect = torch.sub(pair.adjoint(dual), x, alpha=self.damping)
        slope, error, norm_of_x, moved, pull, norm_of_residual = pair.norms_of(
            [descent, defect, x, step], [forces, residual]
        )
        height, square, distance = summed_over_processes(
            terms(pair.output, misfit.total, residual),
            terms(pair.input, lambda x: x.abs().square().sum(), x),
            terms(pair.output, misfit.distance, residual, dual),
        )
        self.loss = loss = float(height) + self.damping / 2 * float(square)
        longest = max(norm_of_x, self.reach, moved)
        self.estimate = slope * longest / (loss or 1.0) if slope else 0.0
        self.gap = min(self.estimate, (float(distance) + error * longest) / (loss or 1.0))
        noise = rounding_of(pair.dtype) * pull * (self.norm_of_y + norm_of_residual) / (loss or 1.0)
        reason = reason_of(self.gap, self.tol, noise) if slope else StopReason.CONVERGED
        self.reach = norm_of_x
        root = self.unit ** (self.p / 2)
        return {"gap": self.gap, "objective": loss * root * root}, reason

    def result(self) -> Tensor:
        """Return x in the unit of y."""
        dtype, space, unit = self.pair.dtype, self.pair.input, self.unit_of_x
        return in_given_precision(_NAME, self.x, dtype, unit, space, of_y=self.unit)


@dataclass(frozen=True)
class _Misfit:
    """f(r) = (|r|^2 + e^2)^(p/2) / p of each residual r."""

    p: float
    e: float | Tensor

    def weights(self, residual: Tensor) -> Tensor:
        """Return the slopes over the residuals."""
        return self.squares(residual) ** (self.p / 2 - 1)

    def slopes(self, residual: Tensor) -> Tensor:
        """Return the gradient of f."""
        return self.weights(residual) * residual

    def squares(self, residual: Tensor) -> Tensor:
        """Return |r|^2 + e^2."""
        return squared_magnitudes(residual) + self.e**2

    def total(self, residual: Tensor) -> Tensor:
        """Return the sum of f."""
        return self.squares(residual).pow(self.p / 2).sum() / self.p

    def shortened(self, dual: Tensor, residual: Tensor) -> Tensor:
        """Return the dual with entries of at most the magnitude at which weights are positive."""
        return dual / (absolute_values(dual) / self.squares(residual) ** ((self.p - 1) / 2)).clamp(
            min=1
        )

    def distance(self, residual: Tensor, dual: Tensor) -> Tensor:
        """Return a bound of the sum of f(r) + f*(u) - Re u^* r: 0 if u is the gradient."""
        height, magnitude = self.squares(residual).pow(self.p / 2) / self.p, absolute_values(dual)
        # For all b, u r - f(r) <= |(u, b)| |(r, e)| - |(r, e)|^p / p - b e, which is largest at
        # |(u, b)|^q / q - b e.
        if self.p == 1:  # the conjugate is infinite unless |(u, b)| <= 1
            conjugate = -self.e * (1 - magnitude.square()).clamp(min=0).sqrt()
        else:
            q, b = self.p / (self.p - 1), self.e * self.weights(residual)
            conjugate = (magnitude.square() + b.square()) ** (q / 2) / q - self.e * b
        return (height + conjugate - _products(dual, residual)).sum()


class _Weights:
    """The matrix of a Newton step at residuals and dual vectors, block-diagonal and positive.

    For each entry it is the weight, less 2 - p times the symmetric part of dual and residual, which
    takes v to (Re u r^* v + u r v^*) / 2 for the dual u.
    """

    def __init__(self, misfit: _Misfit, residual: Tensor, dual: Tensor) -> None:
        self.misfit = misfit
        self.dual = misfit.shortened(dual, residual)
        weights = misfit.weights(residual)
        self.slopes = weights * residual
        """The gradient of the misfit."""
        rate = (1 - misfit.p / 2) / misfit.squares(residual)
        self.factor = weights - rate * _products(self.dual, residual)
        self.turned = rate * self.dual * residual
        if not residual.is_complex():  # v^* is v
            self.factor = self.factor - self.turned

    def __call__(self, v: Tensor) -> Tensor:
        product = self.factor * v
        return product - self.turned * v.conj() if v.is_complex() else product


def _products(x: Tensor, z: Tensor) -> Tensor:
    """Return Re x^* z of each pair of entries."""
    return (x.conj() * z).real if x.is_complex() else x * z
