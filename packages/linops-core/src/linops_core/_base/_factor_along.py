"""Operators that act along each dimension of a grid separately."""

from __future__ import annotations

from collections.abc import Iterable

from nameddim import NamedDimension

from ._linop import NamedLinop
from ._question import Question


@Question
def factor_along(
    linop: NamedLinop, dims: Iterable[NamedDimension], ishape: tuple[NamedDimension, ...]
) -> NamedLinop | None:
    """Return the factor of the operator that acts along some dimensions of its grid.

    For operators that act along each dimension of a grid separately, in any order, such as a
    Fourier transform. If ranks have shares of the grid, they apply the dimensions one by one.

    Parameters
    ----------
    linop : NamedLinop
    dims : dimensions
        Dimensions of the grid, by their names in the input.
    ishape : tuple of dimensions
        All dimensions of the input of the factor. Other dimensions of the grid stay as they are.

    Returns
    -------
    NamedLinop or None
        None if the operator does not act separately along dimensions, which is the default.
    """
    return None
