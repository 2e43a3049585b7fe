"""Operators of mrpro."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from torch import Tensor

from linops_core import NamedLinop
from nameddim import NamedDimension, NamedShape

from .._extras import optional_module

if TYPE_CHECKING:
    from mrpro.operators import LinearOperator


def to_mrpro(A: NamedLinop) -> LinearOperator:
    """Return the operator as a ``LinearOperator`` of mrpro, which its solvers and models take.

    Parameters
    ----------
    A : NamedLinop
        With a ``...`` for the batch that mrpro's tensors have, (..., C, Nz, Ny, Nx). It becomes a
        submodule: its weights are parameters and buffers of the operator.

    Returns
    -------
    mrpro.operators.LinearOperator
        Its adjoint is ``A.H``, and its ``gram`` is ``A.N``, in closed form if there is one.

    Raises
    ------
    ImportError
        If mrpro is not installed (the extra ``mrpro``).
    TypeError
        If A is not a NamedLinop.
    """
    if not isinstance(A, NamedLinop):
        raise TypeError(f"to_mrpro: the operator must be a NamedLinop, got {type(A)}")
    return _operator_class(optional_module("mrpro.operators", "to_mrpro", "mrpro").LinearOperator)(
        A
    )


@cache
def _operator_class(base: Any) -> Any:
    """Return the class of mrpro's operators that hold one of ours."""

    class LinopOperator(base):  # type: ignore[misc]  # which is known once mrpro is imported
        def __init__(self, linop: NamedLinop) -> None:
            super().__init__()
            self.linop = linop

        def forward(self, x: Tensor) -> tuple[Tensor]:
            return (self.linop(x),)

        def adjoint(self, x: Tensor) -> tuple[Tensor]:
            return (self.linop.H(x),)

        @property
        def gram(self) -> Any:
            return type(self)(self.linop.N)

    return LinopOperator


def from_mrpro(
    operator: LinearOperator,
    ishape: Sequence[NamedDimension | str],
    oshape: Sequence[NamedDimension | str],
    name: str | None = None,
) -> NamedLinop:
    r"""Return an operator that calls a ``LinearOperator`` of mrpro.

    mrpro's Fourier transforms are scaled by the root of the number of points of the *encoded*
    matrix, and its trajectories count cycles over that matrix. For a NUFFT of ours with the same
    numbers use ``trajectories.convert(locs, "mrpro", grid_size, encoded_size=...)``, times
    :math:`\sqrt{\prod_d N_d / \prod_d E_d}` for grid sizes N and encoded sizes E.

    Parameters
    ----------
    operator : mrpro.operators.LinearOperator
        It becomes a submodule of the operator.
    ishape, oshape : sequences of dimensions
        Names for the dimensions of its input and output, usually ``("...", "C", "Nz", "Ny", "Nx")``
        and ``("...", "C", "K2", "K1", "K0")``. A ``...`` is any number of them.
    name : str, optional

    Returns
    -------
    NamedLinop
        It runs where mrpro runs, with its gradients. ``H`` is mrpro's adjoint, which is exact. Its
        dimensions cannot be sliced.

    Raises
    ------
    ImportError
        If mrpro is not installed (the extra ``mrpro``).
    TypeError
        If ``operator`` is not a LinearOperator of mrpro.
    """
    kind = optional_module("mrpro.operators", "from_mrpro", "mrpro").LinearOperator
    if not isinstance(operator, kind):
        raise TypeError(f"from_mrpro: the operator must be a LinearOperator, got {type(operator)}")
    return _MrproLinop(NamedShape(ishape, oshape), operator, name or type(operator).__name__)


class _MrproLinop(NamedLinop):
    def __init__(self, shape: NamedShape, operator: Any, name: str) -> None:
        super().__init__(shape, name)
        self.operator = operator

    @staticmethod
    def fn(linop: _MrproLinop, x: Tensor, /) -> Tensor:
        """Return A x."""
        (y,) = linop.operator(x)
        result: Tensor = y
        return result

    @staticmethod
    def adj_fn(linop: _MrproLinop, x: Tensor, /) -> Tensor:
        """Return A^H x."""
        (y,) = linop.operator.adjoint(x)
        result: Tensor = y
        return result
