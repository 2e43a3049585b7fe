"""The largest eigenvalue, and the norm, by applying an operator again and again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from ._half import applied_in_half, narrowed, rounding_of, widened
from ._items import BatchDims, Items, items_of
from ._progress import Progress
from ._random import random_input, seeded
from ._step import Callback, Step, StopReason
from ._vectors import (
    Operator,
    check_count,
    check_scale,
    check_vector,
    checked_number,
    finite,
    in_own_space,
    normal_of,
    unit_of,
    with_adjoint,
)


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
    r"""The eigenvector of the largest eigenvalue in magnitude, and that magnitude.

    A step replaces v by :math:`A v / |A v|`. For a normal A (one that commutes with its adjoint,
    so for every Hermitian A) :math:`|A v|` rises with every step, towards the magnitude of the
    largest eigenvalue of which v_init has a part, and its error is the square of that of v.
    Where several eigenvalues have this magnitude, v is in the span of their eigenvectors. The
    closer the next magnitude, the smaller the steps: ``tol`` is about the change in a step, not
    about what is left.

    It keeps v, the next one and what A returns, and waits for the device once in a step. In half
    precision the vectors are in single precision, and A is applied in half. Gradients flow through
    the steps.

    Parameters
    ----------
    A : NamedLinop or function
        From tensors of the shape of v_init to such tensors; the names may differ.
    v_init : Tensor
        Where to begin: a random vector, not zero.
    max_iters : int
        Number of steps after which to stop in any case.
    tol : float
        Stop when the magnitude changes by no more than this, relatively. ``CONVERGED`` allows for
        the rounding of the magnitude; ``ROUNDING`` means that it changes by no more than that.
    batch_dims : int, or dimensions
        How many first dimensions, or the names of which of A, number independent operators:
        each has its own vector, and all go on until the last has converged.
    tqdm_kwargs : mapping, optional
        For a progress bar, which is shown if this is given.
    callback : function, optional
        Called with a :class:`Step` after every step; its ``x`` is v, its ``values`` are
        "eigenvalue" (the largest of all) and "change", relative (the largest).

    Returns
    -------
    v : Tensor
        Of norm 1.
    eigenvalue : Tensor
        The magnitude: real, of the shape of the batch dimensions. It is 0 if A v is. In half
        precision it is in single precision, which also holds what is past the range of float16.

    Raises
    ------
    TypeError
        If v_init is neither floating nor complex, or batch_dims are names and A is a function.
    ValueError
        If v_init is zero, or A returns another shape or dtype.
    ArithmeticError
        If the iteration meets NaN or infinity.

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
    items = items_of(owner, A, v_init, batch_dims)
    dtype = v_init.dtype
    progress = Progress(owner, max_iters, tqdm_kwargs, callback)
    A = applied_in_half(owner, A, dtype)
    return _iterated(A, widened(v_init), max_iters, tol, items, dtype, progress)


def _iterated(
    A: Operator,
    v: Tensor,
    max_iters: int,
    tol: float,
    items: Items,
    dtype: torch.dtype,
    watched: Progress,
) -> tuple[Tensor, Tensor]:
    """Return v in the precision of ``dtype``, that of what A returns, and the eigenvalue."""
    owner = "power_method"
    precision, rounding = torch.finfo(dtype).eps, rounding_of(dtype)

    def result() -> Tensor:
        return narrowed(v, dtype).clone()

    norm, numbers = items.magnitude(v)
    if not (numbers > 0).all():
        finite(owner, float(numbers.sum()))
        raise ValueError(f"{owner}: v_init must not be zero, got norms {numbers.tolist()}")
    v = v / norm
    before = torch.zeros_like(numbers)
    with watched as progress:
        for iteration in range(1, max_iters + 1):
            image = in_own_space(owner, A, v)
            eigenvalue, numbers = items.magnitude(image)
            finite(owner, float(numbers.sum()), image.dtype)
            if (numbers > 0).all():
                v = image / eigenvalue
            else:
                safe = torch.where(eigenvalue > 0, eigenvalue, 1)
                v = torch.where(eigenvalue > 0, image / safe, v)
            del image  # or it would still be there when the next one comes
            change = (numbers - before).abs()
            is_proved = change + rounding * numbers <= tol * numbers
            is_still = (change <= precision * numbers) & (tol < precision + rounding)
            reasons = [
                StopReason.CONVERGED if proved else StopReason.ROUNDING if still else None
                for proved, still in zip(is_proved.tolist(), is_still.tolist(), strict=True)
            ]
            if iteration == max_iters:
                reasons = [reason or StopReason.MAX_ITERATIONS for reason in reasons]
            values = {
                "eigenvalue": float(numbers.max()) if len(numbers) else 0.0,
                "change": float((change / numbers.where(numbers > 0, 1)).nan_to_num().max()),
            }
            progress.tell(iteration, result, values, reasons)
            if None not in reasons:
                break
            before = numbers
    return narrowed(v, dtype), eigenvalue.reshape([v.shape[axis] for axis in items.axes])


def operator_norm(
    A: Operator,
    v_init: Tensor | None = None,
    max_iters: int = 100,
    tol: float = 1e-5,
    *,
    adjoint: Operator | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    tqdm_kwargs: Mapping[str, object] | None = None,
    callback: Callback | None = None,
) -> Tensor:
    r"""The norm :math:`\max |A x| / |x|`, by the power method on :math:`A^H A`.

    It is approached from below: the result is at most the norm, but for rounding. Memory and
    waits are those of :func:`power_method`; gradients flow through the steps. Where squares leave
    the range of the dtype, A and its adjoint are applied in another unit.

    Parameters
    ----------
    A : NamedLinop or function
    v_init : Tensor, optional
        Where to begin, of the shape of the input; random numbers by default.
    max_iters : int
        Number of steps after which to stop in any case.
    tol : float
        Stop when the norm changes by no more than half of this, relatively.
    adjoint : function, optional
        The adjoint, where A is a function and not a NamedLinop.
    sizes : mapping of dimension to int, optional
        Sizes of the input's dimensions that the operator does not know, without v_init.
    seed : int
        Of the random numbers.
    tqdm_kwargs : mapping, optional
        For a progress bar, which is shown if this is given.
    callback : function, optional
        Called with a :class:`Step` after every step, as by :func:`power_method`, whose
        "eigenvalue" is the square of the norm.

    Returns
    -------
    Tensor
        Real, without dimensions; in single precision where A is in half.

    Raises
    ------
    TypeError
        If A is a function and its adjoint or v_init is not given.
    ValueError
        If v_init is zero, a size is not known, or the adjoint returns another shape.
    ArithmeticError
        If the iteration meets NaN or infinity, or the scale of A leaves the range of the dtype.

    References
    ----------
    G. H. Golub and C. F. Van Loan, "Matrix computations" (2013), sections 2.3.3 (the norm) and
    7.3.1.

    Examples
    --------
    >>> from linops_core import FFT
    >>> torch.round(operator_norm(FFT(1, norm="backward"), sizes={"...": 2, "Nx": 16}), decimals=4)
    tensor(4.)
    """
    owner = "operator_norm"
    forward, backward = with_adjoint(owner, A, adjoint)
    check_count(owner, "max_iters", max_iters, 1)
    tol = checked_number(owner, "tol", tol)
    v = v_init
    if v is None:
        v = random_input(owner, A, sizes, seeded(owner, seed))
    check_vector(owner, "v_init", v)
    if not v.numel():  # the only vector is zero
        return widened(v).abs().sum()
    dtype = v.dtype
    normal = applied_in_half(owner, normal_of(A, forward, backward), dtype, "A^H A")
    forward = applied_in_half(owner, forward, dtype)
    backward = applied_in_half(owner, backward, dtype, "the adjoint")
    v = widened(v)
    image = forward(v)
    size = unit_of(owner, image, is_output=True)
    scale = size / unit_of(owner, v) if image.any() else 1.0
    back = backward(image / size)
    if back.dtype != v.dtype and back.is_complex():
        v = v.to(back.dtype)
    check_scale(owner, scale, narrowed(back, dtype).dtype)
    unit = 1.0 if _has_squares(scale, narrowed(back, dtype).dtype) else scale
    if unit != 1.0:
        normal = partial(_scaled_normal, forward, backward, unit)
        callback = callback and partial(_tell_in_own_unit, callback, unit)
    progress = Progress("power_method", max_iters, tqdm_kwargs, callback)
    _, square = _iterated(normal, v, max_iters, tol, Items(()), dtype, progress)
    return square.sqrt() * unit


def _has_squares(unit: float, dtype: torch.dtype) -> bool:
    """Whether the square of the unit is far enough within the range to be rounded finely."""
    information = torch.finfo(dtype)
    lowest = math.sqrt(information.tiny / information.eps)
    return lowest < unit < 1 / lowest


def _scaled_normal(forward: Operator, backward: Operator, unit: float, x: Tensor) -> Tensor:
    return backward(forward(x) / unit) / unit


def _tell_in_own_unit(callback: Callback, unit: float, step: Step) -> None:
    """Report the square of the norm, which may be too large, or too small, for any number."""
    values = {**step.values, "eigenvalue": step.values["eigenvalue"] * unit * unit}
    callback(dataclasses.replace(step, values=values))
