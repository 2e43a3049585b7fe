"""One named dimension: a name with an index, or a wildcard."""

import operator
import re
from collections.abc import Iterable
from typing import Final, Self, SupportsIndex, overload

from nameddim._errors import pointing_at

ANY: Final = "()"
"""The wildcard that stands for exactly one dimension."""

ELLIPSES: Final = "..."
"""The wildcard that stands for any run of dimensions, also for none."""

# The leftmost match is the longest number without a leading zero: "Nx012" is ("Nx0", 12).
_INDEX = re.compile(r"[1-9][0-9]*\Z")
_NUMBERED_ANY = re.compile(r"\(([1-9][0-9]*)\)")


class NamedDimension(str):
    """A dimension's name, made of a base name and an index.

    It is a string, so it equals, hashes, sorts and prints like the text that it is written with,
    and either may be looked up in place of the other. It adds what the text means: a `name`, and
    an index `i` that is the longest trailing number without a leading zero. The text fixes both,
    so equal dimensions have equal names and equal indices.

    Two texts are wildcards: ``"..."`` stands for any run of dimensions, ``"()"`` for exactly one;
    ``"(1)"``, ``"(2)"``, ... are ``"()"`` with an index. Every other text must be an identifier
    (letters, digits and underscores, not a digit first).

    Parameters
    ----------
    name : str
        The name; it may already carry the index, as in ``"Nx1"``.
    i : int
        The index, 0 or more. 0 means none and is not written.

    Raises
    ------
    TypeError
        If `name` is not a string, or `i` is not an integer.
    ValueError
        If `name` is not a name, or `i` is negative, or an index is given to a name that has none
        (``"..."``) or carries one already.

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
        """Check `name` and `i`, and write them as one string."""
        if not isinstance(name, str):
            raise TypeError(
                f"NamedDimension: a name must be a string, got {name!r} ({type(name).__name__})"
            )
        index = operator.index(i)
        if type(name) is not cls:
            _check_name(name)
        self = super().__new__(cls, name)
        if index == 0:
            return self
        if self.i:
            raise ValueError(
                f"NamedDimension: an index must be given once, got the index {index} for "
                f"{name!r}, which carries {self.i} already"
            )
        return super().__new__(cls, self + index)

    @property
    def name(self) -> str:
        """The text without the index; ``"()"`` for ``"(1)"``."""
        if self.startswith("("):
            return ANY
        return _INDEX.sub("", self)

    @property
    def i(self) -> int:
        """The index, 0 if there is none."""
        found = _NUMBERED_ANY.fullmatch(self)
        if found:
            return int(found[1])
        found = _INDEX.search(self)
        return int(found[0]) if found else 0

    # A string is an iterable of strings too, but one string is always one dimension.
    @overload
    @staticmethod
    def infer(x: str) -> "NamedDimension": ...  # type: ignore[overload-overlap]
    @overload
    @staticmethod
    def infer(x: Iterable[str]) -> "tuple[NamedDimension, ...]": ...
    @staticmethod
    def infer(x: str | Iterable[str]) -> "NamedDimension | tuple[NamedDimension, ...]":
        """Return `x` as a dimension, or as a tuple of dimensions.

        Parameters
        ----------
        x : str, NamedDimension or iterable of them
            A string is one dimension, however many :func:`Dim` would read in it.

        Returns
        -------
        NamedDimension or tuple of NamedDimension
            `x` itself, if it is a dimension already.

        Raises
        ------
        TypeError, ValueError
            As :class:`NamedDimension`.

        Examples
        --------
        >>> NamedDimension.infer(("Nx", "C1"))
        ('Nx', 'C1')
        """
        if isinstance(x, str):
            return x if isinstance(x, NamedDimension) else NamedDimension(x)
        try:
            dims = iter(x)
        except TypeError:
            raise TypeError(
                "NamedDimension: a dimension must be a string, or an iterable of strings, got "
                f"{x!r} ({type(x).__name__})"
            ) from None
        return tuple(d if isinstance(d, NamedDimension) else NamedDimension(d) for d in dims)

    def __add__(self, k: SupportsIndex) -> "NamedDimension":  # type: ignore[override]
        """Return the dimension of the same name with an index larger by `k`.

        Parameters
        ----------
        k : int
            May be negative.

        Raises
        ------
        TypeError
            If `k` is not an integer. (A string is not appended; use an f-string.)
        ValueError
            If the index would be negative, or this is the ellipsis, which has no index.
        """
        try:
            i = self.i + operator.index(k)
        except TypeError:
            raise TypeError(
                f"NamedDimension: what is added to {self!r} must be an integer, got {k!r} "
                f"({type(k).__name__})"
            ) from None
        if self == ELLIPSES:
            raise ValueError('NamedDimension: "..." must have no index, got one to add')
        if i < 0:
            raise ValueError(f"NamedDimension: an index must be 0 or more, got {i} for {self!r}")
        index = str(i) if i else ""
        text = f"({index})" if self.startswith("(") else self.name + index
        return str.__new__(NamedDimension, text)

    def next_unused(self, avoid: Iterable[str]) -> "NamedDimension":
        """Return the first of this dimension, this + 1, this + 2, ... that is not in `avoid`.

        Parameters
        ----------
        avoid : iterable of str
            The dimensions that are taken.

        Raises
        ------
        TypeError
            If `avoid` is one string, which would be searched for letters.
        ValueError
            If this is the ellipsis and is in `avoid`.

        Examples
        --------
        >>> NamedDimension("N").next_unused({"N", "N1", "N3"})
        'N2'
        """
        if isinstance(avoid, str):
            raise TypeError(
                f"NamedDimension: what to avoid must be a collection of dimensions, got {avoid!r}"
            )
        taken = set(avoid)
        dim = self
        while dim in taken:
            dim += 1
        return dim


def AnyDim(i: SupportsIndex | None = None) -> NamedDimension:
    """Return the wildcard for exactly one dimension: ``"()"``, or ``"(i)"`` with an index.

    Parameters
    ----------
    i : int or None
        The index, 0 or more; None is 0.

    Raises
    ------
    TypeError, ValueError
        As :class:`NamedDimension`.

    Examples
    --------
    >>> AnyDim(), AnyDim(2)
    ('()', '(2)')
    """
    return NamedDimension(ANY, 0 if i is None else i)


def is_any(d: str) -> bool:
    """Whether `d` is a wildcard for exactly one dimension, with or without an index.

    The ellipsis is not: it stands for a run.

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


def _check_name(text: str) -> None:
    """Raise, and point at the first character that is wrong, if `text` is no dimension."""
    if text.isidentifier() or is_wildcard(text):
        return
    position = 0
    while text[: position + 1].isidentifier():
        position += 1
    found = repr(text[position]) if text else "nothing"
    raise ValueError(
        'NamedDimension: a name must be an identifier, "...", "()" or "()" around a number '
        f"without a leading zero, got {text!r} with {found} at position {position}"
        + pointing_at(text, position)
    )
