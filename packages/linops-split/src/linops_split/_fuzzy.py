"""Broadcasting that repeats and truncates, as for a list of devices over a grid of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def fuzzy_broadcast_to(arr: ArrayLike, shape: Sequence[int]) -> NDArray[Any]:
    """Return ``arr`` repeated and truncated to ``shape``.

    Axes are matched from the last one, as in NumPy's broadcasting. Along each axis the values are
    repeated as often as needed, and the last repetition may be cut off.

    Parameters
    ----------
    arr : array_like
        At most as many axes as ``shape``; none of them empty.
    shape : sequence of int

    Returns
    -------
    ndarray
        A new array.

    Raises
    ------
    ValueError
        If ``arr`` has more axes than ``shape``, is empty along an axis, or is ragged.

    Examples
    --------
    >>> fuzzy_broadcast_to(["a", "b"], (5,)).tolist()
    ['a', 'b', 'a', 'b', 'a']
    """
    array = np.array(arr)
    if array.ndim > len(shape):
        raise ValueError(
            f"fuzzy_broadcast_to: an array must have at most {len(shape)} axes to be broadcast to "
            f"{tuple(shape)}, got shape {array.shape}"
        )
    have = (1,) * (len(shape) - array.ndim) + array.shape
    if any(want < 0 or (old == 0 < want) for old, want in zip(have, shape, strict=True)):
        raise ValueError(
            f"fuzzy_broadcast_to: each size of {tuple(shape)} must be at least 0, and must be 0 "
            f"where the array has size 0, got an array of shape {array.shape}"
        )
    indices = [np.arange(want) % max(old, 1) for old, want in zip(have, shape, strict=True)]
    return array.reshape(have)[np.ix_(*indices)] if indices else array
