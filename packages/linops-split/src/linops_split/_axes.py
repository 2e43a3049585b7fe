"""Where a named dimension is in a tensor."""

from __future__ import annotations

from nameddim import ELLIPSES, NamedDimension


def axis_of(dim: NamedDimension, names: tuple[NamedDimension, ...]) -> int:
    """Return the axis of ``dim`` in a tensor of shape ``names``; behind a ``...`` from the end.

    Examples
    --------
    >>> from nameddim import Dim
    >>> axis_of("Nx", Dim("C...NxNy"))
    -2
    """
    position = names.index(dim)
    return position - len(names) if ELLIPSES in names[:position] else position
