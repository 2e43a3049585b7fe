"""Operators for data whose first element is the centre of its grid."""

from __future__ import annotations

from collections.abc import Iterable

from nameddim import NamedDimension

from ._linop import NamedLinop
from ._question import Question


@Question
def without_fftshift(linop: NamedLinop, dims: Iterable[NamedDimension]) -> NamedLinop | None:
    r"""Return the same operator for data whose first element along ``dims`` is the centre.

    It is :math:`R^H A R`, where R moves the first element of each of ``dims`` to index n // 2. None
    if A would have to move data. A centred Fourier transform asks it to omit its shifts.
    """
    return None
