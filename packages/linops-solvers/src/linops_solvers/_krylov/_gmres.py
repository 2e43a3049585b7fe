"""GMRES: any square system, with the smallest residual in a Krylov space."""

from __future__ import annotations

from functools import partial
from typing import Unpack

import torch
from torch import Tensor

from linops_core.siblings import check_integer, inner_products, squared_norm

from .._shared._checks import Operator
from .._shared._options import Watching, with_options
from .._shared._precision import in_own_space, rounding_of
from .._shared._reports import Measured
from ._square_system import SquareSteps, SquareSystem, solution_with_gradient


@with_options(Watching)
def gmres(
    A: Operator,
    y: Tensor,
    x0: Tensor | None = None,
    max_num_iters: int = 200,
    tol: float = 1e-5,
    *,
    restart: int = 30,
    preconditioner: Operator | None = None,
    adjoint: Operator | None = None,
    **watching: Unpack[Watching],
) -> Tensor:
    r"""Solve :math:`A x = y` for any square A.

    A step applies A once, and x has the smallest residual :math:`|A x - y|` of the Krylov space
    since the last restart. It stops when the residual, computed anew, is at most
    :math:`\mathrm{tol} \, |y|`. If a whole cycle does not reduce the residual, it stops with the
    reason ``STALLED``. The result has the smallest residual found, also where A is singular.

    The solver keeps ``restart`` + 7 vectors, and waits for the device once in a step. Gradients are
    those of the exact solution: the backward pass solves with the adjoint of A. If one of both
    systems has no solution, it raises a RuntimeError.

    Parameters
    ----------
    tol : float
        Bound of the residual, relative to y (relative to the residual of x0 if y is zero).
    restart : int
        Number of steps after which a new Krylov space begins. A larger number needs fewer steps and
        more memory.
    preconditioner : NamedLinop or function, optional
        M, an approximation of the inverse of A. The solver solves :math:`A M u = y` with
        :math:`x = M u`, so the residual is :math:`|A x - y|`. The backward pass does not use it.
    adjoint : function, optional
        Adjoint of A, for gradients if A is a function.
    callback
        The ``values`` of a step are "residual", :math:`|A x - y| / |y|`.

    Warns
    -----
    ConvergenceWarning
        If the residual is above the tolerance and more steps would not help.

    References
    ----------
    Y. Saad and M. H. Schultz, "GMRES: a generalized minimal residual algorithm for solving
    nonsymmetric linear systems", SIAM Journal on Scientific and Statistical Computing 7 (1986),
    856-869.

    Examples
    --------
    >>> A = torch.tensor([[0.0, 2.0], [-1.0, 1.0]])
    >>> torch.round(gmres(A.mv, torch.tensor([2.0, 0.0])), decimals=4)
    tensor([1., 1.])
    """
    check_integer("gmres", "restart", restart, 1)

    method, operators = partial(_GmresSteps, restart), (A, adjoint, preconditioner)
    return solution_with_gradient("gmres", method, operators, y, x0, max_num_iters, tol, watching)


class _GmresSteps(SquareSteps):
    """The Arnoldi process of at most ``restart`` steps, which starts at the residual."""

    def __init__(self, restart: int, system: SquareSystem, preconditioner: Operator | None) -> None:
        self.system, self.restart = system, min(restart, system.space.count(system.y))
        self.preconditioner: Operator | None = None
        if preconditioner is not None:
            given = system.owner, preconditioner, system.dtype, "the preconditioner"
            self.preconditioner = in_own_space(*given)
        self.basis = system.y.new_empty(self.restart + 1, system.y.numel())
        self.begin()

    def begin(self) -> None:
        """Start at the residual."""
        self.n_steps = 0
        self.basis[0].copy_(self.system.residual.flatten()).div_(self.system.misfit or 1.0)
        self.hessenberg = torch.zeros(
            self.restart + 1, self.restart, dtype=torch.complex128, device="cpu"
        )

    def step(self) -> Measured:
        """Add a direction; begin a new cycle at the end of this one, and near the solution."""
        said, is_whole = self.add()
        reason = None
        if said <= self.system.goal or is_whole:
            reason, said = self.system.moved_to(self.x(), said), self.system.misfit
            self.begin()
        return self.system.values(said), reason

    def add(self) -> tuple[float, bool]:
        """Add a direction; return the smallest residual, and whether there is none to add."""
        system, number = self.system, self.n_steps
        basis, new = self.basis[: number + 1], self.basis[number + 1]
        image = system.forward(self.applied(basis[-1])).flatten()
        new.copy_(image)
        del image
        products, square = system.space.total(inner_products(basis, new), squared_norm(new))
        new.addmv_(basis.mT, products, alpha=-1)
        # Again, because once leaves parts in the basis where nearly all of the image is in it.
        (parts,) = system.space.total(inner_products(basis, new))
        new.addmv_(basis.mT, parts, alpha=-1)
        products = products + parts
        norm_of_rest = system.space.norm(new)
        norms = torch.stack([norm_of_rest, square.sqrt()])
        *column, rest, norm = torch.cat([products, norms]).tolist()
        rest, norm = complex(rest).real, complex(norm).real
        system.note_norm(norm)
        is_last = rest <= 4 * torch.finfo(new.real.dtype).eps * norm
        if not is_last:
            new.div_(norm_of_rest)
        column.append(0.0 if is_last else rest)
        self.n_steps = number + 1
        self.hessenberg[: number + 2, number] = torch.tensor(
            column, dtype=torch.complex128, device="cpu"
        )
        _, said = self.coefficients()
        return said, is_last or self.n_steps == self.restart

    def coefficients(self) -> tuple[Tensor, float]:
        """Return the coefficients with the smallest residual, and the residual.

        Singular values at the level of the rounding of A count as 0.
        """
        count = self.n_steps
        hessenberg = self.hessenberg[: count + 1, :count]
        right = hessenberg.new_zeros(count + 1, 1)
        right[0] = self.system.misfit
        rounding = count * rounding_of(self.system.dtype)
        solution = torch.linalg.lstsq(hessenberg, right, rcond=rounding, driver="gelsd").solution
        misfit = torch.linalg.vector_norm(right - hessenberg @ solution)
        return solution.squeeze(-1), float(misfit)

    def applied(self, direction: Tensor) -> Tensor:
        """Return M times a direction."""
        shaped = direction.reshape(self.system.y.shape)
        return shaped if self.preconditioner is None else self.preconditioner(shaped)

    def x(self) -> Tensor:
        """Return the x with the smallest residual so far."""
        if not self.n_steps:
            return self.system.x
        factors, _ = self.coefficients()
        basis = self.basis[: self.n_steps]
        factors = (factors if basis.is_complex() else factors.real).to(basis)
        return self.system.x + self.applied(basis.mT @ factors)
