"""Orthogonal matching pursuit: a sparse solution, column by column."""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor

from linops_core.siblings import check_real, check_vector, inner_products

from .._shared._checks import Operator, check_complex_linear, check_finite, check_like
from .._shared._options import Watching, with_options
from .._shared._precision import OperatorPair, at_least_single, in_given_precision, rounding_of
from .._shared._products import LARGEST_OF_PRODUCTS
from .._shared._progress import Progress, SolverSteps
from .._shared._reports import Measured, StopReason, reason_of

_NAME = "omp"


@with_options(Watching)
@torch.no_grad()
def omp(
    A: Operator,
    y: Tensor,
    max_num_iters: int = 10,
    tol: float = 1e-5,
    *,
    column_norms: Tensor | None = None,
    adjoint: Operator | None = None,
    **watching: Unpack[Watching],
) -> Tensor:
    r"""An x with few nonzeros and a small residual :math:`|A x - y|`, by choosing columns.

    A step adds the column :math:`a_n` with the largest :math:`|a_n^H r| / |a_n|`, where r is the
    residual, and solves the least squares of all columns so far. It stops when the residual is at
    most :math:`\mathrm{tol} \, |y|`, or after ``max_num_iters`` columns. If no other column reduces
    the residual, the reason is ``LEAST_SQUARES``.

    It applies A and its adjoint once in a step, keeps two vectors of the output for each column,
    and waits for the device three times in a step. The result has no gradient.

    Parameters
    ----------
    max_num_iters : int
        The largest number of nonzeros.
    tol : float
        Bound of the residual, relative to y.
    column_norms : Tensor, optional
        The norms :math:`|a_n|` of the columns of A, of the shape of x: the root of the diagonal of
        ``A.N``. All equal by default.
    callback
        The ``values`` of a step are "residual", :math:`|A x - y| / |y|`, and "nonzeros".

    References
    ----------
    Y. C. Pati, R. Rezaiifar and P. S. Krishnaprasad, "Orthogonal matching pursuit: recursive
    function approximation with applications to wavelet decomposition", Asilomar Conference on
    Signals, Systems and Computers (1993), 40-44.

    Examples
    --------
    >>> from linops_core import Dense
    >>> A = Dense.from_einstr(torch.tensor([[1.0, 0.0, 0.6], [0.0, 1.0, 0.8]]), "MN,N->M")
    >>> omp(A, torch.tensor([0.0, 2.0]))
    tensor([0., 2., 0.])
    """
    check_vector(_NAME, "y", y)
    progress = Progress(_NAME, max_num_iters, watching)
    tol = check_real(_NAME, "tol", tol, 0)
    check_complex_linear(_NAME, A, "entries of x are chosen with their phases")
    steps = _OmpSteps(OperatorPair(_NAME, A, adjoint, y.dtype), y, tol, column_norms)
    start = {"residual": 1.0, "nonzeros": 0.0}, None if steps.norm_of_y else StopReason.CONVERGED
    return progress.follow(steps, start)


class _OmpSteps(SolverSteps):
    """The columns so far, their orthonormal basis, and the residual."""

    def __init__(self, A: OperatorPair, y: Tensor, tol: float, norms: Tensor | None) -> None:
        self.unit_of_y = A.output.unit_of(_NAME, at_least_single(y))
        y = at_least_single(y) / self.unit_of_y
        # Contiguous, because an entry is written through a flat view of zeros of these strides.
        self.correlation = A.adjoint(y).contiguous()
        unit_of_A = A.input.unit_of(_NAME, self.correlation)
        self.A, unit_of_A = A.in_moderate_unit(unit_of_A, LARGEST_OF_PRODUCTS, self.correlation)
        self.correlation, self.unit = self.correlation / unit_of_A, self.unit_of_y / unit_of_A
        self.y, self.tol, self.residual = y, tol, y
        (self.norm_of_y,) = A.norms_of([], [y])
        if norms is not None:
            check_vector(_NAME, "column_norms", norms)
            if norms.is_complex():
                raise TypeError(f"{_NAME}: column_norms must be real, got {norms.dtype}")
            if norms.shape != self.correlation.shape or not bool((norms >= 0).all()):
                raise ValueError(
                    f"{_NAME}: column_norms must be at least 0 and of the shape of x, "
                    f"{tuple(self.correlation.shape)}, got shape {tuple(norms.shape)}"
                )
            norms = at_least_single(norms)
        self.norms = norms
        self.chosen: list[int | None] = []
        """Entries of x; None for one that another process has."""
        self.basis: list[Tensor] = []
        self.triangle: list[Tensor] = []
        self.parts: list[Tensor] = []

    def step(self) -> Measured:
        """Add a column."""
        is_new = self.add()
        (misfit,) = self.A.norms_of([], [self.residual])
        noise = rounding_of(self.A.dtype) * self.norm_of_y
        reason = reason_of(misfit, self.tol * self.norm_of_y, noise)
        reason = reason or (None if is_new else StopReason.LEAST_SQUARES)
        return {"residual": misfit / self.norm_of_y, "nonzeros": float(len(self.chosen))}, reason

    def add(self) -> bool:
        """Add the column that reduces the residual most; return whether there is one."""
        score = self.correlation.abs()
        if self.norms is not None:
            score = torch.where(self.norms > 0, score / self.norms, 0)
        score = score.flatten()
        score[[entry for entry in self.chosen if entry is not None]] = -1.0
        best, highest = self._best(score)
        if not check_finite(_NAME, highest) > 0:
            return False
        unit_vector = torch.zeros_like(self.correlation)
        if best is not None:
            unit_vector.view(-1)[best] = 1.0
        column = self.A.forward(unit_vector)
        check_like(_NAME, "the output of A", column, "y", self.y)
        rest, parts = (
            column.flatten(),
            torch.zeros(len(self.basis), dtype=column.dtype, device="cpu"),
        )
        (before,), space = self.A.norms_of([], [rest]), self.A.output
        if self.basis:
            basis = torch.stack(self.basis)
            # Once leaves parts in the basis, of the rounding of a column that is nearly in it.
            for _ in range(2):
                (products,) = space.total(inner_products(basis, rest))
                rest, parts = rest - products @ basis, parts + products.cpu()
        (norm_of_rest,) = self.A.norms_of([], [rest])
        # A dependent column, or a residual that is only rounding, explains nothing.
        if norm_of_rest <= math.sqrt(len(self.chosen) + 1) * rounding_of(self.A.dtype) * before:
            return False
        self.chosen.append(best)
        self.basis.append(rest / norm_of_rest)
        self.triangle.append(torch.cat([parts, parts.new_tensor([norm_of_rest])]))
        along = space.inner(self.basis[-1], self.residual.flatten())
        self.parts.append(along.cpu())
        self.residual = self.residual - (along * self.basis[-1]).reshape(self.y.shape)
        self.correlation = self.A.adjoint(self.residual).contiguous()
        return True

    def _best(self, score: Tensor) -> tuple[int | None, float]:
        """Return the entry with the highest score (None: another process has it) and the score."""
        totals = self.A.input.totals
        index = int(score.argmax()) if len(score) else None
        highest = score.new_zeros(totals.n_parts)
        if index is not None:
            highest[totals.part] = score[index].clamp(min=0)
        (highest,) = self.A.input.total(highest)
        best = int(highest.argmax())
        return index if best == totals.part else None, float(highest[best])

    def result(self) -> Tensor:
        """Return the least-squares solution for the chosen columns, in the unit of y."""
        x = torch.zeros_like(self.correlation)
        if self.chosen:
            count = len(self.chosen)
            triangle = self.triangle[0].new_zeros(count, count)
            for index, column in enumerate(self.triangle):
                triangle[: index + 1, index] = column
            right = torch.stack(self.parts).unsqueeze(-1)
            solution = torch.linalg.solve_triangular(triangle, right, upper=True)
            check_finite(_NAME, float(solution.abs().max()), self.A.dtype)
            for entry, value in zip(self.chosen, solution.squeeze(-1).to(x), strict=True):
                if entry is not None:
                    x.view(-1)[entry] = value
        dtype, space = self.A.dtype, self.A.input
        return in_given_precision(_NAME, x, dtype, self.unit, space, of_y=self.unit_of_y)
