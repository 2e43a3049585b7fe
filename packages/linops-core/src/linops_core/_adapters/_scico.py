"""From linear operators of SCICO."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from .._base._linop import NamedLinop
from .._extras import needed
from ._external_matrix import ExternalMatrix, check_complex_linear, each_row
from ._external_operator import ExternalOperator, Names

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scico.linop import LinearOperator


def from_scico(
    operator: LinearOperator, ishape: Names, oshape: Names, name: str | None = None
) -> NamedLinop:
    """Return an operator that calls a SCICO ``LinearOperator``.

    Like operators of :func:`from_scipy`, it computes on the CPU and has gradients to the input.

    Parameters
    ----------
    operator : scico.linop.LinearOperator
        Between arrays, and not between blocks of arrays. It computes in its own dtype, usually
        single precision, and the result has the precision of the input. A real one is applied to
        real and imaginary parts.
    ishape, oshape : sequences of dimensions
        Names of the dimensions of its ``input_shape`` and ``output_shape``. A ``...`` at the front
        of both is a batch of arrays, to which it is applied one by one.
    name : str, optional

    Raises
    ------
    ImportError
        If SCICO is not installed (the extra ``scico``).
    TypeError
        If ``operator`` is not a SCICO LinearOperator.
    ValueError
        If it has blocks, the names do not fit its shapes, or a complex one is linear over the reals
        only.
    """
    kind = needed("scico.linop", "from_scico").LinearOperator
    if not isinstance(operator, kind):
        raise TypeError(f"from_scico: the operator must be a LinearOperator, got {type(operator)}")
    lengths = operator.input_shape, operator.output_shape
    if any(isinstance(size, tuple) for shape in lengths for size in shape):
        raise ValueError(
            f"from_scico: the operator must have one input and one output array, got {lengths[0]} "
            f"and {lengths[1]}; use its parts one by one"
        )
    needed("numpy", "from_scico")
    dtypes = operator.input_dtype, operator.output_dtype
    is_complex = any(_kind(dtype) == "c" for dtype in dtypes)
    if is_complex:
        advice = "take real parts by linops_core.RealPart"
        check_complex_linear("from_scico", lambda x: _applied(operator, x), lengths[0], advice)
    shape = prod(lengths[1]), prod(lengths[0])
    matrix = ExternalMatrix("SCICO", operator, shape, is_complex, _forward, _adjoint)
    return ExternalOperator(matrix, ishape, oshape, lengths, name or type(operator).__name__)


def _kind(dtype: Any) -> str:
    kind: str = needed("numpy", "from_scico").dtype(dtype).kind
    return kind


def _applied(operator: Any, x: NDArray[Any]) -> NDArray[Any]:
    array: NDArray[Any] = needed("numpy", "from_scico").asarray(
        operator(x.astype(operator.input_dtype))
    )
    return array


def _forward(operator: Any, X: NDArray[Any]) -> Any:
    return each_row(lambda x: _applied(operator, x), X, operator.input_shape)


def _adjoint(operator: Any, Y: NDArray[Any]) -> Any:
    adjoint = operator.H
    return each_row(lambda y: _applied(adjoint, y), Y, operator.output_shape)
