"""The method of conjugate gradients, for one system or for many at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from linops_core import NamedLinop
from linops_core.siblings import check_flags, check_integer, check_real, check_vector

from .._shared._checks import Operator, check_like, check_square, is_complex_linear
from .._shared._graphs import solved_in_steps
from .._shared._options import Checkpointed, reading_options, with_options
from .._shared._progress import Progress
from .._shared._reports import Callback
from .._shared._vectors import BatchDims, check_batch_axes, space_of_systems
from ._conjugate_steps import ConjugateSteps
from ._implicit import attach_gradient

_NAME = "conjugate_gradients"


@with_options()
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
    progress: bool = False,
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
        still applied to all systems.
    implicit : bool
        By default gradients flow through the steps, and autograd then keeps all steps. They are the
        derivatives of the steps that were done, which can be far from those of the solution even if
        x is exact. If True, the backward pass solves a system with A once more (implicit function
        theorem), and no step is kept. The gradients to y and to the weights of A are as exact as
        the tolerances. No gradients reach x0 and the preconditioner. A may be singular only if y
        and the gradient to x are in its range; else the backward pass raises a RuntimeError. Second
        derivatives are refused, and so are weights that are replaced or written to before the
        backward pass.
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
        them, A and the preconditioner are applied once more. The callback gets the loaded step and
        the later ones. Gradients through the steps are refused. With ``implicit=True``, the solve
        of the backward pass has no checkpoint. If A is a function, or does not know of the other
        processes, give each process a different file name.
    callback
        The ``values`` of a step are "residual", :math:`|A x - y| / |y|` (the largest of all
        systems), and "objective", f(x) (the sum). With ``gtol=0`` there is "decrease", which
        ``ltol`` bounds.

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
    check_flags("conjugate_gradients", implicit=implicit, progress=progress)
    check_vector(_NAME, "y", y)
    check_square(_NAME, A, "for least squares pass A.N and A.H(y), or use lsqr(A, y)")
    check_integer(_NAME, "max_num_iters", max_num_iters, 0)
    gtol, ltol = check_real(_NAME, "gtol", gtol, 0), check_real(_NAME, "ltol", ltol, 0)
    if x0 is not None:
        check_like(_NAME, "x0", x0, "y", y)
    batch = space_of_systems(_NAME, A, y, batch_dims)
    if isinstance(preconditioner, NamedLinop):
        check_batch_axes(_NAME, preconditioner, batch.systems, y.ndim, "the preconditioner")
    if preconditioner is not None and not is_complex_linear(preconditioner):
        batch = replace(batch, has_complex_products=False)
    watching: Checkpointed = {
        "progress": progress,
        "tqdm_kwargs": tqdm_kwargs,
        "callback": callback,
        "checkpoint": checkpoint,
        "checkpoint_every": checkpoint_every,
    }
    is_implicit = implicit and torch.is_grad_enabled()
    goals = {"residual": gtol} if gtol else {"decrease": ltol}

    def solve(y: Tensor, x0: Tensor | None, progress: Progress) -> tuple[Tensor, str | None]:
        steps = ConjugateSteps(A, preconditioner, batch, y, x0, (gtol, ltol))
        x = steps.solve(progress)
        return x, steps.check.complaint()

    def solve_and_check() -> Tensor:
        own_progress = Progress(_NAME, max_num_iters, watching, goals=goals, space=batch)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not is_implicit):
            x, complaint = solve(y, x0, own_progress)
        if complaint is not None:
            own_progress.warn_once(complaint)
        if not is_implicit:
            return x
        again = own_progress.again()
        operators = (A,) if preconditioner is None else (A, preconditioner)
        return attach_gradient(
            x, y - A(x), lambda g: solve(g, None, again), _NAME, operators, complaint
        )

    def solve_in_graph() -> Tensor:
        steps = ConjugateSteps(A, preconditioner, batch, y, x0, is_read=False)
        return steps.after_fixed_steps(max_num_iters)

    numbers = {"gtol": gtol, "ltol": ltol, "implicit": is_implicit}
    return solved_in_steps(
        _NAME, numbers | reading_options(watching), solve_and_check, solve_in_graph
    )
