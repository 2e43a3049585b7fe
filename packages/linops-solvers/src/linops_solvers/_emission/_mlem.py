"""MLEM: the most likely x for Poisson counts, by expectation maximisation."""

from __future__ import annotations

from typing import Unpack, cast

import torch
from torch import Tensor

from .._proximals._poisson import checked_counts
from .._proximals._proximal import fitted_weight
from .._shared._options import Checkpointed, with_options
from .._shared._space import spaces_of
from .._shared._stacked import (
    Operators,
    StackedOperators,
    Vectors,
    one_vector,
    stacked_operator,
)
from ._counted import Backgrounds, Counted, one_background_each
from ._expectation_maximization import ExpectationMaximization


@with_options(Checkpointed)
def mlem(
    A: Operators,
    y: Vectors,
    x0: Tensor | None = None,
    max_num_iters: int = 50,
    tol: float = 0.0,
    *,
    background: Backgrounds = 0.0,
    adjoint: Operators | None = None,
    **watching: Unpack[Checkpointed],
) -> Tensor:
    r"""The x >= 0 that makes Poisson counts y with the mean A x + b most likely.

    A step of expectation maximisation (EM) is

    .. math:: x' = \frac{x}{A^H 1} \, A^H \frac{y}{A x + b} .

    No step decreases the likelihood or makes an entry negative. Without a background, the expected
    counts :math:`\sum_n (A x)_n` are those of y after every step. A step applies A and its adjoint
    once. The steps converge slowly, and late ones fit the noise: stop early, or use
    :func:`pdhg` with :func:`poisson_likelihood` and a penalty. :func:`osem` is faster.
    :func:`richardson_lucy` is the same for a convolution.

    0 / 0 counts as 0. Entries of x that A does not see become 0, and zeros of x0 stay. Rounding of
    A, as of a convolution by Fourier transforms, shows in negative entries of A x and of
    :math:`A^H 1`. Means and sensitivities within 4 times the largest of these are rounding, too:
    such means are raised to that bound, and such entries of x are not seen.

    The solver keeps at most three vectors of the input and three of the output. Results of A and of
    its adjoint are among them. It waits for the device twice in a step. Gradients flow through the
    steps, also to x0, and autograd keeps all steps; the default x0 counts as a constant.

    Parameters
    ----------
    A : NamedLinop or function, or a sequence of them
        Real, without negative entries.
    y : Tensor, or a sequence of them
        Counts, at least 0, as floating-point numbers.
    x0 : Tensor, optional
        At least 0. Default: a constant with as many expected counts as y has.
    tol : float
        Stop when a step changes x by at most this: :math:`|x' - x| \le \mathrm{tol} |x'|`. By
        default all steps are done.
    background : float or Tensor, or a sequence of them for several operators
        b, the expected counts for x = 0, broadcast to y: scatter, random coincidences, stray light.
    callback
        The ``values`` of a step are "change", which ``tol`` bounds, and "objective", the function
        of :func:`poisson_likelihood` at A x: 0 for a perfect fit.

    Raises
    ------
    TypeError
        If y or A is complex.
    ValueError
        If y, x0 or the background is negative; if A x or :math:`A^H 1` is, by more than rounding;
        or if there are counts where A x0 + b is 0.

    References
    ----------
    L. A. Shepp and Y. Vardi, "Maximum likelihood reconstruction for emission tomography", IEEE
    Transactions on Medical Imaging 1 (1982), 113-122.

    Examples
    --------
    >>> from linops_core import Dense
    >>> A = Dense(torch.tensor([[1.0, 0.0], [1.0, 2.0]]), ("M", "N"), ("N",), ("M",))
    >>> mlem(A, torch.tensor([3.0, 11.0]), max_num_iters=200)
    tensor([3.0000, 4.0000])
    """
    owner = "mlem"
    A, adjoint = stacked_operator(owner, "A", A, adjoint)
    vector = one_vector(owner, "y", y, A)
    if isinstance(A, StackedOperators):
        background, space = _joined(owner, background, y, A), A.spaces()[0]
    else:
        space = spaces_of(owner, A)[0]

    def counted() -> list[Counted]:
        return [Counted(owner, A, adjoint, vector, cast(Tensor, background))]

    return ExpectationMaximization(owner, x0, max_num_iters, tol, watching, space, counted).solve()


def _joined(owner: str, background: Backgrounds, y: Vectors, A: StackedOperators) -> float | Tensor:
    """Return the background of the joined outputs."""
    whole = []
    for given, block in zip(one_background_each(owner, background, A), y, strict=True):
        number = checked_counts(owner, "background", given)
        whole.append(fitted_weight(owner, number, block, "background") + torch.zeros_like(block))
    return A.joined(whole)
