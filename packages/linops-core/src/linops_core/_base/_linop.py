"""The base of all operators: what it means to call, derive from and combine them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar, TypeVar

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from memmap import html_table
from nameddim import NamedDimension, NamedShape, is_wildcard

from .. import config
from .._kernels._tracing import built, constant_when_compiled, may_be_remembered
from ._arithmetic import Arithmetic
from ._conversions import Conversions
from ._copying import linked, with_changed_tensors
from ._description import dims_text, tensor_text
from ._inheritance import forget_what_no_longer_holds
from ._late_hooks import is_hooked
from ._rules import rules
from ._sides import SIDES, Side, dims_of, with_dims_in_front
from ._tile import SplitError, Window
from ._totals import Totals

Result = TypeVar("Result")

_NOTHING = None, None, None


def overridable(function: Callable[..., Result]) -> Callable[..., Result]:
    """Make a static method, which subclasses override with one for operators of their own class."""
    return staticmethod(function)


class NamedLinop(Arithmetic, Conversions):
    r"""A linear operator :math:`A` between tensors whose dimensions have names.

    To write one, subclass it, hand the shape to ``super().__init__`` and override the static
    methods ``fn(linop, x)`` for :math:`Ax` and ``adj_fn(linop, y)`` for :math:`A^H y`. They find
    weights on ``linop``: an adjoint is a shallow copy of its operator with the two functions
    swapped, and holds the very same tensors. Optional are ``normal_fn(linop, x)`` and
    ``adj_normal_fn(linop, y)`` where :math:`A^H A` and :math:`A A^H` have a closed form,
    ``size(dim)``, and ``split(linop, tile)``, without which an operator cannot be sliced.
    :class:`SliceableLinop` gives the last two to operators whose weights carry named dimensions.

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
    """Classes of the values that an operator of this class keeps; see :func:`safe_globals`."""
    _takes_out: ClassVar[bool] = False
    """Whether ``fn`` and ``adj_fn`` take ``out=``, memory that they may write the result into."""
    _is_checked_by_shapes: ClassVar[bool] = False
    """Whether the shapes of input and weights decide which calls are right."""
    _takes_any_batch: ClassVar[bool] = False
    """Whether ``fn`` does the same to all slices of further dimensions in front."""

    _runs_in_parts: ClassVar[bool] = False
    """Whether it cuts its input and keeps its own workspace small, so that no caller has to."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Keep no closed form of an operator whose ``fn`` or ``adj_fn`` the class overrides."""
        super().__init_subclass__(**kwargs)
        forget_what_no_longer_holds(cls, NamedLinop)

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
        raise NotImplementedError(f"{linop.name}: there is no closed form of the normal")

    # What normal_fn is to an A.H: A A^H in closed form.
    adj_normal_fn = normal_fn

    def as_endomorphism(self) -> NamedLinop:
        """Return the operator, known to map a space to itself: for one who made it so."""
        if self.is_endomorphism:
            return self
        return linked(self, None, _is_endomorphism=True)

    # Calls

    def __call__(self, x: Tensor) -> Tensor:
        """Return A x, after and before the hooks of the module; see :meth:`forward`."""
        # Who traces modules replaces the method of nn.Module, and calls with no plain tensor.
        if type(x) is not Tensor or is_dynamo_compiling() or is_hooked(self.__dict__):
            return super().__call__(x)  # type: ignore[no-any-return]
        return self.forward(x)

    def forward(self, x: Tensor) -> Tensor:
        """Return A x.

        Parameters
        ----------
        x : Tensor
            Of shape ``ishape``.

        Returns
        -------
        Tensor
            Of shape ``oshape``. Shares memory with ``x`` where the operator moves nothing
            (Identity, a slice).

        Raises
        ------
        TypeError
            If x is no tensor, or ``fn`` returns none.
        ValueError
            If the number of dimensions or a size is not that of ``ishape``; or that of what
            ``fn`` returns not that of ``oshape``, which is checked for each new shape of x.
        """
        facts = None if is_dynamo_compiling() or type(x) is not Tensor else self._facts(x)
        checked, returned, _ = _NOTHING if facts is None else self._found.get("checked", _NOTHING)
        is_known = facts is not None and facts == checked
        if not is_known:
            self._check_input(x)
        y = self.fn(self, x)
        if not is_known or getattr(y, "shape", None) != returned:
            self._check_output(y)
            if facts is not None and may_be_remembered(x.shape):
                is_all = self._is_checked_by_shapes and type(self).forward is NamedLinop.forward
                self._found["checked"] = facts, y.shape, is_all
        return y

    def _call_again(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """Return A x, where all weights have the shapes of an earlier call.

        For many small tiles, each of which takes less time than a check: where x has the shape of
        that call, too, no more is checked. The caller is to check the shape of what is returned.
        That is ``out`` where the operator could write into this memory.
        """
        own = self.__dict__
        facts, _, is_all = own["_found"].get("checked", _NOTHING)
        if not is_all or x.shape != facts[0] or is_hooked(own):
            return self(x)
        if out is not None and self._takes_out:
            return self.fn(self, x, out=out)
        return self.fn(self, x)

    def _facts(self, x: Tensor) -> tuple[object, ...]:
        """Return all on which it depends whether x is a right input: its shape and all lengths."""
        return x.shape, self.sizes("input"), self.sizes("output")

    # Derived operators

    @property
    def H(self) -> NamedLinop:
        """The adjoint; made once (:mod:`linops_core.config`), and never out of date.

        It holds the same tensors.
        """
        if is_dynamo_compiling():
            self._make_derived()
        adjoint = self._found.get("adjoint")
        if isinstance(adjoint, weakref.ref):
            adjoint = adjoint()
        if not isinstance(adjoint, NamedLinop):
            adjoint = built(self.adjoint)
            if adjoint is not self and config.cache_adjoint_normal:
                # The way back is weak: an operator of gigabytes must not wait for the
                # collector of cycles to be freed.
                self._found["adjoint"] = adjoint
                adjoint._found["adjoint"] = weakref.ref(self)
        return adjoint

    @property
    def N(self) -> NamedLinop:
        """The normal operator A^H A; made once (:mod:`linops_core.config`)."""
        if is_dynamo_compiling():
            self._make_derived()
        normal = self._found.get("normal")
        if not isinstance(normal, NamedLinop):
            normal = built(self.normal)
            if config.cache_adjoint_normal:
                self._found["normal"] = normal
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
        """The normal operator, under the name other libraries use."""
        return self.N

    def adjoint(self) -> NamedLinop:
        """Return the adjoint A^H: a shallow copy with its functions swapped.

        Raises
        ------
        NotImplementedError
            If the class does not say what the adjoint does.
        """
        if self.adj_fn is NamedLinop.adj_fn:
            self.adj_fn(self, torch.empty(0))  # which says what is missing
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
    def T(self) -> NamedLinop:
        """The transpose, without conjugation: the complex conjugate of the adjoint."""
        return self.H.conj()

    def conj(self) -> NamedLinop:
        r"""Return the complex conjugate :math:`\bar A`: what A does with conjugated weights."""
        return self if self._is_real else rules.conjugate(self)

    def flatten(self) -> list[NamedLinop]:
        """Return the operators of which this one is the composition, first applied first."""
        return [self]

    def without_fftshift(self, dims: Iterable[NamedDimension]) -> NamedLinop | None:
        r"""Return the same operator for data whose first element along ``dims`` is the centre.

        That is :math:`R^H A R`, where R moves the first element of each of ``dims`` to index
        n // 2 of n. None where A would have to move data. A centred Fourier transform uses it to
        leave out its shifts.
        """
        return None

    def along(
        self, dims: Iterable[NamedDimension], ishape: tuple[NamedDimension, ...]
    ) -> NamedLinop | None:
        """Return what the operator does along some dimensions of its grid alone.

        For operators that act along each dimension of a grid by itself, in any order, such as a
        Fourier transform: ranks that each have a part of the grid do so one after the other.

        Parameters
        ----------
        dims : dimensions
            Those of the grid, by their names in the input.
        ishape : tuple of dimensions
            All dimensions of the input of the part. Other dimensions of the grid stay as they are.

        Returns
        -------
        NamedLinop or None
            None where the operator does not act so, which is the default.
        """
        return None

    def normal(self, inner: NamedLinop | None = None) -> NamedLinop:
        """Return A^H A, or A^H inner A.

        Dimensions that a slice cannot follow from the input to the output get a new name in
        the output (N -> N1), so that each can be sliced by itself.

        Parameters
        ----------
        inner : NamedLinop, optional
            An operator from the output space to itself.

        Raises
        ------
        TypeError
            If ``inner`` is no operator.
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

    def _only_surrounds(self) -> bool:
        """Whether A^H inner A is for any ``inner`` but an identity these three, one by one."""
        return type(self).normal is NamedLinop.normal

    def own_normal(self) -> NamedLinop:
        """Return A^H A: to be overridden where that is an operator of another kind."""
        return rules.normal(self, None)

    def resolved(
        self,
        ishape: tuple[NamedDimension, ...] | None = None,
        oshape: tuple[NamedDimension, ...] | None = None,
    ) -> NamedLinop:
        """Return the operator with its wildcards replaced by what they stand for.

        Returns
        -------
        NamedLinop
            The operator itself when there is nothing to replace; else a linked copy.

        Raises
        ------
        ValueError
            If the shape does not match.
        """
        shape = self._shape.resolve(ishape=ishape, oshape=oshape)
        return self if shape == self._shape else self.resolved_to(shape)

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, which is its own with wildcards replaced."""
        return linked(self, shape)

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the same operator for inputs with the dimensions ``dims``, or None.

        Compositions ask for it where neighbours do not fit. An operator that names no ``...``
        does the same to all slices of further dimensions in front, where its class knows how to;
        others find the dimensions that they act on by their names. The copy shares all tensors.
        """
        if not self._takes_any_batch:
            return None
        shape = with_dims_in_front(self._shape, dims)
        return None if shape is None else self._fitted_with(shape)

    def _fitted_with(self, shape: NamedShape) -> NamedLinop | None:
        """Return the copy with ``shape``; to be overridden where more depends on it."""
        return linked(self, shape)

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
            If ``names`` is no mapping.
        """
        if not self._is_renamed_by(names):
            return self
        return linked(self, self._shape.rename(names))

    def totals(self, side: Side) -> Totals | None:
        """Return how numbers of parts of a vector of that side are added up; None if it says not.

        To be overridden by an operator whose vectors are spread over several processes.
        """
        return None

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` in the place of every tensor w that it reads.

        Of a tile, w is the slice of a weight that is its own. What is returned is held as a buffer:
        ``A.with_weights(Tensor.detach)`` holds just the views that A reads, and is what has to
        travel when A is sent elsewhere.
        """
        return with_changed_tensors(self, change)

    def extra_repr(self) -> str:
        """Return what ``repr`` says beside the names of the dimensions: the weights."""
        tensors = {**self._parameters, **self._buffers}
        return ", ".join(tensor_text(name, t) for name, t in tensors.items() if t is not None)

    def __repr__(self) -> str:
        """Return the tree of operators: names, shapes, dtypes, devices and bytes."""
        # Not children(), which names an operand that is used twice only once.
        parts = [part for part in self._modules.values() if isinstance(part, NamedLinop)]
        line = "  ".join(text for text in (self.signature, self.extra_repr()) if text)
        below = [f"  {part_line}" for part in parts for part_line in repr(part).splitlines()]
        return "\n".join([line, *below])

    def _repr_html_(self) -> str:
        """Return the tree as a table for notebooks, with the sizes and roles that are known."""
        known = [(dim, self.role(dim)) for dim in sorted(self.dims) if not is_wildcard(dim)]
        roles = ", ".join(f"{dim} {role}" for dim, role in known if role is not None)
        return html_table(["operator", "input", "output", "weights"], self._html_rows(0), roles)

    def _html_rows(self, depth: int) -> Iterator[list[str]]:
        sides = [dims_text(dims_of(self._shape, side), self.sizes(side)) for side in SIDES]
        yield ["  " * depth + self.name, *sides, self.extra_repr()]
        for part in self._modules.values():
            if isinstance(part, NamedLinop):
                yield from part._html_rows(depth + 1)

    # Slices

    def _gains_by_slices(self) -> bool:
        """Whether slices that fit a processor's cache take less time than the whole."""
        return False

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return the reason why ``dim`` cannot be sliced here, or None when it can."""
        cls = type(self)
        if cls.split is not NamedLinop.split or cls._tiles_at is not NamedLinop._tiles_at:
            return None
        return "the operator does not say how to split it (override split(linop, tile))"

    @overridable
    def split(linop: NamedLinop, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the part of the operator that maps the tile's input to the tile's output.

        Parameters
        ----------
        tile : mapping of dimension to slice
            Dimensions that the operator does not have are ignored; those left out are whole.

        Returns
        -------
        NamedLinop
            Holds views of the weights: cutting allocates no tensor.

        Raises
        ------
        SplitError
            If a dimension is opaque in the operator, or a slice is not within its size.
        """
        window = linop.own_window(tile)
        return next(iter(linop._tiles_at([window]))) if window else linop

    @overridable
    def adj_split(linop: NamedLinop, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the adjoint of the part of the adjoint: what ``split`` is to an ``A.H``."""
        return linop.H.split(linop.H, tile).H

    def tiles_along(self, dim: NamedDimension, pieces: Sequence[slice]) -> list[NamedLinop]:
        """Return the tile of each of the slices of one dimension; the whole is checked once.

        Raises
        ------
        SplitError
            As :func:`tile_of`.
        """
        if self.split is not NamedLinop.split:
            return [tile_of(self, {dim: piece}) for piece in pieces]
        explicit = self._explicit(dim, pieces)
        tiles = iter(self._tiles_at([{dim: piece} for piece in explicit if piece is not None]))
        return [self if piece is None else next(tiles) for piece in explicit]

    def tiles_at(self, windows: Sequence[Window]) -> list[NamedLinop]:
        """Return the tile at each window; checked once where they are of one dimension."""
        dims = {dim for window in windows for dim in window}
        if len(dims) != 1:
            return [tile_of(self, window) for window in windows]
        (dim,) = dims
        return self.tiles_along(dim, [window[dim] for window in windows])

    def _tiles_at(self, windows: Sequence[Window]) -> Iterable[NamedLinop]:
        """Return the tile for each of some windows, which are explicit, checked and not empty.

        What a class of this library overrides in the place of ``split``.
        """
        if windows:
            raise SplitError(f"{self.name}: the class must override split to cut {set(windows[0])}")
        return []

    def split_forward(self, ibatch: Iterable[slice], obatch: Iterable[slice]) -> NamedLinop:
        """Return the part of the operator between slices of its input and of its output.

        Parameters
        ----------
        ibatch, obatch : sequences of slices
            One for each dimension of ``ishape`` and ``oshape``.

        Raises
        ------
        SplitError
            As :meth:`split`; also if a dimension of both sides is given two slices.
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
                        f"{self.signature}: {dim} must have one slice on both "
                        f"sides, got {tile[dim]} and {piece}"
                    )
        return self.split(self, tile)


def tile_of(linop: NamedLinop, window: Window) -> NamedLinop:
    """Return what the operator's ``split`` makes of explicit slices, if it can be a tile.

    Raises
    ------
    SplitError
        As :meth:`NamedLinop.split`; also if it returns no operator, or one between other dimensions
        or of other sizes.
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
                f"{linop.signature}: split must return an operator in which {dim} has the size "
                f"{piece.stop - piece.start} of {piece}, got {tile.size(dim)}"
            )
    return tile
