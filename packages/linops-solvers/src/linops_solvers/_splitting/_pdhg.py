"""The primal-dual hybrid gradient method of Chambolle and Pock."""

from __future__ import annotations

import math
from typing import NamedTuple, Unpack

import torch
from torch import Tensor

from linops_core.siblings import check_real, check_vector

from .._proximals._proximal import Proximal, map_sketch
from .._proximals._separable import Proximals, map_of_all_blocks
from .._shared._adjoint_check import check_adjoint
from .._shared._checks import check_like, check_unchanged, version_of
from .._shared._options import Checkpointed, with_options
from .._shared._precision import OperatorPair, at_least_single, in_given_precision, rounding_of
from .._shared._progress import Progress, SolverSteps
from .._shared._reports import Measured, StopReason, reason_of_both
from .._shared._stacked import Operators, StackedOperators, Vectors, one_vector, stacked_operator
from .._spectral._power_method import norm_of
from ._problem import TwoFunctions, floors_of
from ._scales import first_sigma

_NAME = "pdhg"


@with_options(Checkpointed)
def pdhg(
    K: Operators,
    proximal_f: Proximals,
    proximal_g: Proximal,
    x0: Tensor,
    max_num_iters: int = 500,
    *,
    p0: Vectors | None = None,
    tau: float | None = None,
    sigma: float | None = None,
    eps_abs: float = 0.0,
    eps_rel: float = 1e-4,
    adjoint: Operators | None = None,
    **watching: Unpack[Checkpointed],
) -> Tensor:
    r"""The x that minimises :math:`f(K x) + g(x)` for convex f and g with proximal maps.

    With the dual variable p a step is

    .. math:: p' = \mathrm{prox}_{\sigma f^*}(p + \sigma K (2 x - x_{-1})), \quad
              x' = \mathrm{prox}_{\tau g}(x - \tau K^H p'),

    where :math:`x_{-1}` is the x of the step before. The steps converge if
    :math:`\tau \sigma |K|^2 \le 1`. A step applies K and its adjoint once.

    The solver keeps at most five vectors of the input and six of the output. Results of K, of its
    adjoint and of the proximal maps are among them. It waits for the device once in a step.
    Gradients flow through the steps, and autograd keeps all steps; tau and sigma count as
    constants.

    Parameters
    ----------
    K : NamedLinop or function
        The operator. A function maps a tensor to a new tensor.
    proximal_f, proximal_g : function
        The proximal maps of f and g: functions of z and t, such as :func:`soft_threshold`. The
        proximal map of the conjugate of f is derived from that of f. If K is a sequence of
        operators, proximal_f is a sequence, and f(K x) is the sum of all :math:`f_k(K_k x)`.
    x0 : Tensor
        The first x; the result has its shape and dtype.
    p0 : Tensor, optional
        The first dual variable, of the shape and dtype of the output; zero by default.
    adjoint : function, optional
        The adjoint of K. A function needs it, a NamedLinop has one.
    tau, sigma : float, optional
        Step sizes. One that is not given follows from an estimate of the norm of K, and is reduced
        if a step shows a larger norm. If neither is given, the proximal maps show the scales of f
        and g at some x, so that sigma is near :math:`|p| / (|K| |x|)`. The units of K, y and x then
        do not matter where products of four such numbers are in the range of the dtype, and each of
        several operators gets a unit of its own (a preconditioner, Pock and Chambolle 2011). If no
        map shows a scale, tau and sigma are equal. If both are given and are too large, a
        ValueError is raised.
    eps_abs, eps_rel : float
        Stop when both optimality conditions hold within these tolerances. The primal vector is
        :math:`(x - x') / \tau \in \partial g(x') + K^H p'`; its norm must be at most
        :math:`\sqrt n \, \epsilon_{abs} + \epsilon_{rel} |K| |p'|`. The dual vector is
        :math:`(p - p') / \sigma + K (2 x - x_{-1} - x') \in \partial f^*(p') - K x'`; its norm must
        be at most :math:`\sqrt m \, \epsilon_{abs} + \epsilon_{rel} |K| |x'|`. n and m are the
        numbers of their entries. For several operators without tau and sigma, both norms count
        each output in its own unit, which is 1 for the first one. If both maps keep 0, the solution
        may be 0, and :math:`|p'|` and :math:`|x'|` are those of the largest vectors so far.
    callback
        The ``values`` of a step are "primal" and "dual", the norms of these two vectors, "tau",
        "sigma" and, if both functions are known, "objective", which is infinite outside of a set.

    References
    ----------
    A. Chambolle and T. Pock, "A first-order primal-dual algorithm for convex problems with
    applications to imaging", Journal of Mathematical Imaging and Vision 40 (2011), algorithm 1.

    T. Pock and A. Chambolle, "Diagonal preconditioning for first order primal-dual algorithms in
    convex optimization", ICCV (2011), 1762-1769: a step for each output converges.

    T. Goldstein, M. Li and X. Yuan, "Adaptive primal-dual splitting methods for statistical
    learning and image processing", NIPS 28 (2015), for the residuals.

    Examples
    --------
    The point of a line that is nearest to another one:

    >>> from linops_core import Dense
    >>> from linops_solvers import l2_ball, l2_squared
    >>> K = Dense.from_einstr(torch.tensor([[1.0, 1.0]]), "MN,N->M")
    >>> on_the_line = l2_ball(0.0, center=torch.tensor([2.0]))
    >>> near = l2_squared(1.0, center=torch.tensor([3.0, 2.0]))
    >>> torch.round(pdhg(K, on_the_line, near, torch.zeros(2)), decimals=2)
    tensor([1.5000, 0.5000])
    """
    check_vector(_NAME, "x0", x0)
    eps_abs = check_real(_NAME, "eps_abs", eps_abs, 0)
    eps_rel = check_real(_NAME, "eps_rel", eps_rel, 0)
    dtype = x0.dtype
    K, adjoint = stacked_operator(_NAME, "K", K, adjoint)
    pair = OperatorPair(_NAME, K, adjoint, dtype, "K")
    progress = Progress(_NAME, max_num_iters, watching, space=pair.input)
    penalty = map_of_all_blocks(_NAME, "proximal_f", proximal_f, K, pair.output)
    maps = (penalty, pair.output), (proximal_g, pair.input)
    functions = TwoFunctions(_NAME, *maps, dtype)
    if p0 is not None:
        p0 = one_vector(_NAME, "p0", p0, K)
        check_vector(_NAME, "p0", p0)
    tau, sigma = (
        given if given is None else check_real(_NAME, name, given, above=0)
        for name, given in (("tau", tau), ("sigma", sigma))
    )
    options = _Options(tau, sigma, eps_abs, eps_rel)
    if tau is None and sigma is None:
        sigma = first_sigma(pair, functions.f, proximal_f, functions.g, at_least_single(x0))
        if p0 is not None and isinstance(K, StackedOperators):
            p0 = K.in_units(K.split(p0), -1)
    steps = _PdhgSteps(pair, functions, progress, options, x0, p0, sigma)
    del p0  # or this name would keep it in memory until the last step
    values = {"primal": math.inf, "dual": math.inf}
    values |= {"tau": steps.tau, "sigma": steps.sigma}
    return progress.follow(steps, (values, None))


class _Options(NamedTuple):
    tau: float | None
    sigma: float | None
    eps_abs: float
    eps_rel: float


class _PdhgSteps(SolverSteps):
    """x and the dual variable p, with the images of x and of 2 x less the x before."""

    def __init__(
        self,
        pair: OperatorPair,
        functions: TwoFunctions,
        progress: Progress,
        options: _Options,
        x0: Tensor,
        p0: Tensor | None,
        sigma: float | None,
    ) -> None:
        self.pair, self.functions, self.progress, self.options = pair, functions, progress, options
        self.are_given, x = None not in options[:2], at_least_single(x0).clone()
        image = pair.forward(pair.input.random_like(x.detach())).clone()
        back = pair.adjoint(image)
        check_like(_NAME, "the output of the adjoint", back, "x0", x)
        check_adjoint(pair, image, back)
        del image, back
        step_sizes = _first_step_sizes(pair, x, options.tau, sigma)
        if self.are_given:
            _check_step_sizes(*step_sizes)
        image = pair.forward(x)
        p = torch.zeros_like(image) if p0 is None else at_least_single(p0).clone()
        check_like(_NAME, "p0", p, "the output of K", image)
        self.x, self.p, self.image, self.ahead = x, p, image, image.clone()
        self.tau, self.sigma, self.norm = step_sizes
        # If both maps keep 0, x and p may fall for ever. Only the largest ones show a scale then.
        with torch.no_grad():
            of_f = functions.f(torch.zeros_like(p), 1 / self.sigma)
            of_g = functions.g(torch.zeros_like(x), self.tau)
        mapped = (pair.output, of_f), (pair.input, of_g)
        self._may_vanish = not any([float(space.sum_of(_has_entry, z)) for space, z in mapped])
        self.largest_x, self.largest_p = pair.norms_of([x], [p])
        self._floors = floors_of(options.eps_abs, (pair.input, x), (pair.output, p))

    def fingerprint(self) -> dict[str, object]:
        """Return what tells this problem from others, for a checkpoint."""
        pair, functions, x = self.pair, self.functions, self.x
        vectors = {"x0": (pair.input, x), "p0": (pair.output, self.p), **pair.sketch(x)}
        image, random = vectors["K"][1], pair.input.random_like(x)
        of_f, of_g = (
            map_sketch(functions.f, image, pair.dtype),
            map_sketch(functions.g, random, pair.dtype),
        )
        maps = {"f": (pair.output, of_f), "g": (pair.input, of_g)}
        maps_of_names = {f"the proximal map of {name}": vector for name, vector in maps.items()}
        return {**self.options._asdict(), **vectors, **maps_of_names}

    def step(self) -> Measured:
        """Apply the proximal map of the conjugate of f for p, and that of g for x."""
        functions, pair = self.functions, self.pair
        if self.are_given:
            _check_step_sizes(self.tau, self.sigma, self.norm)
        precision, rounding = torch.finfo(pair.dtype).eps, rounding_of(pair.dtype)
        x, p, image, ahead = self.x, self.p, self.image, self.ahead
        # Vectors are deleted after their last use, so that at most eleven exist at a time.
        del self.ahead
        versions = version_of(x), version_of(image)
        tau, sigma, norm = self.tau, self.sigma, self.norm
        # The proximal map of the conjugate of f, by the identity of Moreau.
        p_new = torch.add(p, ahead, alpha=sigma)
        mapped = functions.f(p_new / sigma, 1 / sigma)
        self.p = p_new = torch.sub(p_new, mapped, alpha=sigma)
        of_p = p - p_new
        del mapped, p
        back = pair.adjoint(p_new)
        check_like(_NAME, "the output of the adjoint", back, "x0", x)
        x_new = functions.g(torch.sub(x, back, alpha=tau), tau)
        del back
        check_unchanged(_NAME, "the proximal map of g", x, versions[0], x_new)
        image_new = pair.forward(x_new)
        check_unchanged(_NAME, "K", image, versions[1], image_new)
        ahead = torch.add(ahead - image_new, of_p, alpha=1 / sigma)
        self.ahead, change = torch.lerp(image, image_new, 2.0), image - image_new
        self.image = image_new
        del image, image_new
        moved, norm_of_x, bent, dual, norm_of_p, p_moved = pair.norms_of(
            [x - x_new, x_new], [change, ahead, p_new, of_p]
        )
        primal = moved / tau
        weight, scale_of_x, scale_of_p = self.options.eps_rel * norm, norm_of_x, norm_of_p
        if self._may_vanish:
            self.largest_x = scale_of_x = max(norm_of_x, self.largest_x)
            self.largest_p = scale_of_p = max(norm_of_p, self.largest_p)
        goals = self._floors[0] + weight * scale_of_p, self._floors[1] + weight * scale_of_x
        self.progress.goals.update(primal=goals[0], dual=goals[1])
        tiny = torch.finfo(self.x.dtype).tiny  # smaller moves are lost
        of_primal = rounding * (norm_of_x / tau + norm * norm_of_p) + tiny / tau
        of_dual = rounding * (norm_of_p / sigma + norm * norm_of_x) + tiny / sigma
        reason = reason_of_both((primal, dual), goals, (of_primal, of_dual))
        if moved <= precision * norm_of_x and p_moved <= precision * norm_of_p:
            reason = reason or StopReason.ROUNDING
        self.x = x_new
        del x, ahead, change, x_new, p_new, of_p
        # Moves of x and of K x that are only rounding have any ratio, also one above the norm.
        shown = 0.0
        if moved > 16 * precision * norm_of_x:
            shown = (bent - 2 * rounding * norm * norm_of_x) / moved
        if shown > norm * (1 + 1e-3):
            self.norm = shown
            if not self.are_given:
                excess = max(math.sqrt(tau * sigma) * shown / 0.99, 1.0)
                self.tau, self.sigma = tau / excess, sigma / excess
        values = {"primal": primal, "dual": dual, "tau": tau, "sigma": sigma}
        return values, reason

    def shown(self) -> dict[str, float]:
        """Return the objective."""
        return self.functions.objective(self.image, lambda: self.x)

    def result(self) -> Tensor:
        """Return x in the precision of x0."""
        return in_given_precision(_NAME, self.x, self.pair.dtype)


def _has_entry(piece: Tensor) -> Tensor:
    return (piece != 0).any().float()


def _first_step_sizes(
    K: OperatorPair, x0: Tensor, tau: float | None, sigma: float | None
) -> tuple[float, float, float]:
    """Return tau, sigma, and a lower estimate of the norm of K."""
    with torch.no_grad():
        norm = float(norm_of(K, K.input.random_like(x0), 30, 1e-3))
    longest = 0.99 / (norm or 1.0)  # the largest tau and sigma if both are equal
    if tau is None:
        tau = longest if sigma is None else longest**2 / sigma
        sigma = longest if sigma is None else sigma
    sigma = longest**2 / tau if sigma is None else sigma
    if not 1 / (most := torch.finfo(x0.dtype).max) <= min(tau, sigma) <= max(tau, sigma) <= most:
        raise ArithmeticError(
            f"{_NAME}: tau and sigma must be in the range of {x0.dtype}, got {tau:.6g} and "
            f"{sigma:.6g}; give x, the maps and K in other units"
        )
    return tau, sigma, norm


def _check_step_sizes(tau: float, sigma: float, norm: float) -> None:
    if tau * sigma * norm**2 > 1 + 1e-3:
        raise ValueError(
            f"{_NAME}: tau and sigma must satisfy tau sigma |K|^2 <= 1, got {tau:.6g} and "
            f"{sigma:.6g} for a norm of at least {norm:.6g}"
        )
