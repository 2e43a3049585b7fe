"""Matrices of operators: complex ones, or real ones over (Re x, Im x).

A complex tensor is the matrix itself. A real one has twice the rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from .._algebra._real_form import RealForm
from .._base._linop import NamedLinop


def real_matrix(M: Tensor, of_conjugate: Tensor | None = None) -> Tensor:
    r"""Return the matrix over (Re x, Im x) of :math:`x \mapsto M x + W \bar x`; a real M as it is.

    Examples
    --------
    >>> real_matrix(torch.tensor([[2j]]))
    tensor([[ 0., -2.],
            [ 2.,  0.]])
    """
    if not M.is_complex():
        return M
    W = torch.zeros_like(M) if of_conjugate is None else of_conjugate
    upper = torch.cat([M.real + W.real, W.imag - M.imag], dim=1)
    return torch.cat([upper, torch.cat([M.imag + W.imag, M.real - W.real], dim=1)])


def alike(*matrices: Tensor) -> list[Tensor]:
    """Return all matrices over the complex numbers, or all of them over the reals."""
    are_complex = all(M.is_complex() for M in matrices)
    return [*matrices] if are_complex else [real_matrix(M) for M in matrices]


def scaled(number: complex, M: Tensor) -> Tensor:
    """Return the matrix of ``number`` times the operator."""
    if M.is_complex():
        return number * M
    return real_matrix(number * torch.eye(len(M) // 2, dtype=torch.complex128)) @ M


def conjugated(M: Tensor) -> Tensor:
    """Return the matrix of x -> conj(A conj(x))."""
    if M.is_complex():
        return M.conj()
    rows, columns = (torch.tensor([1.0, -1.0]).repeat_interleave(n // 2) for n in M.shape)
    return rows[:, None] * M * columns


def product(M: Tensor, x: Tensor) -> Tensor:
    """Return the product of a matrix of either kind and the entries of x, complex and flat."""
    x = x.flatten().to(torch.complex128)
    if M.is_complex():
        return M @ x
    return torch.complex(*(M @ torch.cat([x.real, x.imag])).chunk(2))


def dense(linop: NamedLinop, sizes: Mapping[str, int], is_complex: bool) -> Tensor:
    """Return the matrix of an operator over the complex numbers, or that over the reals."""
    if is_complex:
        return linop.to_dense(sizes, torch.complex128)
    unused = next(name for name in "PQRST" if name not in map(str, linop.dims))
    return RealForm(linop, unused).to_dense(sizes, torch.float64)
