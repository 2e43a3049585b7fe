"""To and from ``sigpy.linop.Linop``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from memmap.siblings import check_flags

from .._base._conversions import check_has_matrix
from .._base._linop import NamedLinop
from .._extras import optional_module
from ._arrays import ArrayFunctions
from ._external_matrix import ExternalMatrix, check_complex_linear, each_row
from ._external_operator import ExternalOperator, Names, with_true_adjoint

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sigpy.linop import Linop


def to_sigpy(
    linop: NamedLinop,
    sizes: Mapping[str, int] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Linop:
    """Return the operator as a sigpy ``Linop`` on NumPy arrays.

    Parameters and errors are those of :meth:`NamedLinop.to_scipy`: an operator that is linear over
    the reals only is refused. It needs the extra ``sigpy``.

    Returns
    -------
    sigpy.linop.Linop
        Its ``H`` is the adjoint, and its ``N`` the normal operator in closed form if there is one.
    """
    check_has_matrix(linop, "to_sigpy")
    return _linop(ArrayFunctions(linop, sizes, dtype, device))


def _linop(functions: ArrayFunctions) -> Any:
    base = optional_module("sigpy.linop", "to_sigpy").Linop
    linop = base(functions.olengths, functions.ilengths, functions.linop.name)
    # Instead of a subclass, so that it can be pickled.
    linop._apply = functions.apply
    linop._adjoint_linop = partial(_derived, functions.adjoint)
    linop._normal_linop = partial(_derived, functions.normal)
    return linop


def _derived(derive: Callable[[], ArrayFunctions]) -> Any:
    return _linop(derive())


def from_sigpy(
    linop: Linop,
    ishape: Names,
    oshape: Names,
    name: str | None = None,
    *,
    check_adjoint: bool = True,
) -> NamedLinop:
    """Return an operator that calls a sigpy ``Linop``.

    Like operators of :func:`from_scipy`, it computes on the CPU and has gradients to the input.

    Parameters
    ----------
    linop : sigpy.linop.Linop
        On NumPy arrays, and linear over the complex numbers. It is applied to zeros and to two
        random arrays once, to find out whether it is complex and to check that it is linear.
    ishape, oshape : sequences of dimensions
        Names of the dimensions of its ``ishape`` and ``oshape``. A ``...`` at the front of both is
        a batch of arrays, to which it is applied one by one.
    name : str, optional
    check_adjoint : bool
        Whether to apply the operator and its adjoint to one random vector, and refuse an adjoint
        that is that of another operator. By default this is done.

    Raises
    ------
    ImportError
        If sigpy is not installed (the extra ``sigpy``).
    TypeError
        If ``linop`` is not a sigpy Linop.
    ValueError
        If the names do not fit its shapes, ``linop`` is linear over the reals only, or its ``H`` is
        that of another operator (sigpy 0.1.27: ``Wavelet`` with "bior2.2" has its inverse there).
    """
    check_flags("from_sigpy", check_adjoint=check_adjoint)
    kind = optional_module("sigpy.linop", "from_sigpy").Linop
    if not isinstance(linop, kind):
        raise TypeError(f"from_sigpy: the operator must be a sigpy Linop, got {type(linop)}")
    lengths = (tuple(linop.ishape), tuple(linop.oshape))
    zeros = torch.zeros(lengths[0], dtype=torch.float64).numpy()
    is_complex = linop(zeros).dtype.kind == "c"
    advice = "take real parts by linops_core.RealPart"
    check_complex_linear("from_sigpy", linop, lengths[0], advice)
    shape = prod(lengths[1]), prod(lengths[0])
    matrix = ExternalMatrix("sigpy", linop, shape, is_complex, _each, _each_adjoint)
    A = ExternalOperator(matrix, ishape, oshape, lengths, name or linop.repr_str)
    return with_true_adjoint("from_sigpy", A) if check_adjoint else A


def _each(linop: Any, X: NDArray[Any]) -> Any:
    return each_row(linop, X, linop.ishape)


def _each_adjoint(linop: Any, Y: NDArray[Any]) -> Any:
    return _each(linop.H, Y)
