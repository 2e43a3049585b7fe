"""To and from linear operators of ODL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .._base._conversions import check_has_matrix
from .._base._linop import NamedLinop
from .._extras import optional_module
from ._arrays import ArrayFunctions
from ._external_matrix import ExternalMatrix, each_row
from ._external_operator import ExternalOperator, Names

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from odl import Operator


def to_odl(
    linop: NamedLinop,
    sizes: Mapping[str, int] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Operator:
    """Return the operator as a linear operator of ODL, between spaces without weights.

    Parameters and errors are those of :meth:`NamedLinop.to_scipy`: an operator that is linear over
    the reals only is refused. It needs the extra ``odl``.

    Returns
    -------
    odl.Operator
        From ``odl.rn`` or ``odl.cn`` of its sizes to another. Its ``adjoint`` is ``linop.H``.
    """
    check_has_matrix(linop, "to_odl")
    library = optional_module("odl", "to_odl")
    return _operator_class(library.Operator)(ArrayFunctions(linop, sizes, dtype, device), library)


@cache
def _operator_class(base: Any) -> Any:
    """Return the class of ODL's operators that hold functions of arrays."""

    class LinopOperator(base):  # type: ignore[misc]  # which is known once ODL is imported
        def __init__(self, functions: ArrayFunctions, library: Any) -> None:
            make = library.cn if functions.dtype.kind == "c" else library.rn
            spaces = [
                make(lengths or (1,), functions.dtype)
                for lengths in (functions.ilengths, functions.olengths)
            ]
            super().__init__(*spaces, linear=True)
            self.functions, self.library = functions, library

        def _call(self, x: Any) -> Any:
            y = self.functions.apply(x.asarray())
            return self.range.element(y.astype(self.functions.dtype).reshape(self.range.shape))

        @property
        def adjoint(self) -> Any:
            return type(self)(self.functions.adjoint(), self.library)

    return LinopOperator


class _Weighted(NamedTuple):
    operator: Any
    factor: complex
    """The adjoint for sums without weights, divided by ODL's adjoint."""


def from_odl(
    operator: Operator, ishape: Names, oshape: Names, name: str | None = None
) -> NamedLinop:
    r"""Return an operator that calls a linear operator of ODL on arrays.

    Like operators of :func:`from_scipy`, it computes on the CPU and has gradients to the input.

    Parameters
    ----------
    operator : odl.Operator
        Linear, between spaces of arrays or powers of them. It is applied to two random pairs once,
        with its adjoint.
    ishape, oshape : sequences of dimensions
        Names of the dimensions of the shapes of its domain and range. A ``...`` at the front of
        both is a batch of arrays, to which it is applied one by one.
    name : str, optional

    Returns
    -------
    NamedLinop
        Its ``H`` is the adjoint for sums over the entries. ODL's ``adjoint`` is that of spaces with
        weights, the volumes of their cells. Here it is divided by the factor that is measured.

    Raises
    ------
    ImportError
        If ODL is not installed (the extra ``odl``).
    TypeError
        If ``operator`` is not an ODL operator.
    ValueError
        If it is not linear, the names do not fit, or its ``adjoint`` is no multiple of the adjoint.
        That of a FourierTransform is its inverse, and the transform is a DFT times a sinc: use
        :class:`FFT`.
    """
    kind = optional_module("odl", "from_odl").Operator
    if not isinstance(operator, kind):
        raise TypeError(f"from_odl: the operator must be an odl.Operator, got {type(operator)}")
    if not operator.is_linear:
        raise ValueError(f"from_odl: the operator must be linear, got {operator!r:.200}")
    lengths = tuple(operator.domain.shape), tuple(operator.range.shape)
    factors = [_measured(operator, lengths, seed) for seed in (0, 1)]
    if not abs(factors[1] - factors[0]) <= 1e-3 * abs(factors[0]):  # also for NaN
        raise ValueError(
            "from_odl: the adjoint of the operator must be a multiple of the adjoint, got "
            f"<A x, y> / <x, A* y> of {factors[0]:.4g} and {factors[1]:.4g}; use an operator of "
            "your own for it"
        )
    is_complex = {"c"} == {_kind(space) for space in (operator.domain, operator.range)}
    factor = factors[0] if is_complex else factors[0].real
    matrix = ExternalMatrix(
        "ODL",
        _Weighted(operator, factor),
        (prod(lengths[1]), prod(lengths[0])),
        is_complex,
        _forward,
        _adjoint,
    )
    return ExternalOperator(matrix, ishape, oshape, lengths, name or type(operator).__name__)


def _kind(space: Any) -> str:
    dtype = space.dtype
    kind: str = (dtype[0] if isinstance(dtype, tuple) else dtype).kind
    return kind


def _applied(function: Any, x: NDArray[Any]) -> NDArray[Any]:
    """Return what an operator of ODL returns for an array, in the dtype of its domain."""
    dtype = function.domain.dtype
    result = function(function.domain.element(x.astype(dtype)))
    array: NDArray[Any] = optional_module("numpy", "from_odl").asarray(result.asarray())
    return array


def _measured(operator: Any, lengths: Sequence[Sequence[int]], seed: int) -> complex:
    """Return <A x, y> / <x, A* y> for random arrays, 1 if both are zero."""
    numpy = optional_module("numpy", "from_odl")
    generator = torch.Generator().manual_seed(seed)
    spaces = operator.domain, operator.range
    x, y = (
        torch.randn(
            tuple(shape),
            dtype=torch.complex128 if _kind(space) == "c" else torch.float64,
            generator=generator,
        ).numpy()
        for shape, space in zip(lengths, spaces, strict=True)
    )
    forward = numpy.vdot(_applied(operator, x), y)
    back = numpy.vdot(x, _applied(operator.adjoint, y))
    return 1.0 if forward == back else complex(forward / back)


def _forward(source: _Weighted, X: NDArray[Any]) -> Any:
    operator = source.operator
    return each_row(lambda x: _applied(operator, x), X, operator.domain.shape)


def _adjoint(source: _Weighted, Y: NDArray[Any]) -> Any:
    adjoint = source.operator.adjoint
    return each_row(lambda y: source.factor * _applied(adjoint, y), Y, adjoint.domain.shape)
