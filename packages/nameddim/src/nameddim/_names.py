"""The usual names of grids, and helpers for tuples of dimensions."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from nameddim._dimension import NamedDimension
from nameddim._errors import written
from nameddim._parse import Dims, as_dims

Element = TypeVar("Element")

_AXES = "xyz"


def get_nd_shape(ndim: int, kspace: bool = False) -> Dims:
    """Return the usual names of a grid of `ndim` dimensions, of an image or of k-space.

    Raises
    ------
    ValueError
        If `ndim` is not 1, 2 or 3.

    Examples
    --------
    >>> get_nd_shape(2), get_nd_shape(3, kspace=True)
    (('Nx', 'Ny'), ('Kx', 'Ky', 'Kz'))
    """
    if ndim not in range(1, len(_AXES) + 1):
        raise ValueError(f"get_nd_shape: ndim must be 1, 2 or 3, got {ndim!r}")
    if kspace not in (True, False):
        raise TypeError(f"get_nd_shape: kspace must be True or False, got {kspace!r}")
    return tuple(NamedDimension(("K" if kspace else "N") + axis) for axis in _AXES[: int(ndim)])


def N2K(shape: Iterable[str]) -> Dims:
    """Return `shape` with the names of image dimensions changed to those of k-space.

    A leading ``N`` becomes ``K``. The rest of each name stays, including the index.

    Raises
    ------
    TypeError, ValueError
        As :func:`as_dims`. Also if two different dimensions would get the same name.

    Examples
    --------
    >>> N2K(("C", "Nx", "Ny1"))
    ('C', 'Kx', 'Ky1')
    """
    return _with_initial("N2K", shape, "N", "K")


def K2N(shape: Iterable[str]) -> Dims:
    """Return `shape` with a leading ``K`` changed to ``N``; the inverse of :func:`N2K`.

    Examples
    --------
    >>> K2N(("C", "Kx", "Ky1"))
    ('C', 'Nx', 'Ny1')
    """
    return _with_initial("K2N", shape, "K", "N")


def partition(
    seq: Sequence[Element], val: object
) -> tuple[tuple[Element, ...], tuple[Element, ...], tuple[Element, ...]]:
    """Cut `seq` at the first `val`, as :meth:`str.partition` does.

    The three parts together are `seq`. The second part has one element. If `val` does not occur,
    the second and third part are empty.

    Examples
    --------
    >>> partition(("C", "...", "Nx", "Ny"), "...")
    (('C',), ('...',), ('Nx', 'Ny'))
    """
    elements = tuple(seq)
    at = elements.index(val) if val in elements else len(elements)
    return elements[:at], elements[at : at + 1], elements[at + 1 :]


def _with_initial(function: str, shape: Iterable[str], old: str, new: str) -> Dims:
    dims = as_dims(shape)
    renamed = tuple(NamedDimension(new + d[1:]) if d.startswith(old) else d for d in dims)
    if len(set(renamed)) < len(set(dims)):
        raise ValueError(
            f"{function}: different dimensions must get different names, "
            f"got {written(renamed)} for {written(dims)}"
        )
    return renamed
