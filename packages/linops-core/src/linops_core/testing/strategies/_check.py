"""The laws that hold between an operator and its matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from nameddim import NamedDimension

from .._tiles import LawError as LawError
from .._tiles import check_cuts, check_matrix
from ._known import Known


def check(known: Known, rtol: float = 1e-9) -> None:
    """Check an operator, its adjoint and both normal operators, whole and cut in every way.

    Along each dimension tiles of every length are put together by hand, by the role of the
    dimension. One that is opaque must be known to be. Nothing is read or written outside of the
    support of the operator or of a tile.

    Parameters
    ----------
    known : Known
    rtol : float
        Largest error, relative to the largest entry of the matrix.

    Raises
    ------
    LawError
        If a matrix is another, or a dimension is opaque without a known reason.

    Examples
    --------
    >>> from linops_core import Scalar
    >>> from linops_core.testing.strategies import Spaces
    >>> two = 2 * torch.eye(3, dtype=torch.complex128)
    >>> check(Known(Scalar(2.0, ("N",)), two, Spaces(("N",), ("N",), {"N": 3})))
    """

    def close(found: Tensor, matrix: Tensor) -> bool:
        bound = rtol * max([1.0, *matrix.abs().flatten().tolist()])
        return bool(((found - matrix).abs() <= bound).all())

    def accepts(dim: NamedDimension, reason: str) -> bool:
        # The normal of a normal has no memory of the names that the first one made.
        made_twice = dim.i > 0 and "separate dimensions of one name" in reason
        return bool(reason) and (made_twice or dim.name in known.opaque | known.side_by_side)

    A, M = known.linop, known.matrix
    with torch.no_grad():
        for linop, matrix in ((A, M), (A.H, M.mH), (A.N, M.mH @ M), (A.H.N, M @ M.mH)):
            sizes = known.sizes_of(linop)
            whole = linop.to_dense(sizes, torch.complex128)
            check_matrix(whole, matrix, close, f"{linop!r}\nwhole")
            check_cuts(linop, matrix, sizes, close, accepts)
