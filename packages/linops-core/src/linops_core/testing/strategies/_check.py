"""The laws that hold between an operator and its matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from ..._base._linop import NamedLinop
from ..._base._roles import Role
from .._tiles import supports_of, tiles_of, whole_of, within_supports
from ._known import Known


class LawError(ValueError):
    """An operator is not its matrix, or cannot be sliced for no known reason."""


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
    A, M = known.linop, known.matrix
    with torch.no_grad():
        for linop, matrix in ((A, M), (A.H, M.mH), (A.N, M.mH @ M), (A.H.N, M @ M.mH)):
            sizes = sizes_of(linop, known)
            _check_supports(linop, sizes, rtol)
            _check_matrix(
                linop.to_dense(sizes, torch.complex128), matrix, rtol, f"{linop!r}\nwhole"
            )
            for dim in sorted(linop.dims):
                if linop.role(dim) is Role.OPAQUE:
                    _check_reason(linop, dim.name, dim.i, known)
                    continue
                for length in range(1, sizes[dim] + 1):
                    tiles = tiles_of(linop, dim, length, sizes)
                    for piece, tile in tiles:
                        _check_supports(tile, {**sizes, dim: piece.stop - piece.start}, rtol)
                    whole = whole_of(tiles, linop, dim, sizes)
                    _check_matrix(whole, matrix, rtol, f"{linop!r}\n{dim} in tiles of {length}")


def sizes_of(linop: NamedLinop, known: Known) -> dict[str, int]:
    """Return the size of each dimension of ``linop``, which is derived from a known operator."""
    given = {**known.spaces.sizes, **known.inner}
    sizes = {}
    for dim in linop.dims:
        own = linop.size(dim)
        sizes[str(dim)] = given[dim.name] if own is None else own
    return sizes


def _check_matrix(found: Tensor, matrix: Tensor, rtol: float, what: str) -> None:
    if found.shape == matrix.shape:
        if not matrix.numel():
            return
        error = (found.to(matrix.dtype) - matrix).abs().max()
        if error <= rtol * max(1.0, float(matrix.abs().max())):
            return
    raise LawError(f"{what}: the matrix must be\n{matrix}, got\n{found}")


def _check_supports(linop: NamedLinop, sizes: dict[str, int], rtol: float) -> None:
    if window := supports_of(linop):
        matrix = linop.to_dense(sizes, torch.complex128)
        narrow = within_supports(linop, window, sizes)
        _check_matrix(narrow, matrix, rtol, f"{linop!r}\nthe part within {dict(window)}")


def _check_reason(linop: NamedLinop, name: str, index: int, known: Known) -> None:
    reason = linop.why_opaque(name if index == 0 else f"{name}{index}") or ""
    # The normal of a normal has no memory of the names that the first one made.
    made_twice = index > 0 and "separate dimensions of one name" in reason
    if not reason or not (made_twice or name in known.opaque | known.side_by_side):
        raise LawError(f"{linop!r}\n{name}: an opaque dimension must have a reason, got {reason!r}")
