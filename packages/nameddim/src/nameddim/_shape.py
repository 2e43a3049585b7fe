"""The shape of an operator: the dimensions that it takes and those that it gives."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NoReturn, Self, TypeVar, final

from nameddim._dimension import ELLIPSES, NamedDimension, is_wildcard
from nameddim._errors import written
from nameddim._parse import Dims, as_dims, check_distinct
from nameddim._resolution import resolutions

# A mapping from dimensions is, to a type checker, no mapping from strings: its keys may be either.
Name = TypeVar("Name", bound=str)


@final
class NamedShape:
    """The dimensions of an operator's input and output, and of whatever else it holds.

    A shape is an immutable value: it can be shared, hashed and pickled, and its methods return new
    ones. A wildcard stands for the same dimensions in all tuples. Where a tuple has several
    ``"()"``, the first of one tuple is the first of another, and so on.

    Parameters
    ----------
    ishape : iterable of str, or None
        The input's dimensions. A plain string is read by :func:`Dim`. None means any shape:
        ``("...",)``.
    oshape : iterable of str, or None
        The output's dimensions. None means those of the input.
    **other_shapes : iterable of str
        Further tuples of dimensions, each under a name.

    Attributes
    ----------
    ishape, oshape : tuple of NamedDimension
    other_shapes : mapping of str to tuple of NamedDimension
        Read-only. Each is also an attribute: ``shape.batch_shape``.

    Raises
    ------
    TypeError
        If a shape is no iterable of strings, or a set, which has no order.
    ValueError
        If a name is bad, or within one tuple two dimensions have the same name or there are two
        ellipses, or the name of another shape is that of an attribute.

    Examples
    --------
    >>> fft = NamedShape(("...", "Nx", "Ny"), ("...", "Kx", "Ky"), batch_shape=("...",))
    >>> fft
    (..., Nx, Ny) -> (..., Kx, Ky), batch_shape=(...)
    >>> fft.H
    (..., Kx, Ky) -> (..., Nx, Ny), batch_shape=(...)
    >>> fft.N
    (..., Nx, Ny) -> (..., Nx1, Ny1), batch_shape=(...)
    >>> fft.resolve(ishape=("C", "Nx", "Ny"))
    (C, Nx, Ny) -> (C, Kx, Ky), batch_shape=(C)
    """

    __slots__ = ("_dims", "ishape", "oshape", "other_shapes")

    ishape: Dims
    oshape: Dims
    other_shapes: Mapping[str, Dims]
    _dims: Dims | None

    def __new__(
        cls,
        ishape: Iterable[str] | None,
        oshape: Iterable[str] | None = None,
        **other_shapes: Iterable[str],
    ) -> Self:
        own = as_dims((ELLIPSES,) if ishape is None else ishape)
        out = own if oshape is None else as_dims(oshape)
        others = {key: as_dims(dims) for key, dims in other_shapes.items()}
        for key in others:
            if not key.isidentifier() or key.startswith("_") or hasattr(cls, key):
                raise ValueError(
                    "NamedShape: the name of another shape must be an identifier, but not that of "
                    f"an attribute of every shape, nor begin with an underscore, got {key!r}"
                )
        for key, dims in {"ishape": own, "oshape": out, **others}.items():
            check_distinct(key, dims)
        return cls._made(own, out, **others)

    @classmethod
    def _made(cls, ishape: Dims, oshape: Dims, **other_shapes: Dims) -> Self:
        """Make a shape of tuples that were checked."""
        self = super().__new__(cls)
        object.__setattr__(self, "ishape", ishape)
        object.__setattr__(self, "oshape", oshape)
        object.__setattr__(self, "other_shapes", MappingProxyType(other_shapes))
        object.__setattr__(self, "_dims", None)
        return self

    def __getattr__(self, key: str) -> Dims:
        others: Mapping[str, Dims] = object.__getattribute__(self, "other_shapes")
        if key in others:
            return others[key]
        raise AttributeError(f"NamedShape: a shape must be one of {self!r}, got {key!r}")

    def __setattr__(self, key: str, value: object) -> NoReturn:
        raise AttributeError(f"NamedShape: a shape must be replaced, not edited, got a new {key!r}")

    def __delattr__(self, key: str) -> NoReturn:
        raise AttributeError(f"NamedShape: a shape must stay whole, got {key!r} to delete")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NamedShape):
            return NotImplemented
        return (
            self.ishape == other.ishape
            and self.oshape == other.oshape
            and self.other_shapes == other.other_shapes
        )

    def __hash__(self) -> int:
        return hash((self.ishape, self.oshape, frozenset(self.other_shapes.items())))

    def __repr__(self) -> str:
        others = "".join(f", {key}={written(dims)}" for key, dims in self.other_shapes.items())
        return f"{written(self.ishape)} -> {written(self.oshape)}{others}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self._parts(),)

    def __deepcopy__(self, memo: object = None) -> Self:
        return self  # an immutable value

    __copy__ = __deepcopy__

    @property
    def H(self) -> "NamedShape":
        """The shape of the adjoint, see :meth:`adjoint`."""
        return self.adjoint()

    @property
    def N(self) -> "NamedShape":
        """The shape of the normal operator, see :meth:`normal`."""
        return self.normal()

    @property
    def dims(self) -> frozenset[NamedDimension]:
        """All names in all of the shapes, without the wildcards.

        Examples
        --------
        >>> sorted(NamedShape(("...", "N"), ("...", "M")).dims)
        ['M', 'N']
        """
        found = self._dims
        if found is None:  # asked for again and again, of a value that never changes
            every = (dim for dims in self._parts().values() for dim in dims)
            found = tuple(dict.fromkeys(dim for dim in every if not is_wildcard(dim)))
            # A tuple: torch.compile fails on an object that it sees made and that holds a
            # frozenset, wherever the code of its caller does not name frozenset itself.
            object.__setattr__(self, "_dims", found)
        return frozenset(found)

    @property
    def has_wildcards(self) -> bool:
        """Whether there is a wildcard in any of the shapes.

        Examples
        --------
        >>> NamedShape(("...", "N")).has_wildcards, NamedShape(("N",)).has_wildcards
        (True, False)
        """
        return any(is_wildcard(dim) for dims in self._parts().values() for dim in dims)

    def adjoint(self) -> "NamedShape":
        """Return the shape with input and output swapped.

        Examples
        --------
        >>> NamedShape(("N",), ("M",)).adjoint()
        (M) -> (N)
        """
        return self._made(self.oshape, self.ishape, **self.other_shapes)

    def normal(self) -> "NamedShape":
        """Return the shape of an operator followed by its adjoint.

        The input stays. In the output, wildcards and dimensions that the operator's output has
        too (batch dimensions) stay; the others get the first unused index, so that a row and a
        column of the normal operator have different names.

        Examples
        --------
        >>> NamedShape(("C", "N"), ("C", "M")).normal()
        (C, N) -> (C, N1)
        """
        taken = set(self.dims)
        oshape = []
        for dim in self.ishape:
            if dim not in self.oshape and not is_wildcard(dim):
                dim = dim.next_unused(taken)
                taken.add(dim)
            oshape.append(dim)
        return self._made(self.ishape, tuple(oshape), **self.other_shapes)

    def rename(self, names: Mapping[Name, str]) -> "NamedShape":
        """Return the shape with dimensions renamed, all at once, in all of its tuples.

        Parameters
        ----------
        names : mapping of str to str
            New names by old names; old names that do not occur are ignored.

        Raises
        ------
        TypeError
            If `names` is no mapping of strings to strings.
        ValueError
            If a name is bad or a wildcard, or two dimensions of the shape, in whichever tuples,
            would get the same name.

        Examples
        --------
        >>> NamedShape(("A", "B"), ("B",)).rename({"A": "B", "B": "A"})
        (B, A) -> (A)
        """
        if not isinstance(names, Mapping):
            raise TypeError(
                f"NamedShape: names must be a mapping of old names to new ones, got {names!r}"
            )
        new = {NamedDimension(old): NamedDimension(name) for old, name in names.items()}
        for dim in (*new.keys(), *new.values()):
            if is_wildcard(dim):
                raise ValueError(
                    f"NamedShape: what is renamed must be named dimensions, got {dim!r}; "
                    "wildcards are replaced by resolve"
                )
        old_of: dict[NamedDimension, NamedDimension] = {}
        for dim in sorted(self.dims):
            other = old_of.setdefault(new.get(dim, dim), dim)
            if other != dim:
                raise ValueError(
                    f"NamedShape: renamed dimensions of {self!r} must stay distinct, "
                    f"got {new.get(dim, dim)!r} for both {other!r} and {dim!r}"
                )
        return self._made(
            **{key: tuple(new.get(dim, dim) for dim in dims) for key, dims in self._parts().items()}
        )

    def resolve(
        self, ishape: Iterable[str] | None = None, oshape: Iterable[str] | None = None
    ) -> "NamedShape":
        """Return the shape whose input and output match those given.

        Each wildcard is replaced, in all tuples, by the dimensions that it stands for. A name is
        never replaced by a wildcard: where a wildcard is given, the shape keeps what it has. A
        given wildcard that the shape has already gets another number.

        Parameters
        ----------
        ishape, oshape : iterable of str, or None
            May have wildcards. None: nothing is known.

        Raises
        ------
        TypeError
            If what is given is no iterable of strings.
        ValueError
            If what is given is no shape; if it does not match, or only by naming two dimensions
            of one tuple alike; or if it matches in several ways that give different shapes.

        Examples
        --------
        >>> NamedShape(("...", "Nx"), ("...", "Kx")).resolve(ishape=("C", "Nx"))
        (C, Nx) -> (C, Kx)
        >>> NamedShape(("A", "(1)"), ("(1)", "A")).resolve(oshape=("...", "A"))
        (A, (1)) -> ((1), A)
        """
        targets = {
            side: as_dims(given)
            for side, given in (("ishape", ishape), ("oshape", oshape))
            if given is not None
        }
        for side, target in targets.items():
            check_distinct(side, target)
        found, clash = resolutions(self._parts(), targets)
        if len(found) == 1:
            return self if found[0] == self._parts() else self._made(**found[0])
        wanted = " and ".join(f"{side} {written(target)}" for side, target in targets.items())
        if found:
            several = " or ".join(repr(self._made(**parts)) for parts in found)
            raise ValueError(f"NamedShape: {self!r} must match {wanted} in one way, got {several}")
        why_not = f"; {clash}" if clash else ""
        raise ValueError(
            f"NamedShape: {self!r} must match {wanted}, and cannot be matched{why_not}"
        )

    def _parts(self) -> dict[str, Dims]:
        """All tuples of the shape, by the names that the constructor takes them under."""
        return {"ishape": self.ishape, "oshape": self.oshape, **self.other_shapes}


def _rebuild(parts: dict[str, Dims]) -> NamedShape:
    """Make the shape that was pickled."""
    return NamedShape(**parts)
