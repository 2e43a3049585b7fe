"""NamedDimension: one dimension with a name and an index, or a wildcard."""

import operator
import re
from bisect import bisect_left
from collections.abc import Iterable, Set
from typing import Final, Self, SupportsIndex, overload

from nameddim._errors import pointing_at

ANY: Final = "()"
"""The wildcard for exactly one dimension."""

ELLIPSES: Final = "..."
"""The wildcard for any number of consecutive dimensions, also none."""

_NUMBERED_ANY = re.compile(r"\([1-9][0-9]*\)")
# Python always converts up to 640 digits between text and integer; more may be forbidden.
_MAX_DIGITS = 600
_PAST_LARGEST = 10**_MAX_DIGITS


class NamedDimension(str):
    """The name of a dimension: a base name and an index.

    It is a string: it compares, hashes, sorts and prints like its text. It adds a `name` and an
    index `i`, which is the longest trailing number without a leading zero.

    Two texts are wildcards: ``"..."`` stands for any number of dimensions, ``"()"`` for exactly
    one. ``"(1)"``, ``"(2)"``, ... are ``"()"`` with an index. Every other text must be an
    identifier (letters, digits and underscores; the first is not a digit).

    Parameters
    ----------
    name : str
        The name. It may already contain the index, as in ``"Nx1"``.
    i : int
        The index, 0 or more. 0 means no index and is not written.

    Raises
    ------
    TypeError
        If `name` is not a string, or `i` is not an integer.
    ValueError
        If `name` is not a valid name; or if the index is negative, has more than 600 digits, or is
        given for a name that cannot have one (``"..."``) or already has one.

    Examples
    --------
    >>> d = NamedDimension("Nx12")
    >>> d, d.name, d.i
    ('Nx12', 'Nx', 12)
    >>> d == NamedDimension("Nx", 12), d + 1, {"Nx12": "found"}[d]
    (True, 'Nx13', 'found')
    """

    __slots__ = ()

    def __new__(cls, name: str, i: SupportsIndex = 0) -> Self:
        if not isinstance(name, str):
            raise TypeError(
                f"NamedDimension: a name must be a string, got {name!r} ({type(name).__name__})"
            )
        if type(name) is not cls:
            name = str.__str__(name)  # an enumeration of strings would print its member's name
            _check_name(name)
        self = super().__new__(cls, name)
        index = _integer(i, name)
        if index == 0:
            return self
        if self.i:
            raise ValueError(
                f"NamedDimension: an index must be given once, got a second one for {name!r}, "
                f"which already has {self.i}"
            )
        return super().__new__(cls, self + index)

    @property
    def name(self) -> str:
        """The text without the index; ``"()"`` for ``"(1)"``."""
        if self.startswith("("):
            return ANY
        return self[: len(self) - len(_digits_of(self))]

    @property
    def i(self) -> int:
        """The index, 0 if there is none."""
        return int(_digits_of(self) or 0)

    # A string is an iterable of strings too, but one string is always one dimension.
    @overload
    @staticmethod
    def infer(x: str) -> "NamedDimension": ...  # type: ignore[overload-overlap]
    @overload
    @staticmethod
    def infer(x: Iterable[str]) -> "tuple[NamedDimension, ...]": ...
    @staticmethod
    def infer(x: str | Iterable[str]) -> "NamedDimension | tuple[NamedDimension, ...]":
        """Return a string as a dimension, or an iterable of strings as a tuple of dimensions.

        A string is always one dimension, even if :func:`Dim` would parse several from it.

        Raises
        ------
        TypeError, ValueError
            As :class:`NamedDimension`. Also if `x` is a set, because it has no order.

        Examples
        --------
        >>> NamedDimension.infer(("Nx", "C1"))
        ('Nx', 'C1')
        """
        if isinstance(x, str):
            return x if isinstance(x, NamedDimension) else NamedDimension(x)
        if isinstance(x, (set, frozenset)):
            raise TypeError(
                f"NamedDimension: dimensions must have an order, as in a tuple, got the set {x!r}"
            )
        if not isinstance(x, Iterable):
            raise TypeError(
                "NamedDimension: a dimension must be a string, or an iterable of strings, got "
                f"{x!r} ({type(x).__name__})"
            )
        return tuple(d if isinstance(d, NamedDimension) else NamedDimension(d) for d in x)

    def __add__(self, k: SupportsIndex) -> "NamedDimension":  # type: ignore[override]
        """Return the dimension of the same name with its index increased by `k` (of any sign).

        Raises
        ------
        TypeError
            If `k` is not an integer. (To append a string, use an f-string.)
        ValueError
            If the new index is invalid, as for :class:`NamedDimension`, or this is the ellipsis.
        """
        i = self.i + _integer(k, self)
        if self == ELLIPSES:
            raise ValueError('NamedDimension: "..." must have no index, got an index to add')
        if abs(i) >= _PAST_LARGEST:
            raise ValueError(_too_long(self))
        if i < 0:
            raise ValueError(f"NamedDimension: an index must be 0 or more, got {i} for {self!r}")
        index = str(i) if i else ""
        text = f"({index})" if self.name == ANY else self.name + index
        return str.__new__(NamedDimension, text)

    def next_unused(self, avoid: Iterable[str]) -> "NamedDimension":
        """Return the first of this dimension, this + 1, this + 2, ... that is not in `avoid`.

        Raises
        ------
        TypeError, ValueError
            If `avoid` is not a collection, or is a string; if this dimension is the ellipsis and
            `avoid` contains it.

        Examples
        --------
        >>> NamedDimension("N").next_unused({"N", "N1", "N3"})
        'N2'
        """
        if isinstance(avoid, str) or not isinstance(avoid, Iterable):
            raise TypeError(
                f"NamedDimension: avoid must be a collection of dimensions, got {avoid!r}"
            )
        taken = avoid if isinstance(avoid, Set) else set(avoid)
        if self not in taken:
            return self
        i, k = self.i, 1
        before, after = ("(", ")") if self.name == ANY else (self.name, "")
        while f"{before}{i + k}{after}" in taken:
            k += 1
        return self + k


def AnyDim(i: SupportsIndex | None = None) -> NamedDimension:
    """Return the wildcard for exactly one dimension: ``"()"``, or ``"(i)"`` with an index.

    Raises the errors of :class:`NamedDimension`.

    Examples
    --------
    >>> AnyDim(), AnyDim(2)
    ('()', '(2)')
    """
    return NamedDimension(ANY, 0 if i is None else i)


def is_any(d: str) -> bool:
    """Whether `d` is a wildcard for exactly one dimension, with or without an index.

    Examples
    --------
    >>> is_any("()"), is_any("(1)"), is_any("..."), is_any("Nx")
    (True, True, False, False)
    """
    return d == ANY or (d[:1] == "(" and _NUMBERED_ANY.fullmatch(d) is not None)


def is_wildcard(d: str) -> bool:
    """Whether `d` is a wildcard: the ellipsis, or one for exactly one dimension.

    Examples
    --------
    >>> is_wildcard("..."), is_wildcard("(1)"), is_wildcard("Nx")
    (True, True, False)
    """
    return d == ELLIPSES or is_any(d)


def _integer(i: SupportsIndex, text: str) -> int:
    try:
        return operator.index(i)
    except TypeError:
        raise TypeError(
            f"NamedDimension: an index must be an integer, got {i!r} ({type(i).__name__}) "
            f"for {text!r}"
        ) from None


def _digits_of(dim: str) -> str:
    """Return the index of `dim` as text; empty for 0."""
    text = dim[1:-1] if dim.startswith("(") else dim
    stem = text.rstrip("0123456789")
    return text[len(stem) :].lstrip("0")


def _check_name(text: str) -> None:
    """Raise an error unless `text` is a dimension; point at the first wrong character."""
    if text.isidentifier() or is_wildcard(text):
        if len(text) > _MAX_DIGITS and len(_digits_of(text)) > _MAX_DIGITS:
            raise ValueError(_too_long(text))
        return
    prefixes = range(1, len(text) + 1)
    position = bisect_left(prefixes, True, key=lambda length: not text[:length].isidentifier())
    got = repr(text[position]) if text else "nothing"
    raise ValueError(
        'NamedDimension: a name must be an identifier, "...", "()" or "()" around a number '
        f"without a leading zero, got {text!r} with {got} at position {position}"
        + pointing_at(text, position)
    )


def _too_long(text: str) -> str:
    return (
        f"NamedDimension: an index must have at most {_MAX_DIGITS} digits, "
        f"got more for the name {text[:20]!r}..."
    )


RUN: Final = NamedDimension(ELLIPSES)
"""The ellipsis as a dimension."""
