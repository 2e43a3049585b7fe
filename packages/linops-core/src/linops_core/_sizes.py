"""Sizes that callers give: by dimension, or one for each axis."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import TypeGuard

from nameddim import ND, NamedDimension


def is_size(value: object) -> TypeGuard[int]:
    """Whether ``value`` is a positive integer."""
    return isinstance(value, Integral) and int(value) > 0


def by_dimension(
    owner: str,
    sizes: Mapping[str, int] | Mapping[NamedDimension, int] | None,
    argument: str = "sizes",
) -> dict[NamedDimension, int]:
    """Return what is given for each dimension; nothing where that is None.

    Parameters
    ----------
    owner, argument : str
        Who takes it and by which name, for messages.

    Raises
    ------
    TypeError
        If it is no mapping.

    Examples
    --------
    >>> by_dimension("Zero", {"N": 2}), by_dimension("Zero", None)
    ({'N': 2}, {})
    """
    if sizes is None:
        return {}
    if not isinstance(sizes, Mapping):
        raise TypeError(
            f"{owner}: {argument} must be a mapping of dimension to size, got {type(sizes)}"
        )
    return {ND.infer(dim): size for dim, size in sizes.items()}
