"""To and from ``scipy.sparse.linalg.LinearOperator``, and from sparse matrices."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from torch import Tensor

from memmap.siblings import check_flags
from nameddim import ELLIPSES, as_dims

from .._base._linop import NamedLinop
from .._base._sizes import by_dimension
from .._extras import optional_module
from ._arrays import ArrayFunctions
from ._external_matrix import ExternalMatrix, check_complex_linear
from ._external_operator import ExternalOperator, Names, with_true_adjoint

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import sparray, spmatrix
    from scipy.sparse.linalg import LinearOperator


def as_linear_operator(functions: ArrayFunctions) -> LinearOperator:
    """Return the functions as SciPy's ``LinearOperator``."""
    return optional_module("scipy.sparse.linalg", "to_scipy").LinearOperator(
        functions.shape,
        matvec=functions.matvec,
        rmatvec=functions.rmatvec,
        matmat=functions.matmat,
        rmatmat=functions.rmatmat,
        dtype=functions.dtype,
    )


def from_scipy(
    operator: LinearOperator | sparray | spmatrix | NDArray[Any],
    ishape: Names,
    oshape: Names,
    sizes: Mapping[str, int] | None = None,
    name: str | None = None,
    *,
    like: Tensor | None = None,
    check_adjoint: bool = True,
) -> NamedLinop:
    r"""Return an operator that calls a SciPy ``LinearOperator``, or a matrix, sparse or not.

    It computes on the CPU in the dtypes that SciPy chooses, and returns the precision of its input.
    Gradients reach the input, to any order. A matrix is not copied, also not for the adjoint. It is
    not a tensor, so it is not cast or moved with the operator.

    Parameters
    ----------
    operator : scipy.sparse.linalg.LinearOperator, sparse array or matrix, or ndarray
        Of shape (product of output sizes, product of input sizes).
    ishape, oshape : sequences of dimensions
        Dimensions of its columns and of its rows, the last dimension fastest. A ``...`` at the
        front of both is a batch of vectors.
    sizes : mapping of dimension to int, optional
        Sizes of all dimensions; one on each side may be left out.
    name : str, optional
    like : Tensor, optional
        A tensor of the shape of the input, instead of sizes. If one dimension is only in the
        output, its size is computed.
    check_adjoint : bool
        Whether to apply the operator and its adjoint to one random vector, and refuse an adjoint
        that is that of another operator. By default this is done. A matrix needs no check.

    Notes
    -----
    A LinearOperator of a real dtype is a real matrix and is applied to real and imaginary parts. A
    complex one is applied to two random vectors once, to check that it is linear over the complex
    numbers. If it has an attribute ``clinear``, as operators of PyLops do, that is used instead.
    Its ``matvec`` is called with each vector of a batch, of shape (N,), unless it was made with a
    ``matmat`` (and ``rmatmat``) of its own.

    Raises
    ------
    ImportError
        If SciPy is not installed (the extra ``scipy``).
    TypeError
        If ``operator`` is none of these, or ``like`` is not a tensor.
    ValueError
        If the operator does not have two dimensions, the sizes do not fit its shape, both sizes and
        like are given, a complex operator is linear over the reals only and has no attribute
        ``clinear``, or its ``rmatvec`` is that of another operator.

    Examples
    --------
    >>> import torch
    >>> from scipy.sparse import csr_array
    >>> A = from_scipy(csr_array([[0.0, 2.0], [1.0, 0.0]]), ("N",), ("M",))
    >>> A.H(torch.tensor([1.0, 10.0]))
    tensor([10.,  2.])
    """
    check_flags("from_scipy", check_adjoint=check_adjoint)
    linalg = optional_module("scipy.sparse.linalg", "from_scipy")
    sparse = optional_module("scipy.sparse", "from_scipy")
    numpy = optional_module("numpy", "from_scipy")
    if like is not None:
        sizes = _sizes_like(like, ishape, sizes)
    if sparse.issparse(operator) or isinstance(operator, numpy.ndarray):
        matrix = stored_matrix(operator)
    elif isinstance(operator, linalg.LinearOperator):
        if len(operator.shape) != 2:
            raise ValueError(
                f"from_scipy: the operator must have two dimensions, got shape {operator.shape}"
            )
        matrix = matrix_free(operator, "SciPy")
        if matrix.is_complex and not hasattr(operator, "clinear"):
            advice = "set its attribute clinear to False if that is meant"
            check_complex_linear("from_scipy", operator.matvec, operator.shape[1:], advice)
    else:
        raise TypeError(
            "from_scipy: the operator must be a LinearOperator, a sparse array or an ndarray, "
            f"got {type(operator)}"
        )
    rows, columns = matrix.shape
    lengths = (_lengths_of(ishape, columns, sizes), _lengths_of(oshape, rows, sizes))
    A = ExternalOperator(matrix, ishape, oshape, lengths, name or type(operator).__name__)
    is_matrix_free = isinstance(operator, linalg.LinearOperator)
    return with_true_adjoint("from_scipy", A) if is_matrix_free and check_adjoint else A


def _sizes_like(like: Tensor, ishape: Names, sizes: Mapping[str, int] | None) -> dict[str, int]:
    """Return the sizes of the input dimensions, from a tensor."""
    if sizes is not None:
        raise ValueError(
            f"from_scipy: sizes and like must not be given together, got sizes {sizes}"
        )
    if not isinstance(like, Tensor):
        raise TypeError(f"from_scipy: like must be a torch.Tensor, got {type(like)}")
    inputs = as_dims(ishape)
    dims = [dim for dim in inputs if dim != ELLIPSES]
    n_batch = like.ndim - len(dims)
    if n_batch < 0 or (n_batch and len(dims) == len(inputs)):
        raise ValueError(
            f"from_scipy: like must have the dimensions ({', '.join(map(str, inputs))}), got shape "
            f"{tuple(like.shape)}"
        )
    return dict(zip(map(str, dims), like.shape[n_batch:], strict=True))


def _lengths_of(names: Names, total: int, sizes: Mapping[str, int] | None) -> list[int]:
    """Return the size of each dimension without the ``...``; their product is ``total``."""
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


def stored_matrix(matrix: Any) -> ExternalMatrix:
    """Return a matrix of NumPy or SciPy as an external matrix."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "fciub":
        raise TypeError(
            "from_scipy: a matrix must have two dimensions and numbers, "
            f"got shape {matrix.shape} and dtype {matrix.dtype}"
        )
    is_complex = matrix.dtype.kind == "c"
    return ExternalMatrix("SciPy", matrix, matrix.shape, is_complex, _stored, _stored_adjoint)


def _stored(matrix: Any, X: NDArray[Any]) -> Any:
    return (matrix @ X.T).T


def _stored_adjoint(matrix: Any, Y: NDArray[Any]) -> Any:
    return (matrix.T @ Y.T.conj()).T.conj()  # without a copy of the matrix


def matrix_free(operator: Any, library: str) -> ExternalMatrix:
    """Return a LinearOperator of SciPy or PyLops as an external matrix."""
    # PyLops keeps the dtype as given: a string or a type.
    is_complex = (
        optional_module("numpy", f"from_{library.lower()}").dtype(operator.dtype).kind == "c"
    )
    is_linear = getattr(operator, "clinear", True)  # an attribute of PyLops operators
    return ExternalMatrix(
        library, operator, operator.shape, is_complex, _applied, _applied_adjoint, is_linear
    )


def _applied(A: Any, X: NDArray[Any]) -> Any:
    # Copies, because the functions may write into their arguments.
    if len(X) > 1 and _has_own(A, "_matmat"):
        return A.matmat(X.T.copy()).T
    return optional_module("numpy", "from_scipy").stack([A.matvec(x.copy()).copy() for x in X])


def _applied_adjoint(A: Any, Y: NDArray[Any]) -> Any:
    try:
        if len(Y) > 1 and _has_own(A, "_rmatmat"):
            return A.rmatmat(Y.T.copy()).T
        return optional_module("numpy", "from_scipy").stack([A.rmatvec(y.copy()).copy() for y in Y])
    except NotImplementedError as error:
        raise NotImplementedError(
            f"from_scipy: the operator must have rmatvec for the adjoint, got {A!r} without one; "
            "make it as LinearOperator(shape, matvec=..., rmatvec=...)"
        ) from error


def _has_own(A: Any, product: str) -> bool:
    """Whether A was made with a product with matrices.

    The one of SciPy 1.17 calls matvec with columns (N, 1), which only functions like
    ``lambda x: M @ x`` take. A sum, product or adjoint of operators asks its operands.
    """
    kind, base = type(A), optional_module("scipy.sparse.linalg", "from_scipy").LinearOperator
    if kind.__module__.startswith("scipy."):
        return getattr(A, f"_CustomLinearOperator_{product}_impl", None) is not None
    return getattr(kind, product) is not getattr(base, product)


def to_scipy(linop: NamedLinop, *given: Any) -> LinearOperator:
    """Return the operator for :meth:`NamedLinop.to_scipy`, with its arguments."""
    return as_linear_operator(ArrayFunctions(linop, *given))
