"""The base class of all operators."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar, TypeVar

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling, is_exporting

from nameddim import NamedDimension, NamedShape, is_wildcard

from .. import config
from .._kernels._complex import without_bits
from .._kernels._freed_memory import keep_freed
from .._kernels._recursion import advise
from .._kernels._tracing import built, constant_when_compiled, may_be_remembered
from ._arithmetic import Arithmetic
from ._conversions import Conversions
from ._copying import linked, with_changed_tensors
from ._description import dims_text, tensor_text
from ._late_hooks import is_hooked
from ._memo import CHECKED, Memo
from ._rules import rules
from ._sides import SIDES, dims_of, with_dims_in_front
from ._swapped_functions import of_adjoint
from ._tile import SplitError, Window

Result = TypeVar("Result")

_NOTHING = None, None, None


def overridable(function: Callable[..., Result]) -> Callable[..., Result]:
    """Make a static method that subclasses override with one for their own class."""
    return staticmethod(function)


class NamedLinop(Arithmetic, Conversions):
    r"""A linear operator :math:`A` between tensors whose dimensions have names.

    To write an operator, subclass it, pass the shape to ``super().__init__`` and override two
    static methods: ``fn(linop, x)`` for :math:`Ax` and ``adj_fn(linop, y)`` for :math:`A^H y`. They
    read the weights from ``linop``, because an adjoint is a shallow copy of the operator with the
    two functions swapped and the same tensors. Optional methods are ``normal_fn(linop, x)`` and
    ``adj_normal_fn(linop, y)`` for closed forms of :math:`A^H A` and :math:`A A^H`, ``size(dim)``,
    and ``split(linop, tile)``, without which an operator cannot be sliced. :class:`SliceableLinop`
    implements the last two for operators whose weights have named dimensions.

    Parameters
    ----------
    shape : NamedShape
        Names of the input and output dimensions.
    name : str, optional
        Shown in messages and in ``repr``; the class name by default.

    Examples
    --------
    >>> class Flip(NamedLinop):
    ...     "Reverse a signal; its own adjoint."
    ...     @staticmethod
    ...     def fn(linop, x):
    ...         return x.flip(-1)
    ...     adj_fn = fn
    >>> A = Flip(NamedShape(("N",)))
    >>> (A @ A)(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    saved_with: ClassVar[tuple[type, ...]] = ()
    """Classes of attributes that are saved with an operator; see :func:`safe_globals`."""
    _takes_any_batch: ClassVar[bool] = False
    """Whether ``fn`` treats all slices of further dimensions in front alike."""
    _runs_in_parts: ClassVar[bool] = False
    """Whether it runs in parts with a small workspace, so that callers need not cut the input."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Drop inherited closed forms of functions that the class overrides."""
        super().__init_subclass__(**kwargs)
        if "__call__" in vars(cls):
            raise TypeError(
                f"{cls.__name__}: an operator must override fn(linop, x), got a class that "
                "overrides __call__"
            )
        for name, functions in _CLOSED_FORMS.items():
            definer = next(found for found in cls.__mro__ if name in vars(found))
            if definer is not cls and not has_functions_of(cls, definer, *functions):
                setattr(cls, name, vars(NamedLinop)[name])

    @overridable
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        """Return A x."""
        raise NotImplementedError(f"{linop.name}: the class must override fn(linop, x)")

    @overridable
    def adj_fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        """Return A^H x."""
        raise NotImplementedError(
            f"{linop.name}: there is no adjoint; the class must override adj_fn(linop, x)"
        )

    @overridable
    def normal_fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        """Return A^H A x in closed form."""
        raise NotImplementedError(
            f"{linop.name}: there is no closed form of the normal; write A.N(x)"
        )

    # The normal_fn of the adjoint: A A^H in closed form.
    adj_normal_fn = normal_fn

    def as_endomorphism(self) -> NamedLinop:
        """Return the operator, marked as one that maps a space to itself."""
        if self.is_endomorphism:
            return self
        return linked(self, None, _is_endomorphism=True)

    # Calls

    def __call__(self, x: Tensor) -> Tensor:
        """Return A x, with the hooks of the module; see :meth:`forward`.

        The result is never a lazy conjugate: ``y.is_conj()`` and ``y.is_neg()`` are False.
        """
        return without_bits(self._applied(x))

    def _applied(self, x: Tensor) -> Tensor:
        """Return A x as a call does, or a lazy conjugate of it, which may cancel in a chain."""
        # Tracers replace the method of nn.Module, and do not pass plain tensors.
        if type(x) is not Tensor or is_dynamo_compiling() or is_hooked(self.__dict__):
            if is_exporting():
                self._check_export()
            return super().__call__(x)  # type: ignore[no-any-return]
        try:
            return self.forward(x)
        except RecursionError as error:
            advise(error)
            raise

    def forward(self, x: Tensor) -> Tensor:
        """Return A x.

        Parameters
        ----------
        x : Tensor
            Of shape ``ishape``.

        Returns
        -------
        Tensor
            Of shape ``oshape``. It shares memory with ``x`` if the operator copies nothing, such as
            Identity or a slice.

        Raises
        ------
        TypeError
            If x, or the result of ``fn``, is not a tensor.
        ValueError
            If x does not have the dimensions and sizes of ``ishape``, or the result does not have
            the dimensions and sizes of ``oshape``. The result is checked for each new shape of x.
        """
        facts = None if is_dynamo_compiling() or type(x) is not Tensor else self._facts(x)
        checked, returned, _ = _NOTHING if facts is None else self._found.get(CHECKED, _NOTHING)
        is_known = facts is not None and facts == checked
        if not is_known:
            self._check_input(x)
        y = self.fn(self, x)
        if not is_known or getattr(y, "shape", None) != returned:
            self._check_vector(y, "output")
            if facts is not None and may_be_remembered(x.shape):
                is_all = type(self).forward is NamedLinop.forward and self._is_checked_by_shapes()
                CHECKED.keep(self, (facts, y.shape, is_all))
                keep_freed(x, y)
        return y

    def _call_again(self, x: Tensor) -> Tensor:
        """Return A x, given that all weights have the shapes of an earlier call.

        This is for small tiles that take less time than a check. If x has the shape of the earlier
        call, too, nothing is checked; the caller must check the shape of the result.
        """
        return self.fn(self, x) if self._has_checked(x) else self(x)

    def _is_checked_by_shapes(self) -> bool:
        """Whether the shapes of input and weights determine if a call is valid."""
        return False

    def _has_checked(self, x: Tensor) -> bool:
        """Whether ``fn`` alone is a call with x, if all weights have the shapes of the last one."""
        own = self.__dict__
        facts, _, is_all = own["_found"].get(CHECKED, _NOTHING)
        return is_all is True and x.shape == facts[0] and not is_hooked(own)

    def _facts(self, x: Tensor) -> tuple[object, ...]:
        """Return all facts that decide whether x is valid: its shape and all lengths."""
        return x.shape, self.sizes("input"), self.sizes("output")

    # Derived operators

    @property
    def H(self) -> NamedLinop:
        """The adjoint; it is made once (:mod:`linops_core.config`) and is never out of date.

        It holds the same tensors.
        """
        if is_dynamo_compiling():
            self._make_derived()
        adjoint = _ADJOINT.of(self)
        if isinstance(adjoint, weakref.ref):
            adjoint = adjoint()
        if not isinstance(adjoint, NamedLinop):
            adjoint = built(self.adjoint)
            if adjoint is not self and config.cache_adjoint_normal:
                # The way back is weak: an operator of gigabytes must not wait for the
                # collector of cycles to be freed.
                _ADJOINT.keep(self, adjoint)
                _ADJOINT.keep(adjoint, weakref.ref(self))
        return adjoint

    @property
    def N(self) -> NamedLinop:
        """The normal operator A^H A; it is made once (:mod:`linops_core.config`)."""
        if is_dynamo_compiling():
            self._make_derived()
        normal = _NORMAL.of(self)
        if normal is None:
            normal = built(self.normal)
            if config.cache_adjoint_normal:
                _NORMAL.keep(self, normal)
        return normal

    @constant_when_compiled
    def _make_derived(self) -> None:
        """Make the adjoint and the normal operator before a compiler looks for them."""
        if config.cache_adjoint_normal:
            for name in ("H", "N"):
                with suppress(NotImplementedError, ValueError):
                    getattr(self, name)

    @property
    def gram(self) -> NamedLinop:
        """The normal operator; the name in other libraries."""
        return self.N

    def adjoint(self) -> NamedLinop:
        """Return the adjoint A^H: a shallow copy with its functions swapped.

        Raises
        ------
        NotImplementedError
            If the class has no ``adj_fn``.
        """
        is_by_parts = self.adj_fn is of_adjoint
        if self.adj_fn is NamedLinop.adj_fn or (
            is_by_parts and type(self).adjoint is NamedLinop.adjoint
        ):
            NamedLinop.adj_fn(self, torch.empty(0))  # which raises the error
        if is_by_parts:
            return linked(self, self._shape.H)
        return linked(
            self,
            self._shape.H,
            fn=self.adj_fn,
            adj_fn=self.fn,
            normal_fn=self.adj_normal_fn,
            adj_normal_fn=self.normal_fn,
            split=self.adj_split,
            adj_split=self.split,
        )

    @property
    def is_adjoint(self) -> bool:
        """Whether the functions of the class are swapped, as in :meth:`adjoint`."""
        return bool(self.fn is not type(self).fn)

    @property
    def T(self) -> NamedLinop:
        """The transpose, without conjugation: the complex conjugate of the adjoint."""
        return self.H.conj()

    def conj(self) -> NamedLinop:
        r"""Return the complex conjugate :math:`\bar A`: A with conjugated weights."""
        return self if self._is_real else rules.conjugate(self)

    def flatten(self) -> list[NamedLinop]:
        """Return the operators that this one composes, in the order of application."""
        return [self]

    def normal(self, inner: NamedLinop | None = None) -> NamedLinop:
        """Return A^H A, or A^H inner A.

        A dimension that A sums over gets a new name in the output (N -> N1), so that input and
        output can be sliced separately.

        Parameters
        ----------
        inner : NamedLinop, optional
            An operator that maps the output space to itself.

        Raises
        ------
        TypeError
            If ``inner`` is not an operator.
        ValueError
            If it does not act on the output space.
        """
        vars(self)["_has_relatives"] = True
        if inner is None:
            return self.own_normal().as_endomorphism()
        if not isinstance(inner, NamedLinop):
            raise TypeError(
                f"{self.signature}: the inner operator of a normal must be a NamedLinop, "
                f"got {type(inner)}"
            )
        return rules.normal(self, inner)

    def own_normal(self) -> NamedLinop:
        """Return A^H A. Override it if that is an operator of another class."""
        return rules.normal(self, None)

    def resolved(
        self,
        ishape: tuple[NamedDimension, ...] | None = None,
        oshape: tuple[NamedDimension, ...] | None = None,
    ) -> NamedLinop:
        """Return the operator with its wildcards replaced by the dimensions of another shape.

        Returns
        -------
        NamedLinop
            The operator itself if there is nothing to replace, else a linked copy.

        Raises
        ------
        ValueError
            If the shape does not match.
        """
        shape = self._shape.resolve(ishape=ishape, oshape=oshape)
        return self if shape == self._shape else self.resolved_to(shape)

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, its own with other dimensions for a wildcard.

        Override it if other attributes depend on the shape.
        """
        return linked(self, shape)

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the same operator for inputs with the dimensions ``dims``, or None.

        Compositions call it if neighbours do not fit. If its class allows this, an operator without
        ``...`` also works on inputs with further dimensions in front, which are then a batch. Grid
        operators find their dimensions by name. The copy shares all tensors.
        """
        if not self._takes_any_batch:
            return None
        shape = with_dims_in_front(self._shape, dims)
        return None if shape is None else self.resolved_to(shape)

    def _is_renamed_by(self, names: Mapping[NamedDimension, NamedDimension]) -> bool:
        if not isinstance(names, Mapping):
            raise TypeError(
                f"{self.signature}: names must be a mapping of old names to new ones, as in "
                f'A.renamed({{"N": "K"}}), got {names!r}'
            )
        return bool(self.dims & names.keys())

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions; it shares all tensors.

        Raises
        ------
        TypeError
            If ``names`` is not a mapping.
        """
        if not self._is_renamed_by(names):
            return self
        return linked(self, self._shape.rename(names))

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` in the place of every tensor w that it reads.

        For a tile, w is its slice of a weight. The results are buffers.
        ``A.with_weights(Tensor.detach)`` holds only the views that A reads. Use it to send A to
        another device or process.
        """
        return with_changed_tensors(self, change)

    def extra_repr(self) -> str:
        """Return the text of ``repr`` for the weights."""
        tensors = {**self._parameters, **self._buffers}
        return ", ".join(tensor_text(name, t) for name, t in tensors.items() if t is not None)

    def __repr__(self) -> str:
        """Return the tree of operators: names, shapes, dtypes, devices and bytes."""
        # Not children(), which lists an operand that is used twice only once.
        parts = [part for part in self._modules.values() if isinstance(part, NamedLinop)]
        line = "  ".join(text for text in (self.signature, self.extra_repr()) if text)
        below = [f"  {part_line}" for part in parts for part_line in repr(part).splitlines()]
        return "\n".join([line, *below])

    def _repr_html_(self) -> str:
        """Return the tree as a table for notebooks, with the sizes and roles that are known."""
        known = [(dim, self.role(dim)) for dim in sorted(self.dims) if not is_wildcard(dim)]
        roles = ", ".join(f"{dim} {role}" for dim, role in known if role is not None)
        from memmap import html_table  # only notebooks need it

        return html_table(["operator", "input", "output", "weights"], self._html_rows(0), roles)

    def _html_rows(self, depth: int) -> Iterator[list[str]]:
        sides = [dims_text(dims_of(self._shape, side), self.sizes(side)) for side in SIDES]
        yield ["  " * depth + self.name, *sides, self.extra_repr()]
        for part in self._modules.values():
            if isinstance(part, NamedLinop):
                yield from part._html_rows(depth + 1)

    # Slices

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return the reason why ``dim`` cannot be sliced here, or None when it can."""
        cls = type(self)
        if cls.split is not NamedLinop.split or cls._tiles_at is not NamedLinop._tiles_at:
            return None
        return "the operator does not define its slices (override split(linop, tile))"

    @overridable
    def split(linop: NamedLinop, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the tile of the operator, from a slice of the input to a slice of the output.

        Parameters
        ----------
        tile : mapping of dimension to slice
            Other dimensions are whole. Dimensions that the operator does not have are ignored.

        Returns
        -------
        NamedLinop
            It holds views of the weights: cutting allocates no tensor.

        Raises
        ------
        SplitError
            If a dimension is opaque in the operator, or a slice is not within its size.
        """
        window = linop.own_window(tile)
        return next(iter(linop._tiles_at([window]))) if window else linop

    @overridable
    def adj_split(linop: NamedLinop, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the tile of an adjoint: the ``split`` of ``A.H``."""
        return linop.H.split(linop.H, tile).H

    def tiles_along(self, dim: NamedDimension, pieces: Sequence[slice]) -> list[NamedLinop]:
        """Return the tile of each slice of one dimension; the checks run once.

        Raises
        ------
        SplitError
            As :meth:`split`; also if a result is not an operator, or has other dimensions or sizes.
        """
        if self.split is not NamedLinop.split:
            return [tile_of(self, {dim: piece}) for piece in pieces]
        explicit = self._explicit(dim, pieces)
        tiles = iter(self._tiles_at([{dim: piece} for piece in explicit if piece is not None]))
        return [self if piece is None else next(tiles) for piece in explicit]

    def tiles_at(self, windows: Sequence[Window]) -> list[NamedLinop]:
        """Return the tile at each window; windows of one dimension are checked once."""
        dims = {dim for window in windows for dim in window}
        if len(dims) != 1:
            return [tile_of(self, window) for window in windows]
        (dim,) = dims
        return self.tiles_along(dim, [window[dim] for window in windows])

    def _tiles_at(self, windows: Sequence[Window]) -> Iterable[NamedLinop]:
        """Return the tile for each of some explicit, checked windows that are not empty.

        Classes of this library override it instead of ``split``.
        """
        if windows:
            raise SplitError(f"{self.name}: the class must override split to cut {set(windows[0])}")
        return []

    def split_forward(self, ibatch: Iterable[slice], obatch: Iterable[slice]) -> NamedLinop:
        """Return the tile between slices of the input and of the output.

        Parameters
        ----------
        ibatch, obatch : sequences of slices
            One for each dimension of ``ishape`` and ``oshape``.

        Raises
        ------
        SplitError
            As :meth:`split`; also if a dimension of both sides has two different slices.
        """
        tile: dict[NamedDimension, slice] = {}
        for side, names, pieces in (
            ("input", self.ishape, tuple(ibatch)),
            ("output", self.oshape, tuple(obatch)),
        ):
            if len(pieces) != len(names):
                raise SplitError(
                    f"{self.signature}: one slice must be given for each "
                    f"{side} dimension, got {len(pieces)}"
                )
            for dim, piece in zip(names, pieces, strict=True):
                if tile.setdefault(dim, piece) != piece:
                    raise SplitError(
                        f"{self.signature}: {dim} must have the same slice on both "
                        f"sides, got {tile[dim]} and {piece}"
                    )
        return self.split(self, tile)


_ADJOINT = Memo["NamedLinop | weakref.ref[NamedLinop]"](is_own=True)
"""The adjoint, once it is made; the adjoint of an adjoint refers back weakly."""
_NORMAL = Memo[NamedLinop](is_own=True)
"""The normal operator, once it is made."""

_OF_FUNCTIONS = ("fn", "adj_fn")
_CLOSED_FORMS = {
    "adjoint": _OF_FUNCTIONS,
    "conj": _OF_FUNCTIONS,
    # These bypass ``forward``.
    "normal": (*_OF_FUNCTIONS, "forward"),
    "own_normal": (*_OF_FUNCTIONS, "forward"),
    "normal_fn": (*_OF_FUNCTIONS, "forward"),
    "adj_normal_fn": (*_OF_FUNCTIONS, "forward"),
}
"""The functions of its class of which each method is a closed form."""


def has_functions_of(cls: type, parent: type, *names: str) -> bool:
    """Whether a class has functions of another one; what that one leaves open does not count."""
    left_open = NamedLinop.fn, NamedLinop.adj_fn
    return all(
        getattr(parent, name) in left_open or getattr(cls, name) is getattr(parent, name)
        for name in names
    )


def tile_of(linop: NamedLinop, window: Window) -> NamedLinop:
    """Return ``linop.split(linop, window)``, after a check that it is a tile.

    Raises
    ------
    SplitError
        As :meth:`NamedLinop.split`; also if the result is not an operator, or has other dimensions
        or sizes.
    """
    tile = linop.split(linop, window)
    if not isinstance(tile, NamedLinop):
        raise SplitError(f"{linop.signature}: split must return a NamedLinop, got {tile!r}")
    names, own = tile.shape, linop.shape
    if names is not own and (names.ishape, names.oshape) != (own.ishape, own.oshape):
        raise SplitError(
            f"{linop.signature}: split must return an operator between the same dimensions, "
            f"got {tile.signature}"
        )
    for dim, piece in window.items():
        if dim in own.dims and tile.size(dim) not in (None, piece.stop - piece.start):
            raise SplitError(
                f"{linop.signature}: split must return an operator in which {dim} has size "
                f"{piece.stop - piece.start} for {piece}, got {tile.size(dim)}"
            )
    return tile
