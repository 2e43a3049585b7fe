"""The Kronecker product of two operators."""

from __future__ import annotations

from nameddim import ELLIPSES, ND, NamedDimension

from ..._base._linop import NamedLinop
from ..._operators._rearrange import Rearrange
from .._chain import Chain
from .._same_space import check_operands


class Kronecker(Chain):
    r"""The Kronecker product :math:`A \otimes B`: A along some dimensions, B along the others.

    Input and output have the dimensions of A and then those of B. The matrix is the Kronecker
    product of the matrices. The operator is a composition: first B, with the dimensions of A as a
    batch, then A, with the dimensions of B as a batch. It can be sliced where A and B can.

    Parameters
    ----------
    A, B : NamedLinop
        Operators with a leading ``...`` in input and output, which is a batch. If an operator has
        none, it is added if the class of the operator allows it. A and B must not have a dimension
        in common.
    name : str, optional

    Raises
    ------
    TypeError
        If one is not an operator.
    ValueError
        If an operator has no leading ``...`` that is a batch and cannot get one, or if both have a
        dimension of the same name.

    References
    ----------
    C. F. Van Loan, "The ubiquitous Kronecker product", Journal of Computational and Applied
    Mathematics 123 (2000), 85-100.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Dense
    >>> A = Dense(torch.tensor([[1.0, 1.0]]), ("P", "Nx"))
    >>> B = Dense(torch.tensor([[1.0, 10.0]]), ("Q", "Ny"))
    >>> K = Kronecker(A, B)
    >>> K.shape
    (..., Nx, Ny) -> (..., P, Q)
    >>> K(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[64.]])
    """

    def __init__(self, A: NamedLinop, B: NamedLinop, name: str | None = None) -> None:
        check_operands("Kronecker", (A, B))
        A, B = _with_batch(A), _with_batch(B)
        for linop in (A, B):
            is_batch = linop.ishape[:1] == linop.oshape[:1] == (ELLIPSES,)
            if not is_batch or (0, 0) not in linop.linked_positions():
                raise ValueError(
                    f"Kronecker: an operand must have a leading '...' that is a batch in input and "
                    f"output, got {linop.signature}; make it with one, as in "
                    'Dense(w, ("M", "N"), ("...", "N"), ("...", "M"))'
                )
        for dim in sorted(A.dims & B.dims, key=str):
            raise ValueError(
                f"Kronecker: the operands must have no dimension in common, got {dim} in "
                f"{A.signature} and in {B.signature}; rename one, as by B.renamed"
            )
        idims, odims = A.ishape[1:], B.oshape[1:]
        run = A.ishape[:1]
        inner = B.resolved(ishape=(*run, *idims, *B.ishape[1:]))
        outer = A.resolved(ishape=(*run, *odims, *idims))
        super().__init__(
            inner, _swapped(idims, odims), outer, _swapped(odims, A.oshape[1:]), name=name
        )


def _with_batch(linop: NamedLinop) -> NamedLinop:
    """Return the operator with a ``...`` in front, or itself if its class does not allow it."""
    if ELLIPSES in linop.ishape:
        return linop
    return linop.fitted_to((ND(ELLIPSES), *linop.ishape)) or linop


def _swapped(first: tuple[NamedDimension, ...], then: tuple[NamedDimension, ...]) -> Rearrange:
    """Return the operator that moves the first dimensions behind the others."""
    axes = [f"axis{number}" for number in range(len(first) + len(then))]
    count = len(first)
    return Rearrange(
        " ".join(["...", *axes]),
        " ".join(["...", *axes[count:], *axes[:count]]),
        (ELLIPSES, *first, *then),
        (ELLIPSES, *then, *first),
    )
