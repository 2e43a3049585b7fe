"""NamedShape: the dimensions of the input and output of an operator."""

import copyreg
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NoReturn, Self, TypeVar, final

from nameddim._dimension import ELLIPSES, NamedDimension, is_wildcard
from nameddim._errors import written
from nameddim._parse import Dims, as_dims, check_distinct
from nameddim._resolution import resolutions

# Type checkers do not accept a mapping of dimensions as a mapping of strings; both are allowed.
Name = TypeVar("Name", bound=str)


@final
class NamedShape:
    """The dimensions of the input and output of an operator, and further named tuples.

    A shape is an immutable value: it can be shared, hashed and pickled, and its methods return new
    shapes. A wildcard stands for the same dimensions in all tuples. If tuples have several
    ``"()"``, the first one of each tuple is the same dimension, the second one too, and so on.

    Parameters
    ----------
    ishape : iterable of str, or None
        The dimensions of the input, as for :func:`as_dims`. None means any shape: ``("...",)``. A
        NamedShape as the only argument is returned unchanged.
    oshape : iterable of str, or None
        The dimensions of the output. None means the dimensions of the input.
    **other_shapes : iterable of str
        Further tuples of dimensions, each with a name.

    Attributes
    ----------
    ishape, oshape : tuple of NamedDimension
    other_shapes : mapping of str to tuple of NamedDimension
        Read-only. Each is also an attribute: ``shape.batch_shape``.

    Raises
    ------
    TypeError, ValueError
        As :func:`as_dims`. Also if a tuple has a name twice or two ellipses, if a further tuple has
        the name of an attribute, or if a NamedShape is not the only argument.

    Examples
    --------
    >>> fft = NamedShape(("...", "Nx", "Ny"), ("...", "Kx", "Ky"), batch_shape=("...",))
    >>> fft
    (..., Nx, Ny) -> (..., Kx, Ky), batch_shape=(...)
    >>> fft.H
    (..., Kx, Ky) -> (..., Nx, Ny), batch_shape=(...)
    >>> fft.resolve(ishape=("C", "Nx", "Ny"))
    (C, Nx, Ny) -> (C, Kx, Ky), batch_shape=(C)
    """

    __slots__ = ("_names", "ishape", "oshape", "other_shapes")

    ishape: Dims
    oshape: Dims
    other_shapes: Mapping[str, Dims]
    _names: Dims | None

    def __new__(
        cls,
        ishape: "Iterable[str] | NamedShape | None",
        oshape: Iterable[str] | None = None,
        **other_shapes: Iterable[str],
    ) -> "NamedShape":
        if isinstance(ishape, NamedShape):
            if oshape is not None or other_shapes:
                raise TypeError(
                    f"NamedShape: a shape must be given alone, got {ishape!r} and further shapes"
                )
            return ishape
        ins = as_dims((ELLIPSES,) if ishape is None else ishape)
        outs = ins if oshape is None else as_dims(oshape)
        others = {key: as_dims(dims) for key, dims in other_shapes.items()}
        for key in others:
            if not key.isidentifier() or key.startswith("_") or hasattr(cls, key):
                raise ValueError(
                    "NamedShape: the name of a further tuple must be an identifier that does not "
                    f"begin with an underscore and is no attribute of every shape, got {key!r}"
                )
        for key, dims in {"ishape": ins, "oshape": outs, **others}.items():
            check_distinct(key, dims)
        return cls._made(ins, outs, **others)

    @classmethod
    def _made(cls, ishape: Dims, oshape: Dims, **other_shapes: Dims) -> Self:
        """Make a shape from tuples that are already checked."""
        self = super().__new__(cls)
        object.__setattr__(self, "ishape", ishape)
        object.__setattr__(self, "oshape", oshape)
        object.__setattr__(self, "other_shapes", MappingProxyType(other_shapes))
        object.__setattr__(self, "_names", None)
        return self

    def __getattr__(self, key: str) -> Dims:
        others: Mapping[str, Dims] = object.__getattribute__(self, "other_shapes")
        if key in others:
            return others[key]
        raise AttributeError(f"NamedShape: an attribute must be one of {self!r}, got {key!r}")

    def __setattr__(self, key: str, value: object) -> NoReturn:
        raise AttributeError(f"NamedShape: a shape must be replaced, not edited, got a new {key!r}")

    def __delattr__(self, key: str) -> NoReturn:
        raise AttributeError(f"NamedShape: the tuples of a shape must not be deleted, got {key!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NamedShape):
            return NotImplemented
        return self._tuples() == other._tuples()

    def __hash__(self) -> int:
        return hash(frozenset(self._tuples().items()))

    def __repr__(self) -> str:
        others = "".join(f", {key}={written(dims)}" for key, dims in self.other_shapes.items())
        return f"{written(self.ishape)} -> {written(self.oshape)}{others}"

    def __reduce__(self) -> tuple[object, ...]:
        # Like an object with a state, because torch.load(weights_only=True) calls no functions.
        others = dict(self.other_shapes)
        return copyreg.__newobj__, (NamedShape, self.ishape, self.oshape), others or None  # type: ignore[attr-defined]

    def __setstate__(self, others: Mapping[str, Dims]) -> None:
        made = NamedShape(self.ishape, self.oshape, **others)
        object.__setattr__(self, "other_shapes", made.other_shapes)

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
        """The names in all tuples, without the wildcards.

        Examples
        --------
        >>> sorted(NamedShape(("...", "N"), ("...", "M")).dims)
        ['M', 'N']
        """
        names = self._names
        if names is None:  # computed once, because it is needed often
            every = (dim for dims in self._tuples().values() for dim in dims)
            names = tuple(dict.fromkeys(dim for dim in every if not is_wildcard(dim)))
            # Not a frozenset: torch.compile fails on an object that it sees made and that holds a
            # frozenset, unless the calling code names frozenset itself.
            object.__setattr__(self, "_names", names)
        return frozenset(names)

    @property
    def has_wildcards(self) -> bool:
        """Whether any of the tuples has a wildcard.

        Examples
        --------
        >>> NamedShape(("...", "N")).has_wildcards, NamedShape(("N",)).has_wildcards
        (True, False)
        """
        return any(is_wildcard(dim) for dims in self._tuples().values() for dim in dims)

    def __add__(self, other: "NamedShape") -> "NamedShape":
        """Return the shape that concatenates the inputs and the outputs of both.

        Raises
        ------
        ValueError
            As :class:`NamedShape`, or if both have a further tuple of the same name.

        Examples
        --------
        >>> NamedShape(("C",)) + NamedShape(("Nx", "Ny"), ("Kx", "Ky"))
        (C, Nx, Ny) -> (C, Kx, Ky)
        """
        if not isinstance(other, NamedShape):
            return NotImplemented
        both = sorted(self.other_shapes.keys() & other.other_shapes.keys())
        if both:
            raise ValueError(
                f"NamedShape: the other shapes of {self!r} and {other!r} must have different "
                f"names, got {both[0]!r} in both"
            )
        others = {**self.other_shapes, **other.other_shapes}
        return NamedShape(self.ishape + other.ishape, self.oshape + other.oshape, **others)

    def adjoint(self) -> "NamedShape":
        """Return the shape with input and output swapped."""
        return self._made(self.oshape, self.ishape, **self.other_shapes)

    def normal(self) -> "NamedShape":
        """Return the shape of an operator followed by its adjoint.

        Wildcards, and dimensions that input and output share (batch dimensions), stay in the
        output. The other output dimensions get the first unused index, so that rows and columns
        have different names.

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
        """Return the shape with dimensions renamed in all of its tuples, all at once.

        `names` maps old names to new names. Old names that do not occur are ignored.

        Raises
        ------
        TypeError
            If `names` is not a mapping of strings to strings.
        ValueError
            If a name is invalid or a wildcard, or two dimensions would get the same name.

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
                    f"NamedShape: renamed dimensions must have names, got {dim!r}; "
                    "use resolve to replace wildcards"
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
            **{
                key: tuple(new.get(dim, dim) for dim in dims)
                for key, dims in self._tuples().items()
            }
        )

    def resolve(
        self, ishape: Iterable[str] | None = None, oshape: Iterable[str] | None = None
    ) -> "NamedShape":
        """Return the shape whose input and output match the given ones.

        Each wildcard is replaced, in all tuples, by the dimensions that it stands for. If a given
        tuple has a wildcard, the shape keeps its own element there. A given wildcard that the shape
        already has gets another number.

        Parameters
        ----------
        ishape, oshape : iterable of str, or None
            They may have wildcards. None: unknown.

        Raises
        ------
        TypeError, ValueError
            As :class:`NamedShape`. Also if the given tuples do not match, if they match only with
            two equal names in one tuple, or if they match in several ways that give different
            shapes.

        Examples
        --------
        >>> NamedShape(("A", "(1)"), ("(1)", "A")).resolve(oshape=("...", "A"))
        (A, (1)) -> ((1), A)
        """
        given = {"ishape": ishape, "oshape": oshape}
        targets = {side: as_dims(dims) for side, dims in given.items() if dims is not None}
        for side, target in targets.items():
            check_distinct(side, target)
        sides = self._tuples()
        candidates, clash = resolutions(sides, targets)
        if len(candidates) == 1:
            return self if candidates[0] == sides else self._made(**candidates[0])
        wanted = " and ".join(f"{side} {written(target)}" for side, target in targets.items())
        several = " or ".join(repr(self._made(**tuples)) for tuples in candidates)
        problem = f" in one way, got {several}" if candidates else f", and cannot be matched{clash}"
        raise ValueError(f"NamedShape: {self!r} must match {wanted}{problem}")

    def _tuples(self) -> dict[str, Dims]:
        """Return all tuples of the shape by the names of the constructor's arguments."""
        return {"ishape": self.ishape, "oshape": self.oshape, **self.other_shapes}
