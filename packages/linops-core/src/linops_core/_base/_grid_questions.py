"""Questions about operators on a grid: its centre, and single dimensions of it."""

from __future__ import annotations

from collections.abc import Iterable

from nameddim import NamedDimension

from ._linop import NamedLinop
from ._question import Question


@Question
def without_fftshift(linop: NamedLinop, dims: Iterable[NamedDimension]) -> NamedLinop | None:
    r"""Return the same operator for data whose first element along ``dims`` is the centre.

    It is :math:`R^H A R`, where R moves the first element of each of ``dims`` to index n // 2, as
    ``torch.fft.fftshift``. The normal operator of a centred Fourier transform asks the operator
    between the transforms, and leaves out all shifts if it answers.

    Parameters
    ----------
    linop : NamedLinop
    dims : dimensions
        Some of them may not be dimensions of the operator.

    Returns
    -------
    NamedLinop or None
        None if it is not known, or would have to move data, which is the default. An operator of
        :class:`SliceableLinop` reads its weights shifted.
    """
    return None


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
