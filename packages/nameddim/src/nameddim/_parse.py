"""Parsing tuples of dimensions from text, and checking them."""

import re
from collections.abc import Iterable

from nameddim._dimension import ANY, ELLIPSES, NamedDimension
from nameddim._errors import pointing_at, written

Dims = tuple[NamedDimension, ...]

_DIMENSION = re.compile(r"[A-Z][a-z0-9_]*|\.\.\.|\((?:[1-9][0-9]*)?\)")


def Dim(text: str | None = None) -> Dims:
    """Return the dimensions in `text`, or an empty tuple if there is no text.

    Parameters
    ----------
    text : str, optional
        Dimensions with nothing between them. Each is a wildcard (``"..."``, ``"()"``, ``"(1)"``,
        ``"(2)"``, ...) or an upper-case letter followed by lower-case letters, digits and
        underscores, all ASCII.

    Raises
    ------
    TypeError
        If `text` is not a string.
    ValueError
        If `text` cannot be split into dimensions, or has two ellipses side by side. The message
        points at the place.

    Examples
    --------
    >>> Dim("NxNyA1()...")
    ('Nx', 'Ny', 'A1', '()', '...')
    """
    if text is None:
        return ()
    if not isinstance(text, str):
        raise TypeError(
            f"Dim: the dimensions must be a string, got {text!r} ({type(text).__name__})"
        )
    dims: list[NamedDimension] = []
    position = 0
    while position < len(text):
        match = _DIMENSION.match(text, position)
        if not match:
            raise ValueError(
                'Dim: a dimension must begin with an upper-case letter A to Z or be "...", "()" or '
                '"()" around a number without a leading zero, '
                f"got {text[position]!r} at position {position} of {text!r}"
                + pointing_at(text, position)
            )
        if match[0] == ELLIPSES and dims[-1:] == [ELLIPSES]:
            raise ValueError(
                "Dim: two ellipses must not stand side by side, "
                f"got the second at position {position} of {text!r}" + pointing_at(text, position)
            )
        dims.append(NamedDimension(match[0]))
        position = match.end()
    return tuple(dims)


def as_dims(shape: Iterable[str]) -> Dims:
    """Return the dimensions of a shape, given as a string or as an iterable.

    :func:`Dim` parses a string. A :class:`NamedDimension` is one dimension.

    Raises
    ------
    TypeError, ValueError
        As :func:`Dim` and :meth:`NamedDimension.infer`; also for a set, because it has no order.

    Examples
    --------
    >>> as_dims("CNx"), as_dims(["C", "Nx"])
    (('C', 'Nx'), ('C', 'Nx'))
    """
    if isinstance(shape, NamedDimension):
        return (shape,)
    if isinstance(shape, str):
        return Dim(shape)
    return NamedDimension.infer(shape)


def check_distinct(key: str, dims: Dims) -> None:
    """Raise an error if `dims`, named `key`, has a name twice or a second ellipsis."""
    if len(set(dims)) == len(dims):
        return
    for position, dim in enumerate(dims):
        if dim != ANY and dim in dims[:position]:
            what = "at most one ellipsis" if dim == ELLIPSES else "different dimensions"
            before = written(dims[:position])
            raise ValueError(
                f"NamedShape: {key} must have {what}, got a second {dim!r} "
                f"at position {position} of {written(dims)}"
                + pointing_at(written(dims), len(before) + len(", ") - len(")"))
            )
