"""To and from ``pylops.LinearOperator``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from nameddim import NamedDimension

from .._base._linop import NamedLinop
from ._arrays import ArrayFunctions
from ._extras import needed
from ._foreign_linop import ForeignLinop
from ._scipy import OperatorProduct

if TYPE_CHECKING:
    from numpy.typing import NDArray


def to_pylops(
    linop: NamedLinop,
    sizes: Mapping[str, int] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Any:
    """Return the operator as a PyLops ``LinearOperator`` on NumPy arrays.

    Parameters
    ----------
    sizes, dtype, device : optional
        As for ``A.to_scipy``.

    Returns
    -------
    pylops.LinearOperator
        Its ``dims`` and ``dimsd`` are the sizes of input and output.

    Raises
    ------
    ImportError
        If PyLops is not installed (the extra ``pylops``).
    TypeError, ValueError
        As for ``A.to_scipy``.
    """
    return _operator_class()(ArrayFunctions(linop, sizes, dtype, device))


@cache
def _operator_class() -> Any:
    base: Any = needed("pylops", "to_pylops").LinearOperator

    class TorchOperator(base):  # type: ignore[misc] # PyLops is not always there
        """An operator of linops_core."""

        def __init__(self, functions: ArrayFunctions) -> None:
            self.functions = functions
            super().__init__(
                dtype=functions.dtype,
                dims=functions.ilengths or (1,),
                dimsd=functions.olengths or (1,),
                name=functions.linop.name,
            )

        def _matvec(self, x: NDArray[Any]) -> NDArray[Any]:
            return self.functions.matvec(x)

        def _rmatvec(self, x: NDArray[Any]) -> NDArray[Any]:
            return self.functions.rmatvec(x)

        def _matmat(self, X: NDArray[Any]) -> NDArray[Any]:
            return self.functions.matmat(X)

        def _rmatmat(self, X: NDArray[Any]) -> NDArray[Any]:
            return self.functions.rmatmat(X)

        def __reduce__(self) -> Any:
            return (_restored, (self.functions,))

    return TorchOperator


def _restored(functions: ArrayFunctions) -> Any:
    return _operator_class()(functions)


def from_pylops(
    operator: Any,
    ishape: Sequence[NamedDimension | str],
    oshape: Sequence[NamedDimension | str],
    name: str | None = None,
) -> NamedLinop:
    """Return an operator that calls a PyLops ``LinearOperator``.

    It computes on the CPU, in the dtypes that PyLops chooses, and returns the precision of its
    input. Gradients reach the input, to any order: they are the operator and its adjoint.

    Parameters
    ----------
    operator : pylops.LinearOperator
        On NumPy arrays.
    ishape, oshape : sequences of dimensions
        Names for its ``dims`` and ``dimsd``. A ``...`` at the front of both stands for a batch
        of arrays.
    name : str, optional

    Raises
    ------
    ImportError
        If PyLops is not installed (the extra ``pylops``).
    TypeError
        If ``operator`` is no PyLops operator.
    ValueError
        If it is not linear over complex numbers (``clinear``; taking the real part is not), it
        has no dtype, or the names do not fit its shapes.
    """
    kind = needed("pylops", "from_pylops").LinearOperator
    if not isinstance(operator, kind):
        raise TypeError(
            f"from_pylops: the operator must be a PyLops LinearOperator, got {type(operator)}"
        )
    if not operator.clinear:
        raise ValueError(
            "from_pylops: the operator must be linear over complex numbers (clinear), "
            f"got {operator!r}"
        )
    if getattr(operator, "dtype", None) is None:
        raise ValueError(
            f"from_pylops: the operator must have a dtype, got none in {type(operator).__name__}; "
            "give dtype= where it is made"
        )
    lengths = (tuple(operator.dims), tuple(operator.dimsd))
    name = name or operator.name or type(operator).__name__
    return ForeignLinop(PylopsProduct(operator), ishape, oshape, lengths, name)


class PylopsProduct(OperatorProduct):
    """Products with a PyLops operator, which has the methods of SciPy's."""

    library = "PyLops"
