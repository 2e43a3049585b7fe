"""The method of conjugate gradients, for one system or for many at once."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from .._tracing import is_recorded
from ._cg_judge import Judge, Measured, Numbers, on_host, rounding_of_curvature
from ._implicit import attach
from ._items import BatchDims, Items, items_of
from ._progress import Progress
from ._step import Callback, StopReason
from ._vectors import (
    Operator,
    add_scaled,
    check_count,
    check_like,
    check_scale,
    check_vector,
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
    preconditioner, and waits for the device once in a step.

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
        :math:`|A x_0|` where y is zero), or as small as the precision of y lets it be. The
        residual is that of the recurrence, and computed anew at the end where rounding may have
        parted the two.
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
        If y is neither floating nor complex, or batch_dims are names and A is a function.
    ValueError
        If A or the preconditioner returns another shape or dtype, x0 has another, A or the
        preconditioner shows itself not to be Hermitian positive definite, or A has no such
        batch dimensions.
    ArithmeticError
        If the iteration meets NaN or infinity, or the scale of A leaves the range of the dtype.

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
    if x0 is not None:
        check_like(_NAME, "x0", x0, "y", y)
    items = items_of(_NAME, A, y, batch_dims)

    def solve(y: Tensor, x0: Tensor | None, progress: Progress) -> Tensor:
        with progress:
            run = _Run(A, preconditioner, items, y, x0, (gtol, ltol))
            return run.solve(max_num_iters, progress)

    def solve_again(gradient: Tensor) -> Tensor:
        return solve(gradient, None, Progress(_NAME, max_num_iters, None, None))

    watched = Progress(_NAME, max_num_iters, tqdm_kwargs, callback)
    if not (implicit and torch.is_grad_enabled()):
        return solve(y, x0, watched)
    with torch.no_grad():
        x = solve(y, x0, watched)
    operators = (A,) if preconditioner is None else (A, preconditioner)
    return attach(x, y - in_own_space(_NAME, A, x), solve_again, _NAME, operators)


class _Run:
    """One run: the vectors, in units in which the right-hand side of each system is near 1."""

    def __init__(
        self,
        A: Operator,
        preconditioner: Operator | None,
        items: Items,
        y: Tensor,
        x0: Tensor | None,
        tolerances: tuple[float, float],
    ) -> None:
        self.A, self.preconditioner, self.items, self.y = A, preconditioner, items, y
        image = None if x0 is None else in_own_space(_NAME, A, x0)
        residual = y if image is None else y - image
        self.unit = items.unit(y).maximum(items.unit(residual))
        self.unit = torch.where(self.unit > 0, self.unit, 1)
        self.residual = residual / self.unit
        self.x = torch.zeros_like(self.residual) if x0 is None else x0 / self.unit
        norm = size = items.norm(self.residual)
        loss = torch.zeros_like(norm)
        if image is not None:
            size = items.norm(y / self.unit)
            loss = items.inner(self.x, (image - 2 * y) / self.unit).real / 2
        size, loss, norm = (found.real for found in on_host(size, loss, norm))
        precision = torch.finfo(y.dtype).eps
        self.judge = Judge(size, loss, norm, *tolerances, precision, preconditioner is not None)
        # A in another unit, where its own would lead out of the range of the dtype.
        self.unit_of_A: Tensor | None = None

    def solve(self, max_num_iters: int, progress: Progress) -> Tensor:
        """Return the solution, in the unit of y."""
        judge, items = self.judge, self.items
        if max_num_iters == 0:
            judge.stop(judge.active, StopReason.MAX_ITERATIONS)
        if judge.is_done:
            self.tell(progress, 0)
            return self.result()
        searched = self.searched()
        energy = items.inner(self.residual, searched)
        first, norm = on_host(energy, items.norm(searched))
        judge.begin(first, norm.real)
        direction = searched.clone()
        norm_of_A = torch.zeros_like(energy.real)
        for iteration in range(1, max_num_iters + 1):
            image = in_own_space(_NAME, self.A, direction)
            if iteration == 1:
                self.choose_unit_of_A(image)
            image = self.in_unit_of_A(image)
            curvature, cross = items.inner(direction, image), items.inner(searched, image)
            lengths = [items.norm(direction), items.norm(image)]
            norm_of_A = norm_of_A.fmax(lengths[1] / lengths[0]).detach()  # 0 / 0 where done
            floor = rounding_of_curvature(norm_of_A, lengths[0], judge.precision)
            step = self.ratio(energy, curvature, curvature.real > floor)
            self.x = add_scaled(self.x, step, direction)
            self.residual = add_scaled(self.residual, -step, image)
            del image  # or it would still be there when the next one comes
            searched = self.searched()
            energy, previous = items.inner(self.residual, searched), energy
            norms = (*lengths, norm_of_A, *self.norms(energy, searched))
            found = on_host(curvature, cross, energy, step, *norms)
            judge.step(Measured(*found[:3], *(number.real for number in found[3:])))
            if iteration == max_num_iters:
                judge.stop(judge.active, StopReason.MAX_ITERATIONS)
            if judge.is_done and judge.is_doubtful:
                judge.verify(self.true_residual())
            self.tell(progress, iteration)
            if judge.is_done:
                break
            factor = self.ratio(energy, previous, previous.real > 0)
            direction = add_scaled(searched, factor, direction, into=direction)
        return self.result()

    def result(self) -> Tensor:
        """Return x in the unit of y."""
        if self.unit_of_A is not None:
            return self.in_own_unit()
        return self.x * self.unit if is_recorded(self.x) else self.x.mul_(self.unit)

    def in_own_unit(self) -> Tensor:
        """Return a new x in the unit of y."""
        if self.unit_of_A is None:
            return self.x * self.unit
        x = self.x * (self.unit / self.unit_of_A)
        if not x.isfinite().all():
            raise ArithmeticError(
                f"{_NAME}: the scale of A must be such that the solution is in the range of "
                f"{x.dtype}, got infinity"
            )
        return x

    def choose_unit_of_A(self, image: Tensor) -> None:
        """Choose the unit of A from what it makes of a vector near 1."""
        unit = self.items.unit(image)
        numbers = on_host(unit)[0].real
        check_scale(_NAME, numbers, image.dtype)
        if not is_moderate(numbers):
            self.unit_of_A = torch.where(unit > 0, unit, 1)
            self.x = self.x * self.unit_of_A
            self.judge.change_unit(on_host(self.unit_of_A)[0].real)

    def in_unit_of_A(self, image: Tensor) -> Tensor:
        """Return what A returns, in its unit."""
        return image if self.unit_of_A is None else image / self.unit_of_A

    def searched(self) -> Tensor:
        """Return the residual, preconditioned."""
        if self.preconditioner is None:
            return self.residual
        return in_own_space(_NAME, self.preconditioner, self.residual, "the preconditioner")

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

    @torch.no_grad()
    def true_residual(self) -> Numbers:
        """Return |A x - y| of each system, without the recurrence."""
        memory = None if self.residual.requires_grad else self.residual
        residual = torch.div(self.y, self.unit, out=memory)
        residual.sub_(self.in_unit_of_A(in_own_space(_NAME, self.A, self.x)))
        return on_host(self.items.norm(residual))[0].real

    def tell(self, progress: Progress, iteration: int) -> None:
        """Report where all systems stand."""
        if progress.is_watched:
            unit = on_host(self.unit)[0].real
            unit_of_A = 1.0 if self.unit_of_A is None else on_host(self.unit_of_A)[0].real
            losses = self.judge.loss * (unit / unit_of_A) * unit
            loss = losses.sum().item() if isinstance(losses, Tensor) else losses
            values = {"residual": self.judge.relative, "loss": float(loss)}
            progress.tell(iteration, self.in_own_unit, values, self.judge.reasons)
