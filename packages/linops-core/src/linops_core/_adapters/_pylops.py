"""To and from ``pylops.LinearOperator``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from memmap.siblings import check_flags

from .._base._linop import NamedLinop
from .._extras import optional_module
from ._arrays import ArrayFunctions
from ._external_operator import ExternalOperator, Names, with_true_adjoint
from ._scipy import as_linear_operator, matrix_free

if TYPE_CHECKING:
    from pylops import LinearOperator


def to_pylops(
    linop: NamedLinop,
    sizes: Mapping[str, int] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> LinearOperator:
    """Return the operator as a PyLops ``LinearOperator`` on NumPy arrays.

    Parameters and errors are those of :meth:`NamedLinop.to_scipy`. It needs the extra ``pylops``.

    Returns
    -------
    pylops.LinearOperator
        Its ``dims`` and ``dimsd`` are the sizes of input and output. Its ``clinear`` is
        ``linop.is_complex_linear``.
    """
    base = optional_module("pylops", "to_pylops").LinearOperator
    functions = ArrayFunctions(linop, sizes, dtype, device)
    operator = base(
        as_linear_operator(functions),
        dims=functions.ilengths or (1,),
        dimsd=functions.olengths or (1,),
        name=linop.name,
    )
    operator.clinear = linop.is_complex_linear
    # The methods of PyLops take one column after the other.
    operator._matmat, operator._rmatmat = functions.matmat, functions.rmatmat
    return operator


def from_pylops(
    operator: LinearOperator,
    ishape: Names,
    oshape: Names,
    name: str | None = None,
    *,
    check_adjoint: bool = True,
) -> NamedLinop:
    """Return an operator that calls a PyLops ``LinearOperator``.

    Like operators of :func:`from_scipy`, it computes on the CPU and has gradients to the input. If
    the ``clinear`` of ``operator`` is False, as for a real FFT, the result is linear over the reals
    only (:attr:`NamedLinop.is_complex_linear`), and it takes only real vectors if the dtype is
    real. Any other operator of a real dtype is a real matrix and is applied to real and imaginary
    parts.

    Parameters
    ----------
    operator : pylops.LinearOperator
        On NumPy arrays.
    ishape, oshape : sequences of dimensions
        Names for its ``dims`` and ``dimsd``. A ``...`` at the front of both is a batch of arrays.
    name : str, optional
    check_adjoint : bool
        Whether to apply the operator and its adjoint to one random vector, and refuse an adjoint
        that is that of another operator. By default this is done.

    Raises
    ------
    ImportError
        If PyLops is not installed (the extra ``pylops``).
    TypeError
        If ``operator`` is not a PyLops operator.
    ValueError
        If ``operator`` has no dtype, the names do not fit its shapes, or its adjoint is that of
        another operator (as those of ``Convolve1D`` with complex filters in PyLops 2.8).
    """
    check_flags("from_pylops", check_adjoint=check_adjoint)
    kind = optional_module("pylops", "from_pylops").LinearOperator
    if not isinstance(operator, kind):
        raise TypeError(
            f"from_pylops: the operator must be a PyLops LinearOperator, got {type(operator)}"
        )
    if getattr(operator, "dtype", None) is None:
        raise ValueError(
            f"from_pylops: the operator must have a dtype, got none in {type(operator).__name__}; "
            "give dtype= when you make it"
        )
    lengths = (tuple(operator.dims), tuple(operator.dimsd))
    name = name or operator.name or type(operator).__name__
    matrix = matrix_free(operator, "PyLops")
    A = ExternalOperator(matrix, ishape, oshape, lengths, name)
    return with_true_adjoint("from_pylops", A) if check_adjoint else A
