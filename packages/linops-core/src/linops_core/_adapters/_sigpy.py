"""To and from ``sigpy.linop.Linop``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from nameddim import NamedDimension

from .._base._linop import NamedLinop
from ._arrays import ArrayFunctions
from ._extras import needed
from ._foreign import Foreign
from ._foreign_linop import ForeignLinop

if TYPE_CHECKING:
    from numpy.typing import NDArray


def to_sigpy(
    linop: NamedLinop,
    sizes: Mapping[str, int] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Any:
    """Return the operator as a sigpy ``Linop`` on NumPy arrays.

    Parameters
    ----------
    sizes, dtype, device : optional
        As for ``A.to_scipy``.

    Returns
    -------
    sigpy.linop.Linop
        Its ``H`` is the adjoint, and its ``N`` the normal operator in closed form if there is one.

    Raises
    ------
    ImportError
        If sigpy is not installed (the extra ``sigpy``).
    TypeError, ValueError
        As for ``A.to_scipy``.
    """
    return _linop_class()(ArrayFunctions(linop, sizes, dtype, device))


@cache
def _linop_class() -> Any:
    base: Any = needed("sigpy.linop", "to_sigpy").Linop

    class TorchLinop(base):  # type: ignore[misc] # sigpy has no types
        """An operator of linops_core."""

        def __init__(self, functions: ArrayFunctions) -> None:
            self.functions = functions
            super().__init__(functions.olengths, functions.ilengths, functions.linop.name)

        def _apply(self, x: NDArray[Any]) -> NDArray[Any]:
            return self.functions.apply(x)

        def _adjoint_linop(self) -> Any:
            return TorchLinop(self.functions.adjoint())

        def _normal_linop(self) -> Any:
            return TorchLinop(self.functions.normal())

        def __reduce__(self) -> Any:
            return (_restored, (self.functions,))

    return TorchLinop


def _restored(functions: ArrayFunctions) -> Any:
    return _linop_class()(functions)


def from_sigpy(
    linop: Any,
    ishape: Sequence[NamedDimension | str],
    oshape: Sequence[NamedDimension | str],
    name: str | None = None,
) -> NamedLinop:
    """Return an operator that calls a sigpy ``Linop``.

    It computes on the CPU, in the dtypes that sigpy chooses, and returns the precision of its
    input. Gradients reach the input, to any order: they are the operator and its adjoint.

    Parameters
    ----------
    linop : sigpy.linop.Linop
        On NumPy arrays. It is applied to zeros once, to see whether it is complex.
    ishape, oshape : sequences of dimensions
        Names of the dimensions of its ``ishape`` and ``oshape``. A ``...`` at the front of both
        stands for a batch of arrays, which are handed over one by one.
    name : str, optional

    Raises
    ------
    ImportError
        If sigpy is not installed (the extra ``sigpy``).
    TypeError
        If ``linop`` is no sigpy Linop.
    ValueError
        If the names do not fit its shapes.
    """
    kind = needed("sigpy.linop", "from_sigpy").Linop
    if not isinstance(linop, kind):
        raise TypeError(f"from_sigpy: the operator must be a sigpy Linop, got {type(linop)}")
    lengths = (tuple(linop.ishape), tuple(linop.oshape))
    return ForeignLinop(SigpyProduct(linop), ishape, oshape, lengths, name or linop.repr_str)


class SigpyProduct(Foreign):
    """Products with a sigpy Linop, one array at a time."""

    library = "sigpy"

    def __init__(self, linop: Any) -> None:
        self.linop = linop
        zeros = torch.zeros(tuple(linop.ishape), dtype=torch.float64).numpy()
        is_complex = linop(zeros).dtype.kind == "c"
        super().__init__((prod(linop.oshape), prod(linop.ishape)), is_complex)

    def forward(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return A x for each row x."""
        return _each(self.linop, X)

    def adjoint(self, Y: NDArray[Any]) -> NDArray[Any]:
        """Return A^H y for each row y."""
        return _each(self.linop.H, Y)


def _each(linop: Any, X: NDArray[Any]) -> NDArray[Any]:
    numpy = needed("numpy", "from_sigpy")
    results = [numpy.ravel(linop(x.reshape(linop.ishape))) for x in X]
    stacked: NDArray[Any] = results[0][None] if len(results) == 1 else numpy.stack(results)
    return stacked
