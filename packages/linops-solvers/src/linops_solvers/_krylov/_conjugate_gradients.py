"""The method of conjugate gradients, for one system or for many at once."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor

from linops_core import NamedLinop
from linops_core.siblings import check_vector, inner, is_followed, squared_norm

from .._shared._checkpoint import Checkpoint, State, check_not_recorded, checkpoint_of
from .._shared._checks import (
    Operator,
    check_count,
    check_like,
    check_scale,
    check_square,
    checked_number,
    in_own_space,
    is_complex_linear,
)
from .._shared._graphs import solved_in_steps
from .._shared._precision import in_given_precision, narrowed, widened
from .._shared._products import add_scaled, copied, divided, is_moderate
from .._shared._progress import Callback, Iterate, Progress, StopReason
from .._shared._vectors import BatchDims, BatchedVectors, batched_vectors, check_batch_axes
from ._chunks import chunks_of
from ._convergence_check import ConvergenceCheck, is_any, on_host, reals_on_host
from ._definiteness import N_CHECKED, Measured, Numbers
from ._fixed_steps import fixed_steps
from ._implicit import attach, check_solved

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
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10,
) -> Tensor:
    r"""Solve :math:`A x = y` for a Hermitian positive definite :math:`A`.

    The solution is the minimum of :math:`f(x) = \frac12 x^H A x - \mathrm{Re}(x^H y)`, whose
    gradient is :math:`A x - y`. The solver stops when two rules hold: the residual is small,
    :math:`|A x - y| \le \mathrm{gtol} \, |y|`, and the last step decreased f by at most
    :math:`\mathrm{ltol} \, |f|`. A tolerance of 0 switches off its rule. With both rules off, the
    solver does ``max_num_iters`` steps, or stops earlier when rounding prevents further progress.

    A may be singular if y is in its range. Then the result is the solution nearest to x0 (without a
    preconditioner). If the steps show that A or the preconditioner is not Hermitian positive
    definite, a ValueError is raised.

    The solver keeps four vectors: x, the residual, the direction, and the output of A. A
    preconditioner needs a fifth. The solver waits for the device once in a step. If several
    processes have a part of each vector, a step has one reduction: the norm of the next residual
    follows from the inner products of this reduction (Meurant) and is measured in the next step.
    Steps that make the residual much smaller, and steps with a preconditioner, have two.

    **In a compiled graph** (``torch.compile``, ``torch.export``) no value may decide how often A is
    applied. With ``gtol=0`` and ``ltol=0``, and without ``callback``, ``tqdm_kwargs``, ``implicit``
    and ``checkpoint``, the graph contains exactly ``max_num_iters`` steps. A system that is solved
    to the precision stays as it is. A system becomes NaN where the solver raises an error outside
    of a graph: if A is not Hermitian positive definite, or a number is not finite. With other
    options ``torch.compile`` breaks the graph for this call; ``fullgraph=True`` and
    ``torch.export`` raise an error.

    Parameters
    ----------
    A : NamedLinop or function
        Maps tensors of the shape of y to that shape. Names of input and output may differ, as those
        of ``A.N`` do.
    y : Tensor
        Right-hand side; real or complex, any shape.
    gtol : float
        Bound of the residual, relative to y (relative to :math:`A x_0` if y is zero). If the
        residual of the recurrence may be wrong by rounding, the solver computes the residual again,
        with one more application of A. If the residual is too large, the solver continues. If x0 is
        within the bound, x0 is returned without a step.
    ltol : float
        Bound of the decrease of f in the last step, relative to :math:`|f|`. With ``gtol=0`` this
        rule alone stops the solver, with the reason ``STALLED``: the residual may still be large.
    preconditioner : NamedLinop or function, optional
        Hermitian positive definite, an approximation of the inverse of A.
    batch_dims : int, or dimensions
        The dimensions that number independent systems: the number of first dimensions of y, or
        names of dimensions of A. Each system stops by itself; its x then stays as it is, while A is
        still applied to all systems. On a CPU, vectors of more than 8 MiB are solved in chunks of
        systems, one chunk after the other. This needs an A (and a preconditioner) that can be
        sliced along the first of these dimensions, and neither callback nor progress bar.
    implicit : bool
        By default gradients flow through the steps, and autograd then keeps all steps. If True, the
        backward pass solves a system with A once more (implicit function theorem), and no step is
        kept. The gradients to y and to the weights of A are as exact as the tolerances. No
        gradients reach x0 and the preconditioner. A may be singular only if y and the gradient to x
        are in its range; else the backward pass raises a RuntimeError. Second derivatives are
        refused, and so are weights that are replaced or written to before the backward pass.
    checkpoint : str or path, optional
        A file. If the process ends, the same call continues from the file and returns the same
        bits. The file has x, the residual and the direction. It is written after every
        ``checkpoint_every`` steps and after the last one. ``FILE.previous`` has the state of the
        checkpoint before. Several processes write one file each, ``FILE.rank1`` from the second
        process on, and continue from the newest step that all of them have. The files are not
        deleted: a call with the file of a finished solve returns its solution without a step. Use
        one file for each solve, and delete it yourself.

        If a file belongs to another problem, a ValueError is raised on all processes. These are
        compared: shapes, dtype, device, options, the number of processes, and numbers measured on
        y, x0, A and the preconditioner, with a tolerance of 64 times the precision. To measure
        them, A and the preconditioner are applied once more. All systems are solved in one chunk.
        The callback gets the loaded step and the later ones. Gradients through the steps are
        refused. With ``implicit=True``, the solve of the backward pass has no checkpoint. If A is a
        function, or does not know of the other processes, give each process a different file name.
    checkpoint_every : int
        The number of steps between checkpoints.
    x0, max_num_iters, tqdm_kwargs, callback
        See :mod:`linops_solvers`. The ``values`` of a step are "residual",
        :math:`|A x - y| / |y|` (the largest of all systems), and "loss", f(x) (the sum). With
        ``gtol=0`` there is "decrease", which ``ltol`` bounds.

    Warns
    -----
    ConvergenceWarning
        If the residual is above gtol (above the root of the precision, if gtol is near the
        precision) and more steps would not help, for instance if A is singular and y is not in its
        range.

    References
    ----------
    M. R. Hestenes and E. Stiefel, "Methods of conjugate gradients for solving linear systems",
    Journal of Research of the National Bureau of Standards 49 (1952), section 3.

    Y. Saad, "Iterative methods for sparse linear systems" (2003), algorithm 9.1, with a
    preconditioner.

    G. Meurant, "Multitasking the conjugate gradient method on the CRAY X-MP/48", Parallel
    Computing 5 (1987), 267-280. A. T. Chronopoulos and C. W. Gear, "s-step iterative methods for
    symmetric linear systems", Journal of Computational and Applied Mathematics 25 (1989): also one
    reduction in a step, with one more vector and one more application of A.

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
    check_square(_NAME, A, "for least squares pass A.N and A.H(y), or use lsqr(A, y)")
    check_count(_NAME, "max_num_iters", max_num_iters)
    gtol, ltol = checked_number(_NAME, "gtol", gtol), checked_number(_NAME, "ltol", ltol)
    if x0 is not None:
        check_like(_NAME, "x0", x0, "y", y)
    batch = batched_vectors(_NAME, A, y, batch_dims)
    saved = checkpoint_of(_NAME, checkpoint, checkpoint_every, batch.totals.processes)
    if isinstance(preconditioner, NamedLinop):
        check_batch_axes(_NAME, preconditioner, batch.axes, y.ndim, "the preconditioner")
    if preconditioner is not None and not is_complex_linear(preconditioner):
        batch = replace(batch, has_complex_products=False)

    is_implicit = implicit and torch.is_grad_enabled()

    def solve(
        y: Tensor, x0: Tensor | None, progress: Progress, saved: Checkpoint | None = None
    ) -> tuple[Tensor, str | None]:
        found, complaints, n_systems = [], [], 0
        axes = () if progress.is_watched or saved is not None else batch.axes
        for A_part, M_part, part in chunks_of(A, preconditioner, y, axes):
            guess = None if x0 is None else x0[part]
            first = n_systems if part else None
            run = Run(A_part, M_part, batch, y[part], guess, (gtol, ltol), first_system=first)
            x = run.solve(progress, saved)
            run.check_underflow(x)
            found.append(x)
            complaints.append(run.check.complaint())
            n_systems += len(run.check.reasons)
        whole = torch.cat(found, axes[0]) if len(found) > 1 else x
        return whole, next(filter(None, complaints), None)

    def solve_and_check() -> Tensor:
        goals = {"residual": gtol} if gtol else {"decrease": ltol}
        progress = Progress(_NAME, max_num_iters, tqdm_kwargs, callback, goals=goals)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not is_implicit):
            x, complaint = solve(y, x0, progress, saved)
        if complaint is not None:
            progress.warn_once(complaint)
        if not is_implicit:
            return x
        again = Progress(_NAME, max_num_iters, goals=goals)
        operators = (A,) if preconditioner is None else (A, preconditioner)
        defect = y - in_own_space(_NAME, A, x)

        def to_y(gradient: Tensor) -> Tensor:
            z, other = solve(gradient, None, again)
            check_solved(_NAME, complaint or other)
            return z

        return attach(x, defect, to_y, _NAME, operators)

    def solve_in_graph() -> Tensor:
        return fixed_steps(A, preconditioner, batch, y, x0, max_num_iters)

    numbers = {"gtol": gtol, "ltol": ltol, "implicit": is_implicit}
    reading = {
        **numbers,
        "tqdm_kwargs": tqdm_kwargs,
        "callback": callback,
        "checkpoint": checkpoint,
    }
    return solved_in_steps(_NAME, reading, solve_and_check, solve_in_graph)


@dataclass
class Loop:
    """The state of the loop beside x and the residual."""

    direction: Tensor
    iteration: int = 0
    is_anew: bool = True
    """Whether the residual was computed anew; then it is the next direction."""
    energy: Numbers = 0.0
    """Re r^H z; like the others in the units of the run."""
    factor: Numbers = 0.0
    """Factor of the direction in the next direction."""
    norm_of_A: Numbers = 0.0
    length: Numbers = 0.0
    """Norm of the direction."""
    image: Tensor | None = None
    """A times the next direction, or None. If it is given, ``direction`` is the next direction."""


class Run:
    """One run, in units in which each right-hand side is near 1."""

    def __init__(
        self,
        A: Operator,
        preconditioner: Operator | None,
        batch: BatchedVectors,
        y: Tensor,
        x0: Tensor | None,
        tolerances: tuple[float, float],
        dtype: torch.dtype | None = None,
        first_system: int | None = None,
    ) -> None:
        self.A, self.preconditioner, self.batch, self.y = A, preconditioner, batch, y
        self.A_again = A
        # The unit of A, if its own unit would exceed the range of the dtype.
        self.unit_of_A: Numbers = None
        image = None if x0 is None else self.forward(x0)
        y = widened(y)
        residual = y if image is None else y - image
        self.unit = self.unit_of(residual) if image is None else self.unit_of(y, residual)
        self.residual = divided(residual, self.unit, None if image is None else residual)
        self.x = torch.zeros_like(self.residual) if x0 is None else widened(x0) / self.unit
        norm = size = batch.norm(self.residual)
        loss = image_size = 0.0 * norm
        direction = torch.empty_like(self.residual)
        if image is not None:
            scaled = divided(y, self.unit, direction)
            size, product = batch.norm(scaled), batch.inner(self.x, scaled).real
            scaled = divided(image, self.unit, direction)
            loss = batch.inner(self.x, scaled).real / 2 - product
            image_size = batch.norm(scaled)
        self.is_guessed = image is not None
        self.loop = Loop(direction)
        if batch.axes:
            self.loop.norm_of_A = torch.zeros_like(self.unit)
        size, loss, norm, image_size = reals_on_host(size, loss, norm, image_size)
        # One whole vector on a CPU, not in half precision: see plain_steps.
        is_whole = not batch.axes and batch.totals.add is None and batch.has_complex_products
        self.is_plain = is_whole and y.is_cpu and y is self.y and preconditioner is None
        if self.is_guessed and is_any(norm <= tolerances[0] * size):
            image_size = self.largest_image()
        self.check = ConvergenceCheck(
            size,
            loss,
            norm,
            image_size,
            tolerances,
            dtype or self.y.dtype,
            preconditioner,
            first_system,
        )

    def unit_of(self, *vectors: Tensor) -> Numbers:
        """Return a power of two for each system, below the largest entry; 1 for zeros."""
        if not self.batch.axes:
            return self.batch.space.unit_of(_NAME, *vectors)
        unit = reduce(torch.maximum, [self.batch.unit(vector, 0.0) for vector in vectors])
        return torch.where(unit > 0, unit, 1)

    @torch.no_grad()
    def largest_image(self) -> Numbers:
        """Return an estimate of |A| |x| for the first guess, because terms of A x may cancel."""
        first = self.forward(self.batch.space.random_like(self.x.detach()))
        first = first / self.batch.unit(first)
        second = self.batch.norm(self.forward(first)) / self.batch.norm(first)
        return reals_on_host((second * self.batch.norm(self.x)).nan_to_num(0.0))[0]

    def applied(self, operator: Operator, x: Tensor, name: str = "A") -> Tensor:
        """Return an operator applied to x in the dtype of y, widened again."""
        return widened(in_own_space(_NAME, operator, narrowed(x, self.y.dtype), name))

    def forward(self, x: Tensor) -> Tensor:
        """Return A x, in the unit of A."""
        image = self.applied(self.A, x)
        return image if self.unit_of_A is None else image / self.unit_of_A

    def solve(self, progress: Progress, checkpoint: Checkpoint | None = None) -> Tensor:
        """Return the solution, in the unit of y."""
        if checkpoint is not None:
            precision = torch.finfo(self.y.dtype).eps
            problem = self.problem(progress.limit)
            state = checkpoint.load(problem, min(64 * precision, precision**0.5))
            if state is not None:
                self.restore(state)
        steps = self.steps(progress, checkpoint)
        return progress.follow(steps, Run.result, self.loop.iteration).result()

    def problem(self, limit: int) -> State:
        """Return the description of this problem, for a checkpoint."""
        y, check, space = self.y, self.check, self.batch.space
        vectors = {"y": y, "x0": self.x} if self.is_guessed else {"y": y}
        operators = [("A", self.A), ("the preconditioner", self.preconditioner)]
        for seed, (name, operator) in enumerate(operators):
            if operator is not None:
                probe = space.random_like(y.detach(), space.generator(2 * seed + 1))
                vectors[name] = in_own_space(_NAME, operator, probe, name)
        advice = "pass implicit=True, or call it"
        check_not_recorded(_NAME, *vectors.values(), advice=advice)
        problem: dict[str, object] = {
            "shape": [*y.shape],
            "dtype": str(y.dtype),
            "device": y.device.type,
            "axes of systems": [*self.batch.axes],
            "gtol": check.gtol,
            "ltol": check.ltol,
            "max_num_iters": int(limit),
        }
        for seed, (name, vector) in enumerate(vectors.items()):
            vector = widened(vector.detach())
            unit = torch.as_tensor(self.unit_of(vector))
            vector = vector / unit
            other = space.random_like(vector, space.generator(2 * seed))
            product, length = self.batch.inner(other, vector), self.batch.norm(vector)
            rows = [number.cpu().to(torch.complex128) for number in (product, length)]
            problem[f"the scale of {name}"] = unit.cpu().reshape(1, -1)
            problem[name] = torch.stack(rows).reshape(2, -1)
        return problem

    def state(self) -> State:
        """Return the state of the loop as plain numbers and tensors."""
        loop, names = dict(vars(self.loop)), ("x", "residual", "unit", "unit_of_A")
        loop["energy"] = loop["energy"].real
        return {"loop": loop, "check": self.check.state()} | {n: vars(self)[n] for n in names}

    def restore(self, state: State) -> None:
        """Continue from a state of the same problem."""
        device = self.y.device

        def here(value: Any) -> Any:
            return value.to(device) if isinstance(value, Tensor) else value

        own = {name: here(value) for name, value in state.items() if name not in ("loop", "check")}
        vars(self).update(own)
        self.loop = Loop(**{name: here(value) for name, value in state["loop"].items()})
        self.check.restore(state["check"])

    def steps(
        self, progress: Progress, checkpoint: Checkpoint | None = None
    ) -> Iterator[Iterate[Run]]:
        """Do the steps; at the limit of ``progress``, uncertain residuals are computed anew."""
        check, batch = self.check, self.batch
        if progress.limit == 0:
            check.stop(check.active, StopReason.MAX_ITERATIONS)
        yield self, self.values(progress), check.reasons
        # If several processes have parts of the vectors, a step has one reduction.
        is_at_once = batch.totals.add is not None and self.preconditioner is None
        if not self.loop.is_anew:
            searched = self.searched()
        is_shown = progress.is_watched or checkpoint is not None
        while True:
            loop = self.loop
            if loop.is_anew:
                searched = self.begin()
            measured = self.plain_steps(0 if is_shown else progress.limit)
            iteration, direction = loop.iteration + 1, loop.direction
            previous = loop.energy
            if measured is not None:
                energy, norm_of_A, searched = measured.energy, measured.norm, self.residual
            else:
                energy, image = previous, loop.image
                if image is None:
                    direction = add_scaled(searched, loop.factor, direction, into=direction)
                    image = self.forward(direction)
                is_checked, lengths = check.n_steps < N_CHECKED, [direction, image]
                pairs = [(direction, image), (searched, image)][: 1 + (is_checked or is_at_once)]
                if is_at_once:
                    lengths.append(self.residual)
                curvature, *numbers = self.scalars(*batch.measured(pairs, lengths))
                cross, (length, image_length, *known) = (
                    numbers[: len(pairs) - 1],
                    numbers[len(pairs) - 1 :],
                )
                if known:
                    previous = energy = known[0] ** 2
                norm_of_A = largest_ratio(loop.norm_of_A, image_length, length)
                floor = check.definite.floor(norm_of_A, length)
                step = self.ratio(energy, curvature, curvature.real > floor)
                self.x = add_scaled(self.x, step, direction)
                self.residual = add_scaled(self.residual, -step, image)
                del image, pairs, lengths, searched  # freed before the next ones are made
                loop.image = None
                searched = self.searched()
                norms: list[Numbers] = []
                if known:
                    energy, *norms = self.foreseen(energy, step, cross[0], image_length)
                if not norms:
                    vectors = self.residual, searched
                    sizes = vectors if self.preconditioner else ()
                    energy, *norms = self.scalars(*batch.measured([vectors], sizes))
                    norms = norms or [energy.real**0.5] * 2
                    del vectors, sizes
                found = [curvature, energy, step, length, image_length, norm_of_A, *norms]
                found += cross if is_checked else []
                if isinstance(curvature, Tensor) or isinstance(energy, Tensor):
                    found = on_host(*found)
                    found[2:8] = [number.real for number in found[2:8]]
                measured = Measured(*found)
            check.step(measured)
            if iteration == progress.limit:
                check.stop(check.active, StopReason.MAX_ITERATIONS)
            factor, is_anew = self.ratio(energy, previous, previous.real > 0), check.has_to_verify
            length = measured.direction
            self.loop = Loop(direction, iteration, is_anew, energy, factor, norm_of_A, length)
            if is_anew:
                del searched  # freed, because it keeps the memory of the residual
                self.verify()
            if checkpoint is not None:
                is_last = iteration == progress.limit or None not in check.reasons
                if is_last or iteration % checkpoint.every == 0:
                    checkpoint.save(iteration, self.state())
            if iteration == progress.limit and progress.goals and (complaint := check.complaint()):
                progress.warn_once(complaint)  # it says more than that more steps are needed
            yield self, self.values(progress), check.reasons

    def begin(self) -> Tensor:
        """Make the first direction, and A times it; return the residual, preconditioned."""
        loop, searched = self.loop, self.searched()
        (loop.energy,) = self.scalars(self.batch.inner(self.residual, searched))
        first, length = on_host(loop.energy, self.batch.norm(searched))
        self.check.begin(first, length.real)
        loop.direction, loop.factor = copied(searched, loop.direction), 0.0
        image, A = self.forward(loop.direction), self.A
        if isinstance(A, NamedLinop):  # it has checked its input and output
            self.A_again = partial(A.fn, A) if A._has_checked(loop.direction) else A._call_again
        loop.image = image if loop.iteration else self.in_chosen_unit(image)
        loop.is_anew = False
        return searched

    def plain_steps(self, limit: int) -> Measured | None:
        """Do steps of one whole vector, up to the first one to which a rule of checks may apply.

        A step takes two inner products; norms follow from the last step. The residual r is
        orthogonal to the last direction p', so |p|^2 = |r|^2 + (factor |p'|)^2. As r^H A p is
        p^H A p, the next residual r' has |A p|^2 = (|r|^2 + |r'|^2) / step^2. The first steps
        measure r^H A p and |A p|^2 instead, for the checks.

        Return the numbers of the last step, which are to be checked. None if that step was not
        done: the curvature is not surely positive, or autograd follows. The general step goes on
        then.
        """
        loop, check = self.loop, self.check
        x, r, p, length = self.x, self.residual, loop.direction, loop.length
        if not self.is_plain or self.unit_of_A is not None or is_followed(r, p):
            return None
        definite, root, lowest = check.definite, check.precision**0.5, check.lowest()
        ltol = 0.0 if check.gtol else check.ltol
        measured, n_done, n_most = None, 0, limit - loop.iteration - 1
        n_checked = N_CHECKED - check.n_steps
        energy, factor, norm = loop.energy.real, loop.factor, loop.norm_of_A
        loss, of_x = check.loss, check.length
        image, loop.image = loop.image, None
        while True:
            if image is None:
                image = self.A_again(torch.add(r, p, alpha=factor, out=p))
                check_like(_NAME, "the output of A", image, "y", p)
            squared = energy + (factor * length) ** 2
            curvature = inner(p, image).item()
            if image.requires_grad or not curvature.real > definite.noise * norm * squared:
                loop.image = image
                break
            step, length, cross = energy / curvature.real, math.sqrt(squared), curvature
            is_checked = n_done < n_checked
            if is_checked:
                cross = inner(r, image).item()
                of_image = math.sqrt(squared_norm(image).item())
            x.add_(p, alpha=step)
            r.add_(image, alpha=-step)
            image = None  # freed before the next one is made
            found = squared_norm(r).item()
            residual, decrease = math.sqrt(found), 0.5 * step * energy
            if not is_checked:
                of_image = math.sqrt(energy + found) / step
            largest = max(norm, of_image / length)
            is_eventful = not (  # whether a rule of the checks may apply
                residual > lowest
                and n_done < n_most
                and curvature.real > definite.noise * largest * squared
                and abs(curvature.imag) <= root * length * of_image
                and abs(cross - curvature) <= root * (length + math.sqrt(energy)) * of_image
                and residual + of_image + of_x + step * length < math.inf
                and (not ltol or decrease > ltol * abs(loss - decrease))
            )
            if is_eventful or is_checked:
                norms = length, of_image, largest, residual, residual
                measured = Measured(curvature, found, step, *norms, cross if is_checked else None)
                if is_eventful:
                    break
                definite.note_rounding(measured, energy)
                measured = None
            n_done, loss, of_x = n_done + 1, loss - decrease, of_x + step * length
            factor, energy, norm = found / energy, found, largest
        if n_done:
            check.note_steps(n_done, norm, energy, loss, of_x)
        loop.iteration += n_done
        loop.energy, loop.factor, loop.norm_of_A = energy, factor, norm
        return measured

    def foreseen(
        self, energy: float, step: float, cross: complex, image_length: float
    ) -> list[float]:
        """Return |r - s q|^2 from |r|^2, r^H q and |q|^2, and twice a bound of its root.

        Only a 0 is returned if the terms cancel, because too few digits would be left. The next
        step measures |r|^2 again, so errors do not accumulate.
        """
        added = energy + (step * image_length) ** 2
        found = added - 2 * step * cross.real
        if not found > 0.01 * added:
            return [0.0]
        bound = math.sqrt(found + 4 * torch.finfo(self.residual.dtype).eps * added)
        return [found, bound, bound]

    def own_unit(self) -> Numbers:
        """Return the unit of x."""
        return self.unit if self.unit_of_A is None else self.unit / self.unit_of_A

    def result(self) -> Tensor:
        """Return a new x in the unit of y."""
        x, is_extreme = self.x * self.own_unit(), self.unit_of_A is not None
        return in_given_precision(_NAME, x, self.y.dtype, may_be_extreme=is_extreme)

    def check_underflow(self, x: Tensor) -> None:
        """Raise an error if the result lost digits because the dtype cannot hold small numbers."""
        if self.unit_of_A is None and x.dtype == self.x.dtype:
            return
        exact = self.x.detach()
        lost = self.batch.norm(widened(x.detach()) / self.own_unit() - exact)
        if not bool((lost <= torch.finfo(x.dtype).eps * self.batch.norm(exact)).all()):
            raise ArithmeticError(
                f"{_NAME}: the scale of A must be such that the solution is in the range of "
                f"{x.dtype}, got numbers too small for it"
            )

    def in_chosen_unit(self, image: Tensor) -> Tensor:
        """Choose the unit of A by its output for a vector near 1; return the scaled output."""
        unit = self.unit_of(image)
        (numbers,) = reals_on_host(unit)
        check_scale(_NAME, numbers, self.y.dtype)
        if not is_moderate(numbers):
            self.unit_of_A = unit
            self.x, image = self.x * self.unit_of_A, image / self.unit_of_A
            self.check.loss = self.check.loss * numbers
        if self.is_guessed:
            (self.check.length,) = reals_on_host(self.batch.norm(self.x))
        return image

    def norm(self) -> float:
        """Return the largest |A p| / |p| of the steps of a single system; 0 if there were none."""
        unit = 1.0 if self.unit_of_A is None else float(self.unit_of_A)
        return float(self.check.norm) * unit if self.check.n_steps else 0.0

    def searched(self) -> Tensor:
        """Return the residual, preconditioned."""
        if self.preconditioner is None:
            return self.residual
        return self.applied(self.preconditioner, self.residual, "the preconditioner")

    def scalars(self, *found: Tensor) -> list[Numbers]:
        """Return numbers for the next vectors; for one system, on the host, which is fastest.

        They stay tensors for several systems, and if autograd follows.
        """
        return [*found] if self.batch.axes or is_followed(*found) else on_host(*found)

    def ratio(self, over: Numbers, under: Numbers, is_valid: Numbers) -> Numbers:
        """Return the ratio of two real numbers of each system; 0 where it is masked."""
        if not isinstance(is_valid, Tensor):
            return over.real / under.real if is_valid else 0.0
        if self.batch.axes:
            is_valid = is_valid & self.check.active.reshape(over.shape).to(over.device)
        return torch.where(is_valid, over.real / torch.where(is_valid, under.real, 1), 0)

    def verify(self) -> None:
        """Compute the residual of the x that would be returned, without the recurrence."""
        x = widened(narrowed(self.x, self.y.dtype))
        image, y = self.forward(x), widened(self.y)
        if is_followed(y, image):
            self.residual = y / self.unit - image
        else:
            self.residual = torch.div(y, self.unit, out=self.residual).sub_(image)
        self.check.verify(*reals_on_host(self.batch.norm(self.residual), self.batch.norm(x)))

    def values(self, progress: Progress) -> dict[str, float]:
        """Return the values of a step that is watched, or the residual after the last step."""
        rest = {"decrease": self.check.decrease} if "decrease" in progress.goals else {}
        if not progress.is_watched:
            return {} if None in self.check.reasons else {"residual": self.check.relative} | rest
        unit, own_unit = reals_on_host(self.unit, self.own_unit())
        losses = self.check.loss * own_unit * unit
        loss = losses.sum().item() if isinstance(losses, Tensor) else losses
        return {"residual": self.check.relative, "loss": float(loss)} | rest


def largest_ratio(largest: Numbers, over: Numbers, under: Numbers) -> Numbers:
    """Return the larger of a number and a ratio; 0 / 0 is ignored."""
    if isinstance(over, Tensor):
        return torch.fmax(over / under, torch.as_tensor(largest, device=over.device)).detach()
    return max(largest, over / under) if under else largest
