"""The largest eigenvalue and the norm of an operator by the power method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

import torch
from torch import Tensor

from linops_core.siblings import check_integer, check_real, check_vector

from .._shared._checks import Operator, check_finite
from .._shared._graphs import solved_in_steps
from .._shared._options import Checkpointed, Watching, reading_options, with_options
from .._shared._precision import OperatorPair, at_least_single, in_own_space, rounding_of, to_half
from .._shared._progress import Progress, SolverSteps
from .._shared._reports import Measured, StopReason
from .._shared._space import Space, bounds
from .._shared._vectors import BatchDims, input_or_random, space_of_systems


@with_options(Checkpointed)
def power_method(
    A: Operator,
    v_init: Tensor,
    max_iters: int = 50,
    tol: float = 1e-5,
    *,
    batch_dims: BatchDims = 0,
    **watching: Unpack[Checkpointed],
) -> tuple[Tensor, Tensor]:
    """The eigenvector of the largest eigenvalue in magnitude, and that magnitude.

    A step replaces v by :math:`A v / |A v|`. Let A be normal, that is, it commutes with its
    adjoint, as every Hermitian A does. Then :math:`|A v|` rises with every step. Its limit is the
    largest magnitude among the eigenvalues in whose eigenspaces v_init has a component. Its error
    is the square of the error of v. If several eigenvalues have this magnitude, v is in the span of
    their eigenvectors. If A v_init is zero, the method starts again with a random vector, whose
    seed is fixed; in a compiled graph it returns 0.

    The method keeps v, the next v and the output of A. It waits for the device once in a step.
    Gradients flow through the steps. With ``tol=0``, and without callback and checkpoint, it can be
    compiled and exported, as :func:`conjugate_gradients` can: it does ``max_iters`` steps, and
    returns NaN if v_init is zero.

    Parameters
    ----------
    A : NamedLinop or function
        Maps tensors of the shape of v_init to that shape. Names of input and output may differ.
    v_init : Tensor
        The first v; use a random vector. Zero raises a ValueError.
    tol : float
        Stop when the relative change of the magnitude is at most this. The error may be larger if
        the next eigenvalue has nearly the same magnitude.
    batch_dims : int, or dimensions
        As in :func:`conjugate_gradients`, but all systems go on until the last one has converged.
    max_iters : int
        Largest number of steps.
    callback
        The ``x`` of a step is v. Its ``values`` are "eigenvalue", and "change", the relative
        change; each is the largest one of a batch.

    Returns
    -------
    v : Tensor
        The eigenvector, of norm 1.
    eigenvalue : Tensor
        The magnitude: real, of the shape of the batch dimensions, 0 if A v is 0. For half precision
        it is in single precision, because it may exceed the range of float16.

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
    check_integer(owner, "max_iters", max_iters, 1)
    tol = check_real(owner, "tol", tol, 0)
    batch = space_of_systems(owner, A, v_init, batch_dims)
    dtype, wide = v_init.dtype, in_own_space(owner, A, v_init.dtype)

    def solve() -> tuple[Tensor, Tensor]:
        goals, count = {"change": tol}, ("max_iters", 1)
        progress = Progress(owner, max_iters, watching, goals=goals, space=batch, count=count)
        first = at_least_single(v_init)
        steps = _PowerSteps(wide, first, tol, batch, dtype)
        progress.follow(steps)
        return steps.v, steps.eigenvalue

    def solve_in_graph() -> tuple[Tensor, Tensor]:
        return _fixed_steps(wide, at_least_single(v_init), batch, max_iters)

    reading = {"tol": tol, **reading_options(watching)}
    v, eigenvalue = solved_in_steps(owner, reading, solve, solve_in_graph)
    return to_half(v, dtype), eigenvalue.reshape([v.shape[axis] for axis in batch.systems])


class _PowerSteps(SolverSteps):
    """The vector and the eigenvalue; A, over the unit twice, rounds as numbers of the dtype do."""

    def __init__(
        self,
        A: Operator,
        v: Tensor,
        tol: float,
        batch: Space,
        dtype: torch.dtype,
        unit: float = 1.0,
    ) -> None:
        self.A, self.tol, self.batch, self.dtype, self.unit = A, tol, batch, dtype, unit
        norms, numbers = _norms_of(batch, v)
        if not (numbers > 0).all():
            check_finite("power_method", float(numbers.sum()))
            raise ValueError(f"power_method: v_init must not be zero, got norms {numbers.tolist()}")
        self.v, self.eigenvalue = v / norms, torch.zeros_like(norms)
        self.numbers = torch.zeros_like(numbers)
        """The eigenvalues, on the host."""
        self.may_restart = True
        """Whether no step was done, so that a v with A v = 0 is replaced."""

    def fingerprint(self) -> dict[str, object]:
        """Return what tells this problem from others, for a checkpoint."""
        batch, v = self.batch, self.v
        vectors = {"v_init": (batch, v), "A": (batch, self.A(batch.random_like(v.detach())))}
        return {"tol": self.tol, "axes": [*batch.systems], **vectors}

    def step(self) -> Measured:
        """Apply A, and divide by the norm."""
        owner, batch, before = "power_method", self.batch, self.numbers.cpu()
        precision, rounding = torch.finfo(self.dtype).eps, rounding_of(self.dtype)
        image = self.A(self.v)
        eigenvalue, numbers = _norms_of(batch, image)
        check_finite(owner, float(numbers.sum()), image.dtype)
        is_lost = numbers == 0
        if is_lost.any():
            if self.may_restart:  # v is in the null space of A, where no random vector is
                fresh = batch.random_like(self.v.detach())
                self.v = fresh / batch.norm(fresh)
            self.v = torch.where(
                eigenvalue > 0, image / eigenvalue.where(eigenvalue > 0, 1), self.v
            )
        else:
            self.v = image / eigenvalue
        del image  # or it would be in memory beside the output of A in the next step
        change = (numbers - before).abs()
        is_proved = change + rounding * numbers <= self.tol * numbers
        is_still = (change <= precision * numbers) & (self.tol < precision + rounding)
        if self.may_restart:
            is_proved, is_still = is_proved & ~is_lost, is_still & ~is_lost
        reasons = [
            StopReason.CONVERGED if proved else StopReason.ROUNDING if still else None
            for proved, still in zip(is_proved.tolist(), is_still.tolist(), strict=True)
        ]
        largest = float(numbers.max()) if len(numbers) else 0.0
        values = {
            # Two products, because they give infinity where self.unit**2 raises an OverflowError.
            "eigenvalue": largest * self.unit * self.unit,
            "change": float((change / numbers.where(numbers > 0, 1)).nan_to_num().max()),
        }
        self.eigenvalue, self.numbers, self.may_restart = eigenvalue, numbers, False
        return values, reasons

    def result(self) -> Tensor:
        """Return a copy of v in the precision of v_init."""
        return to_half(self.v, self.dtype).clone()


def _norms_of(space: Space, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the norm of each vector, safe at any scale, and the same on the host in float64."""
    norms = space.norm(x)
    on_host = norms.detach().flatten().cpu().double()
    lowest, highest = bounds(space, x)
    if ((on_host > lowest) & (on_host < highest)).all():
        return norms, on_host
    unit = space.unit(x)
    norms = space.norm(x / unit) * unit
    return norms, norms.detach().flatten().cpu().double()


def _fixed_steps(A: Operator, v: Tensor, batch: Space, n_steps: int) -> tuple[Tensor, Tensor]:
    """Return v and the eigenvalue after a fixed number of steps that read no values."""
    unit = batch.unit(v)
    v = v / unit
    v = v / batch.norm(v)  # NaN for zero, where no error can be raised in a graph
    eigenvalue = batch.norm(v)
    for _ in range(n_steps):
        image = A(v)
        unit = batch.unit(image)
        image = image / unit
        norms = batch.norm(image)
        v = torch.where(norms == 0, v, image / torch.where(norms == 0, 1, norms))
        eigenvalue = norms * unit
    return v, eigenvalue


@with_options(Watching)
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
    **watching: Unpack[Watching],
) -> Tensor:
    r"""The norm :math:`\max |A x| / |x|`, by the power method on :math:`A^H A`.

    The result approaches the norm from below. It is a real tensor without dimensions, in single
    precision if A is in half precision. The method keeps the vectors of :func:`power_method` and
    the first vector. It waits for the device once in a step.
    Gradients flow through the steps.

    Parameters
    ----------
    tol : float
        Stop when the relative change of the norm is at most half of this.
    v_init : Tensor, optional
        The first vector, in place of ``like``. It is random by default, and if A v_init is zero.
    max_iters : int
        Largest number of steps.
    callback
        The ``values`` are those of :func:`power_method`, for :math:`A^H A`: "eigenvalue" is the
        square of the norm.

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
    tol = check_real(owner, "tol", tol, 0)
    goals, count = {"change": tol}, ("max_iters", 1)
    progress = Progress(owner, max_iters, watching, goals=goals, count=count)
    v, _ = input_or_random(owner, A, "v_init", v_init, sizes, seed, like)
    dtype, v = v.dtype, at_least_single(v)
    pair = OperatorPair(owner, A, adjoint, dtype)
    return norm_of(pair, v, max_iters, tol, progress)


def norm_of(
    pair: OperatorPair, v: Tensor, max_iters: int, tol: float, progress: Progress | None = None
) -> Tensor:
    """Return the norm of A, by the power method from v on; see :func:`operator_norm`."""
    owner, dtype = "operator_norm", pair.dtype
    progress = progress or Progress(owner, max_iters)
    count = pair.input.count(v)
    if not count:  # without entries, the only vector is zero, and so is the norm
        return v.abs().sum()
    spread = 2.0 ** (count.bit_length() // 2 + 1)  # about the norm of a vector over its unit

    def applied(v: Tensor) -> Tensor:  # half precision may not hold A v
        return pair.forward(v / (pair.input.unit_of(owner, v) * spread))

    image = applied(v)
    unit_of_image = pair.output.unit_of(owner, image, is_output=True)
    norm_of_v, norm_of_image = pair.norms_of([v], [image])
    if norm_of_v and not norm_of_image:  # v is in the null space, and would give 0 as the norm
        v = pair.input.random_like(v)
        image = applied(v)
        unit_of_image = pair.output.unit_of(owner, image, is_output=True)
        (norm_of_image,) = pair.norms_of([], [image])
    unit = unit_of_image * spread if norm_of_image else 1.0
    back = pair.adjoint(image / unit_of_image)
    if back.dtype != v.dtype and back.is_complex():
        v = v.to(back.dtype)
    elif v.is_complex() and not back.is_complex():
        v = v.real  # an A with real input has no value for complex vectors
    pair, unit = pair.in_moderate_unit(unit)
    del image, back  # or these names would keep both in memory until the last step
    vectors = Space(pair.input.totals)
    steps = _PowerSteps(pair.normal(), v, tol, vectors, dtype, unit)
    progress.follow(steps)
    return steps.eigenvalue.sqrt() * unit
