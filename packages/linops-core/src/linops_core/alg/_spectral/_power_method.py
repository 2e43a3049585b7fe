"""The largest eigenvalue, and the norm, by applying an operator again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from .._shared._checks import (
    Operator,
    check_count,
    check_vector,
    checked_number,
    finite,
    in_own_space,
)
from .._shared._graphs import solved_in_steps
from .._shared._precision import OperatorPair, applied_in_half, narrowed, rounding_of, widened
from .._shared._progress import Callback, Iterate, Progress, StopReason
from .._shared._vectors import BatchDims, BatchedVectors, batched_vectors, input_or_random


def power_method(
    A: Operator,
    v_init: Tensor,
    max_iters: int = 50,
    tol: float = 1e-5,
    *,
    batch_dims: BatchDims = 0,
    tqdm_kwargs: Mapping[str, object] | None = None,
    callback: Callback | None = None,
) -> tuple[Tensor, Tensor]:
    """The eigenvector of the largest eigenvalue in magnitude, and that magnitude.

    A step replaces v by :math:`A v / |A v|`. For a normal A (one that commutes with its adjoint,
    so for every Hermitian A) :math:`|A v|` rises with every step, towards the magnitude of the
    largest eigenvalue of which v_init has a part, and its error is the square of that of v.
    Where several eigenvalues have this magnitude, v is in the span of their eigenvectors.

    It keeps v, the next one and what A returns, and waits for the device once in a step; gradients
    flow through the steps. With ``tol=0`` and no callback it goes into a compiled or exported
    graph, as :func:`conjugate_gradients` does: ``max_iters`` steps, and NaN where v_init is zero.

    Parameters
    ----------
    A : NamedLinop or function
        From tensors of the shape of v_init to such tensors; the names may differ.
    v_init : Tensor
        Where to begin: a random vector; a ValueError if it is zero.
    tol : float
        Stop when the magnitude changes by no more than this, relatively; what is left may be more,
        where the next magnitude is close.
    batch_dims : int, or dimensions
        As of :func:`conjugate_gradients`; here all go on until the last has converged.
    max_iters, tqdm_kwargs, callback
        As ``max_num_iters`` and the others in :mod:`linops_core.alg`. The ``x`` of a step is v, its
        ``values`` are "eigenvalue" (the largest of all) and "change", relative (the largest).

    Returns
    -------
    v : Tensor
        Of norm 1.
    eigenvalue : Tensor
        The magnitude: real, of the shape of the batch dimensions. It is 0 if A v is. In half
        precision it is in single precision, which also holds what is past the range of float16.

    References
    ----------
    G. H. Golub and C. F. Van Loan, "Matrix computations" (2013), section 7.3.1.

    Examples
    --------
    >>> v, eigenvalue = power_method(torch.diag(torch.tensor([1.0, -3.0])).mv, torch.ones(2))
    >>> torch.round(eigenvalue, decimals=4)
    tensor(3.)
    """
    owner = "power_method"
    check_vector(owner, "v_init", v_init)
    check_count(owner, "max_iters", max_iters, 1)
    tol = checked_number(owner, "tol", tol)
    batch = batched_vectors(owner, A, v_init, batch_dims)
    dtype, wide = v_init.dtype, applied_in_half(owner, A, v_init.dtype)

    def solve() -> tuple[Tensor, Tensor]:
        progress = Progress(owner, max_iters, tqdm_kwargs, callback)
        steps = _steps(wide, widened(v_init), tol, batch, dtype)
        return progress.follow(steps, lambda found: narrowed(found[0], dtype).clone())

    def solve_in_graph() -> tuple[Tensor, Tensor]:
        return _fixed_steps(wide, widened(v_init), batch, max_iters)

    reading = {"tol": tol, "tqdm_kwargs": tqdm_kwargs, "callback": callback}
    v, eigenvalue = solved_in_steps(owner, reading, solve, solve_in_graph)
    return narrowed(v, dtype), eigenvalue.reshape([v.shape[axis] for axis in batch.axes])


def _steps(
    A: Operator, v: Tensor, tol: float, batch: BatchedVectors, dtype: torch.dtype, unit: float = 1.0
) -> Iterator[Iterate[tuple[Tensor, Tensor]]]:
    """Yield v and the eigenvalue; A, over the unit twice, rounds as numbers of the dtype do."""
    owner = "power_method"
    precision, rounding = torch.finfo(dtype).eps, rounding_of(dtype)
    eigenvalue, numbers = batch.magnitude(v)
    if not (numbers > 0).all():
        finite(owner, float(numbers.sum()))
        raise ValueError(f"{owner}: v_init must not be zero, got norms {numbers.tolist()}")
    v = v / eigenvalue
    numbers = torch.zeros_like(numbers)
    yield (v, eigenvalue), {}, None
    while True:
        before = numbers
        image = in_own_space(owner, A, v)
        eigenvalue, numbers = batch.magnitude(image)
        finite(owner, float(numbers.sum()), image.dtype)
        if (numbers > 0).all():
            v = image / eigenvalue
        else:
            v = torch.where(eigenvalue > 0, image / eigenvalue.where(eigenvalue > 0, 1), v)
        del image  # or it would still be there when the next one comes
        change = (numbers - before).abs()
        is_proved = change + rounding * numbers <= tol * numbers
        is_still = (change <= precision * numbers) & (tol < precision + rounding)
        reasons = [
            StopReason.CONVERGED if proved else StopReason.ROUNDING if still else None
            for proved, still in zip(is_proved.tolist(), is_still.tolist(), strict=True)
        ]
        values = {
            "eigenvalue": float(numbers.max()) * unit * unit if len(numbers) else 0.0,
            "change": float((change / numbers.where(numbers > 0, 1)).nan_to_num().max()),
        }
        yield (v, eigenvalue), values, reasons


def _fixed_steps(
    A: Operator, v: Tensor, batch: BatchedVectors, n_steps: int
) -> tuple[Tensor, Tensor]:
    """Return v and the eigenvalue after as many steps, of which no number is read."""
    unit = batch.unit(v)
    v = v / unit
    v = v / batch.norm(v)  # NaN if it is zero
    eigenvalue = batch.norm(v)
    for _ in range(n_steps):
        image = in_own_space("power_method", A, v)
        unit = batch.unit(image)
        image = image / unit
        size = batch.norm(image)
        v = torch.where(size == 0, v, image / torch.where(size == 0, 1, size))
        eigenvalue = size * unit
    return v, eigenvalue


def operator_norm(
    A: Operator,
    v_init: Tensor | None = None,
    max_iters: int = 100,
    tol: float = 1e-5,
    *,
    adjoint: Operator | None = None,
    like: Tensor | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    tqdm_kwargs: Mapping[str, object] | None = None,
    callback: Callback | None = None,
) -> Tensor:
    r"""The norm :math:`\max |A x| / |x|`, by the power method on :math:`A^H A`.

    It is approached from below: the result is at most the norm, but for rounding. It is real,
    without dimensions, and in single precision where A is in half. Memory and waits are those of
    :func:`power_method`; gradients flow through the steps.

    Parameters
    ----------
    tol : float
        Stop when the norm changes by no more than half of this, relatively.
    A, v_init, max_iters, adjoint, like, sizes, seed, tqdm_kwargs, callback
        See :mod:`linops_core.alg` and :func:`power_method`, whose "eigenvalue" is the square of the
        norm; v_init is random by default.

    References
    ----------
    G. H. Golub and C. F. Van Loan, "Matrix computations" (2013), sections 2.3.3 and 7.3.1.

    Examples
    --------
    >>> from linops_core import FFT
    >>> torch.round(operator_norm(FFT(1, norm="backward"), sizes={"Nx": 16}), decimals=4)
    tensor(4.)
    """
    owner = "operator_norm"
    check_count(owner, "max_iters", max_iters, 1)
    tol = checked_number(owner, "tol", tol)
    v, _ = input_or_random(owner, A, "v_init", v_init, sizes, seed, like)
    dtype, v = v.dtype, widened(v)
    pair = OperatorPair(owner, A, adjoint, dtype)
    progress = Progress("power_method", max_iters, tqdm_kwargs, callback)
    return norm_of(pair, v, max_iters, tol, progress)


def norm_of(
    pair: OperatorPair, v: Tensor, max_iters: int, tol: float, progress: Progress | None = None
) -> Tensor:
    """Return the norm of A, by the power method from v on; see :func:`operator_norm`."""
    owner, dtype = "operator_norm", pair.dtype
    progress = progress or Progress("power_method", max_iters)
    if not pair.input.count(v):  # the only vector is zero
        return v.abs().sum()
    image = pair.forward(v)
    size = pair.output.unit_of(owner, image, is_output=True)
    (found,) = pair.magnitudes([], [image])
    unit = size / pair.input.unit_of(owner, v) if found else 1.0
    back = pair.adjoint(image / size)
    if back.dtype != v.dtype and back.is_complex():
        v = v.to(back.dtype)
    elif v.is_complex() and not back.is_complex():
        v = v.real  # A, linear over the reals only, is as large as it is on real vectors
    pair, unit = pair.in_moderate_unit(unit, back)
    vectors = BatchedVectors(totals=pair.input.totals)
    steps = _steps(pair.normal(), v, tol, vectors, dtype, unit)
    _, eigenvalue = progress.follow(steps, lambda found: narrowed(found[0], dtype).clone())
    return eigenvalue.sqrt() * unit
