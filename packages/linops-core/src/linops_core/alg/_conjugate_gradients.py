"""The method of conjugate gradients, for one system or for many at once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch import Tensor

from .._kernels._tracing import is_recorded
from ._cg_judge import Judge, Measured, Numbers, is_any, on_host
from ._half import narrowed, rounding_of, widened
from ._implicit import attach
from ._items import BatchDims, Items, items_of
from ._progress import Progress
from ._random import random_like
from ._step import Callback, ConvergenceWarning, StopReason
from ._vectors import (
    Operator,
    add_scaled,
    check_count,
    check_like,
    check_scale,
    check_vector,
    checked_number,
    in_own_space,
    is_moderate,
)

_NAME = "conjugate_gradients"


def conjugate_gradients(
    A: Operator,
    y: Tensor,
    x0: Tensor | None = None,
    max_num_iters: int = 20,
    gtol: float = 1e-3,
    ltol: float = 1e-5,
    tqdm_kwargs: Mapping[str, object] | None = None,
    *,
    preconditioner: Operator | None = None,
    batch_dims: BatchDims = 0,
    implicit: bool = False,
    callback: Callback | None = None,
) -> Tensor:
    r"""Solve :math:`A x = y` for a Hermitian positive definite :math:`A`.

    The solution is the minimum of :math:`f(x) = \frac12 x^H A x - \mathrm{Re}(x^H y)`, whose
    gradient is :math:`A x - y`. A may be singular where y is in its range; the solution that is
    found is then the one nearest to x0 (without a preconditioner).

    It keeps four vectors (x, residual, direction, and what A returns), a fifth with a
    preconditioner, and waits for the device once in a step. In half precision the vectors are kept
    in single precision, and A and the preconditioner are applied in half.

    Parameters
    ----------
    A : NamedLinop or function
        From tensors of the shape of y to such tensors. The names of its output may differ from
        those of its input, as those of ``A.N`` do.
    y : Tensor
        Right-hand side; real or complex, any shape.
    x0 : Tensor, optional
        First guess; zero by default.
    max_num_iters : int
        Number of steps after which to stop in any case.
    gtol : float
        Stop when the gradient has become small: :math:`|A x - y| \le \mathrm{gtol} \, |y|` (of
        :math:`|A x_0|` where y is zero), or as small as the precision of y lets it be.
        The residual is that of the recurrence. ``CONVERGED`` means that the residual itself is
        below the tolerance: where rounding might have parted the two, it is computed anew, which
        applies A once more, and the steps go on from it if it is too large.
    ltol : float
        Stop when a step decreases f by no more than ltol times :math:`|f|`.
    tqdm_kwargs : mapping, optional
        For a progress bar, which is shown if this is given.
    preconditioner : NamedLinop or function, optional
        Hermitian positive definite, close to the inverse of A: what it is applied to is a
        residual.
    batch_dims : int, or dimensions
        How many first dimensions of y, or the names of which of A, number independent systems.
        Each has its own steps and stops by itself: then its part of x stays as it is, while A
        is still applied to all. By default y is one vector.
    implicit : bool
        How gradients are computed. By default they flow through the steps, all of which autograd
        then keeps. If True, by the implicit function theorem: A is solved once more in the
        backward pass, no step is kept, and the gradients, to y and to whatever A is made of, are
        those of the exact solution, as exact as the tolerances. There is then no gradient to x0
        and the preconditioner, and no second derivative (it is refused). Weights that are
        replaced or written to before the backward pass are refused in it.
    callback : function, optional
        Called with a :class:`Step` after every step. Its ``values`` are "residual",
        :math:`|A x - y| / |y|` (the largest of all systems), and "loss", f(x) (the sum).

    Returns
    -------
    Tensor
        Shape of y; y itself is not written to.

    Raises
    ------
    TypeError
        If y is neither floating nor complex, batch_dims are names and A is a function, or an
        option is of a wrong type.
    ValueError
        If an option is negative, infinite or NaN, A or the preconditioner returns another shape or
        dtype, x0 has another, A or the preconditioner shows itself not to be Hermitian positive
        definite, or A has no such batch dimensions.
    ArithmeticError
        If the iteration meets NaN or infinity, or the scale of A leaves the range of the dtype.

    Warns
    -----
    ConvergenceWarning
        If the residual is above gtol (above the root of the precision, where gtol is close to the
        precision) and more steps would not help: the precision ended them, or x has grown in
        directions that A maps to almost zero, as it does where A is singular and y out of its
        range.

    References
    ----------
    M. R. Hestenes and E. Stiefel, "Methods of conjugate gradients for solving linear systems",
    Journal of Research of the National Bureau of Standards 49 (1952), section 3.

    Y. Saad, "Iterative methods for sparse linear systems" (2003), algorithm 9.1, with a
    preconditioner.

    Examples
    --------
    >>> A = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    >>> x = conjugate_gradients(A.mv, torch.tensor([3.0, 4.0]))
    >>> torch.allclose(x, torch.ones(2))
    True

    Systems side by side, each with its own number of steps:

    >>> from linops_core import Diagonal
    >>> D = Diagonal(torch.tensor([[1.0, 1.0], [1.0, 4.0]]), ("B", "N"))
    >>> x = conjugate_gradients(D, torch.tensor([[3.0, 2.0], [2.0, 8.0]]), batch_dims="B")
    >>> torch.round(x, decimals=4)
    tensor([[3., 2.],
            [2., 2.]])
    """
    check_vector(_NAME, "y", y)
    check_count(_NAME, "max_num_iters", max_num_iters)
    gtol, ltol = checked_number(_NAME, "gtol", gtol), checked_number(_NAME, "ltol", ltol)
    if x0 is not None:
        check_like(_NAME, "x0", x0, "y", y)
    items = items_of(_NAME, A, y, batch_dims)

    def solve(y: Tensor, x0: Tensor | None, progress: Progress) -> Tensor:
        with progress:
            run = Run(A, preconditioner, items, y, x0, (gtol, ltol))
            x = run.solve(max_num_iters, progress)
            run.check_underflow(x)
        if complaint := run.judge.complaint(y.dtype):
            warnings.warn(complaint, ConvergenceWarning, stacklevel=3)
        return x

    def solve_again(gradient: Tensor) -> Tensor:
        return solve(gradient, None, Progress(_NAME, max_num_iters, None, None))

    watched = Progress(_NAME, max_num_iters, tqdm_kwargs, callback)
    if not (implicit and torch.is_grad_enabled()):
        return solve(y, x0, watched)
    with torch.no_grad():
        x = solve(y, x0, watched)
    operators = (A,) if preconditioner is None else (A, preconditioner)
    return attach(x, y - in_own_space(_NAME, A, x), solve_again, _NAME, operators)


class Run:
    """One run: the vectors, in units in which the right-hand side of each system is near 1.

    What A returns is taken to be rounded as numbers of the dtype are, which is that of y unless
    another one is given.
    """

    def __init__(
        self,
        A: Operator,
        preconditioner: Operator | None,
        items: Items,
        y: Tensor,
        x0: Tensor | None,
        tolerances: tuple[float, float],
        dtype: torch.dtype | None = None,
    ) -> None:
        self.A, self.preconditioner, self.items, self.y = A, preconditioner, items, y
        image = None if x0 is None else self.applied(A, x0)
        y = widened(y)
        residual = y if image is None else y - image
        self.unit = items.unit(y).maximum(items.unit(residual))
        self.unit = torch.where(self.unit > 0, self.unit, 1)
        self.residual = residual / self.unit
        self.x = torch.zeros_like(self.residual) if x0 is None else widened(x0) / self.unit
        norm = size = items.norm(self.residual)
        loss = image_size = torch.zeros_like(norm)
        if image is not None:
            size = items.norm(y / self.unit)
            loss = items.inner(self.x, (image - 2 * y) / self.unit).real / 2
            image_size = items.norm(image / self.unit)
        self.is_guessed = image is not None
        size, loss, norm, image_size = (
            found.real for found in on_host(size, loss, norm, image_size)
        )
        if self.is_guessed and is_any(norm <= tolerances[0] * size):
            image_size = self.largest_image()
        dtype = dtype or self.y.dtype
        precision = torch.finfo(dtype).eps
        # Of p^H A p: the rounding of the inner product, and of A in half precision.
        noise = max(64 * torch.finfo(y.dtype).eps, 4 * precision)
        self.judge = Judge(
            size,
            loss,
            norm,
            image_size,
            *tolerances,
            precision,
            rounding_of(dtype),
            noise,
            preconditioner is not None,
        )
        # A in another unit, where its own would lead out of the range of the dtype.
        self.unit_of_A: Tensor | None = None

    @torch.no_grad()
    def largest_image(self) -> Numbers:
        """Return an estimate of |A| |x| for the first guess: what A x is made of may cancel."""
        generator = torch.Generator().manual_seed(0)
        first = self.applied(self.A, random_like(self.x.detach(), generator))
        first = first / self.items.unit(first).clamp(min=torch.finfo(first.dtype).tiny)
        second = self.items.norm(self.applied(self.A, first)) / self.items.norm(first)
        return on_host((second * self.items.norm(self.x)).nan_to_num(0.0))[0].real

    def applied(self, operator: Operator, x: Tensor, name: str = "A") -> Tensor:
        """Return what an operator makes of x in the dtype of y, widened again."""
        return widened(in_own_space(_NAME, operator, narrowed(x, self.y.dtype), name))

    def solve(self, max_num_iters: int, progress: Progress) -> Tensor:
        """Return the solution, in the unit of y."""
        judge, items = self.judge, self.items
        if max_num_iters == 0:
            judge.stop(judge.active, StopReason.MAX_ITERATIONS)
        if judge.is_done:
            self.tell(progress, 0)
            return self.result()
        searched, energy = self.begin()
        direction = searched.clone()
        norm_of_A = torch.zeros_like(energy.real)
        for iteration in range(1, max_num_iters + 1):
            image = self.applied(self.A, direction)
            if iteration == 1:
                self.choose_unit_of_A(image)
            image = self.in_unit_of_A(image)
            curvature, cross = items.inner(direction, image), items.inner(searched, image)
            lengths = [items.norm(direction), items.norm(image)]
            norm_of_A = norm_of_A.fmax(lengths[1] / lengths[0]).detach()  # 0 / 0 where done
            floor = judge.noise * norm_of_A * lengths[0] * lengths[0]
            step = self.ratio(energy, curvature, curvature.real > floor)
            self.x = add_scaled(self.x, step, direction)
            self.residual = add_scaled(self.residual, -step, image)
            del image  # or it would still be there when the next one comes
            searched = self.searched()
            energy, previous = items.inner(self.residual, searched), energy
            norms = (*lengths, norm_of_A, *self.norms(energy, searched))
            found = on_host(curvature, cross, energy, step, *norms)
            judge.step(Measured(*found[:3], *(number.real for number in found[3:])))
            is_last, is_anew = iteration == max_num_iters, False
            if is_last:
                judge.stop(judge.active, StopReason.MAX_ITERATIONS)
            if judge.has_to_verify:
                del searched  # or it would keep the memory of the residual
                self.verify()
                is_anew = True
                if is_last:
                    judge.stop(judge.active, StopReason.MAX_ITERATIONS)
            self.tell(progress, iteration)
            if judge.is_done:
                break
            if is_anew:
                searched, energy = self.begin()
                direction = searched.clone()
            else:
                factor = self.ratio(energy, previous, previous.real > 0)
                direction = add_scaled(searched, factor, direction, into=direction)
        return self.result()

    def begin(self) -> tuple[Tensor, Tensor]:
        """Return the first direction from the residual, and r^H z."""
        searched = self.searched()
        energy = self.items.inner(self.residual, searched)
        first, norm = on_host(energy, self.items.norm(searched))
        self.judge.begin(first, norm.real)
        return searched, energy

    def result(self) -> Tensor:
        """Return x in the unit of y."""
        if self.unit_of_A is not None or self.x.dtype != self.y.dtype:
            return self.in_own_unit()
        return self.x * self.unit if is_recorded(self.x) else self.x.mul_(self.unit)

    def in_own_unit(self) -> Tensor:
        """Return a new x in the unit of y."""
        unit = self.unit if self.unit_of_A is None else self.unit / self.unit_of_A
        wide = self.x * unit
        x = narrowed(wide, self.y.dtype)
        if self.unit_of_A is None and x is wide:
            return x
        if not x.isfinite().all():
            raise ArithmeticError(
                f"{_NAME}: the scale of A must be such that the solution is in the range of "
                f"{x.dtype}, got infinity"
            )
        return x

    def check_underflow(self, x: Tensor) -> None:
        """Refuse a result that lost digits because its numbers are too small for the dtype."""
        if self.unit_of_A is None and x.dtype == self.x.dtype:
            return
        unit = self.unit if self.unit_of_A is None else self.unit / self.unit_of_A
        lost = self.items.norm(widened(x.detach()) / unit - self.x.detach())
        if not bool((lost <= torch.finfo(x.dtype).eps * self.items.norm(self.x.detach())).all()):
            raise ArithmeticError(
                f"{_NAME}: the scale of A must be such that the solution is in the range of "
                f"{x.dtype}, got numbers too small for it"
            )

    def choose_unit_of_A(self, image: Tensor) -> None:
        """Choose the unit of A from what it makes of a vector near 1."""
        unit = self.items.unit(image)
        numbers = on_host(unit)[0].real
        check_scale(_NAME, numbers, self.y.dtype)
        if not is_moderate(numbers):
            self.unit_of_A = torch.where(unit > 0, unit, 1)
            self.x = self.x * self.unit_of_A
            self.judge.change_unit(on_host(self.unit_of_A)[0].real)
        if self.is_guessed:
            self.judge.know_guess(on_host(self.items.norm(self.x))[0].real)

    def norm(self) -> float:
        """Return the largest |A p| / |p| of the steps of a single system; 0 if there were none."""
        if not self.judge.n_steps:
            return 0.0
        unit = 1.0 if self.unit_of_A is None else float(self.unit_of_A)
        return float(self.judge.norm) * unit

    def in_unit_of_A(self, image: Tensor) -> Tensor:
        """Return what A returns, in its unit."""
        return image if self.unit_of_A is None else image / self.unit_of_A

    def searched(self) -> Tensor:
        """Return the residual, preconditioned."""
        if self.preconditioner is None:
            return self.residual
        return self.applied(self.preconditioner, self.residual, "the preconditioner")

    def norms(self, energy: Tensor, searched: Tensor) -> list[Tensor]:
        """Return |r| and |z|, where z may be r and the energy its square."""
        if self.preconditioner is None:
            return [energy.real.sqrt()] * 2
        return [self.items.norm(self.residual), self.items.norm(searched)]

    def ratio(self, over: Tensor, under: Tensor, is_valid: Tensor) -> Tensor:
        """Return the ratio of two real numbers of each system; 0 where it is not to be taken."""
        if self.items.axes:
            is_valid = is_valid & self.judge.active.reshape(over.shape).to(over.device)
        return torch.where(is_valid, over.real / torch.where(is_valid, under.real, 1), 0)

    def verify(self) -> None:
        """Compute the residual without the recurrence, of the x that would be returned."""
        x = widened(narrowed(self.x, self.y.dtype))
        image = self.in_unit_of_A(self.applied(self.A, x))
        y = widened(self.y)
        if is_recorded(y, image):
            self.residual = y / self.unit - image
        else:
            self.residual = torch.div(y, self.unit, out=self.residual).sub_(image)
        residual, length = on_host(self.items.norm(self.residual), self.items.norm(x))
        self.judge.verify(residual.real, length.real)

    def tell(self, progress: Progress, iteration: int) -> None:
        """Report where all systems stand."""
        if progress.is_watched:
            unit = on_host(self.unit)[0].real
            unit_of_A = 1.0 if self.unit_of_A is None else on_host(self.unit_of_A)[0].real
            losses = self.judge.loss * (unit / unit_of_A) * unit
            loss = losses.sum().item() if isinstance(losses, Tensor) else losses
            values = {"residual": self.judge.relative, "loss": float(loss)}
            progress.tell(iteration, self.in_own_unit, values, self.judge.reasons)
