"""Operators for data whose first element is the centre of its grid."""

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
