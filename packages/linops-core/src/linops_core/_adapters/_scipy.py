"""To and from ``scipy.sparse.linalg.LinearOperator``, and from sparse matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from nameddim import ELLIPSES, NamedDimension, as_dims

from .._base._linop import NamedLinop
from .._base._sizes import by_dimension
from ._arrays import ArrayFunctions
from ._extras import needed
from ._foreign import Foreign
from ._foreign_linop import ForeignLinop

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse.linalg import LinearOperator


def to_scipy(
    linop: NamedLinop,
    sizes: Mapping[str, int] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> LinearOperator:
    """Return the operator as SciPy's ``LinearOperator``; see ``NamedLinop.to_scipy``."""
    linalg = needed("scipy.sparse.linalg", "to_scipy")
    functions = ArrayFunctions(linop, sizes, dtype, device)
    return linalg.LinearOperator(
        functions.shape,
        matvec=functions.matvec,
        rmatvec=functions.rmatvec,
        matmat=functions.matmat,
        rmatmat=functions.rmatmat,
        dtype=functions.dtype,
    )


def from_scipy(
    operator: Any,
    ishape: Sequence[NamedDimension | str],
    oshape: Sequence[NamedDimension | str],
    sizes: Mapping[str, int] | None = None,
    name: str | None = None,
) -> NamedLinop:
    r"""Return an operator that calls a SciPy ``LinearOperator``, or a matrix, sparse or not.

    It computes on the CPU, in the dtypes that SciPy chooses, and returns the precision of its
    input. Gradients reach the input, to any order: they are the operator and its adjoint. A matrix
    is not copied, not for the adjoint either, and is no tensor: it is not cast or moved with
    the operator.

    Parameters
    ----------
    operator : scipy.sparse.linalg.LinearOperator, sparse array or matrix, or ndarray
        Of shape (product of output sizes, product of input sizes).
    ishape, oshape : sequences of dimensions
        What its columns and its rows stand for, the last dimension fastest. A ``...`` at the
        front of both stands for a batch of vectors.
    sizes : mapping of dimension to int, optional
        Of all dimensions; one on each side may be left out.
    name : str, optional

    Raises
    ------
    ImportError
        If SciPy is not installed (the extra ``scipy``).
    TypeError
        If ``operator`` is none of these.
    ValueError
        If sizes do not make up the shape of the operator.

    Examples
    --------
    >>> import torch
    >>> from scipy.sparse import csr_array
    >>> A = from_scipy(csr_array([[0.0, 2.0], [1.0, 0.0]]), ("N",), ("M",))
    >>> A.H(torch.tensor([1.0, 10.0]))
    tensor([10.,  2.])
    """
    linalg = needed("scipy.sparse.linalg", "from_scipy")
    sparse = needed("scipy.sparse", "from_scipy")
    numpy = needed("numpy", "from_scipy")
    foreign: Foreign
    if sparse.issparse(operator) or isinstance(operator, numpy.ndarray):
        foreign = MatrixProduct(operator)
    elif isinstance(operator, linalg.LinearOperator):
        foreign = OperatorProduct(operator)
    else:
        raise TypeError(
            "from_scipy: the operator must be a LinearOperator, a sparse array or an ndarray, "
            f"got {type(operator)}"
        )
    rows, columns = foreign.shape
    lengths = (lengths_of(ishape, columns, sizes), lengths_of(oshape, rows, sizes))
    return ForeignLinop(foreign, ishape, oshape, lengths, name or type(operator).__name__)


def lengths_of(
    names: Sequence[NamedDimension | str], total: int, sizes: Mapping[str, int] | None
) -> list[int]:
    """Return the size of each dimension but the ``...``, whose product is ``total``.

    Raises
    ------
    ValueError
        If more than one is not given, or the rest does not divide the total.
    """
    given = by_dimension("from_scipy", sizes)
    dims = [dim for dim in as_dims(names) if dim != ELLIPSES]
    unknown = [dim for dim in dims if dim not in given]
    rest = prod(given[dim] for dim in dims if dim in given)
    if len(unknown) > 1 or (unknown and (not rest or total % rest)):
        raise ValueError(
            f"from_scipy: sizes must be given for all but one of ({', '.join(map(str, dims))}) "
            f"and divide the {total} elements, got {given}"
        )
    return [given[dim] if dim in given else total // rest for dim in dims]


class MatrixProduct(Foreign):
    """Products with a matrix, sparse or not."""

    library = "SciPy"

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2 or matrix.dtype.kind not in "fciub":
            raise TypeError(
                "from_scipy: a matrix must have two dimensions and numbers, "
                f"got shape {matrix.shape} and dtype {matrix.dtype}"
            )
        super().__init__(matrix.shape, matrix.dtype.kind == "c")
        self.matrix = matrix

    def forward(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return A x for each row x."""
        product: NDArray[Any] = (self.matrix @ X.T).T
        return product

    def adjoint(self, Y: NDArray[Any]) -> NDArray[Any]:
        """Return A^H y for each row y; conjugating vectors, because A may be large."""
        product: NDArray[Any] = (self.matrix.T @ Y.T.conj()).T.conj()
        return product


class OperatorProduct(Foreign):
    """Products with a LinearOperator, that of SciPy or of PyLops."""

    library = "SciPy"

    def __init__(self, operator: Any) -> None:
        # PyLops keeps the dtype as it was given: it may be a string or a type.
        dtype = needed("numpy", f"from_{self.library.lower()}").dtype(operator.dtype)
        super().__init__(operator.shape, dtype.kind == "c")
        self.operator = operator

    def forward(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return A x for each row x."""
        if len(X) == 1:
            return self.operator.matvec(X[0])[None]  # type: ignore[no-any-return]
        return self.operator.matmat(X.T).T  # type: ignore[no-any-return]

    def adjoint(self, Y: NDArray[Any]) -> NDArray[Any]:
        """Return A^H y for each row y."""
        if len(Y) == 1:
            return self.operator.rmatvec(Y[0])[None]  # type: ignore[no-any-return]
        return self.operator.rmatmat(Y.T).T  # type: ignore[no-any-return]
