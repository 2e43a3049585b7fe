"""How operators are cut: what every operator has to say of slices of its dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from nameddim import ND, NamedDimension, is_wildcard

from ._roles import Role, membership
from ._sides import size_of_both
from ._tile import SplitError, Window, normalized_slice

if TYPE_CHECKING:
    from ._linop import NamedLinop


class Slicing:
    """The slicing of operators, for :class:`NamedLinop` to inherit.

    ``self`` is typed Any: it is always a NamedLinop, which a class that this one inherits from
    cannot say.
    """

    def why_opaque(self: Any, dim: NamedDimension | str) -> str | None:
        """Return the reason why ``dim`` cannot be sliced here, or None when it can."""
        if type(self).split is not Slicing.split:
            return None
        return "the operator does not say how to split it (override split(linop, tile))"

    def role(self: Any, dim: NamedDimension | str) -> Role | None:
        """Return how ``dim`` behaves here, or None if the operator does not have it."""
        dim = ND.infer(dim)
        if dim not in self.dims:
            return None
        if self.why_opaque(dim) is not None:
            return Role.OPAQUE
        return membership(self.shape, dim)

    def support(self: Any, dim: NamedDimension | str) -> slice | None:
        """Return the slice of ``dim`` outside of which the operator neither reads nor writes.

        Outside of it the input does not matter and the output is zero, so that the operator is
        ``A.split(A, {dim: A.support(dim)})`` with zeros around: what has to be at hand for a tile
        is its support alone, the halo included. All supports hold together.

        Returns
        -------
        slice or None
            With both ends. Empty if the operator is known to be zero, which is no slice to split
            along. None where it is all, or not known, and where ``dim`` cannot be sliced.

        Examples
        --------
        >>> from linops_core import PadLast
        >>> PadLast([6], [2]).support("Nx1")
        slice(2, 4, None)
        """
        return None

    def _supports(self: Any, dims: Iterable[NamedDimension]) -> dict[NamedDimension, slice | None]:
        """Return the supports of several dimensions, for who finds them all at once to override."""
        return {dim: self.support(dim) for dim in dims}

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
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
        if window := linop.own_window(tile):
            raise SplitError(f"{linop.name}: the class must override split to cut {set(window)}")
        return linop  # type: ignore[no-any-return]

    @staticmethod
    def adj_split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the adjoint of the part of the adjoint: what ``split`` is to an ``A.H``."""
        return linop.H.split(linop.H, tile).H  # type: ignore[no-any-return]

    def own_window(self: Any, tile: Mapping[NamedDimension, slice]) -> Window:
        """Return the slices of ``tile`` that concern this operator, explicit and checked.

        Raises
        ------
        SplitError
            As :meth:`split`.
        """
        window: dict[NamedDimension, slice] = {}
        for name, piece in tile.items():
            dim = ND.infer(name)
            (explicit,) = self.own_pieces(dim, (piece,))
            if explicit is not None:
                window[dim] = explicit
        return window

    def own_pieces(self: Any, dim: NamedDimension, pieces: Sequence[slice]) -> list[slice | None]:
        """Return slices of one dimension, explicit and checked; None for those that cut nothing.

        Raises
        ------
        SplitError
            As :meth:`split`.
        """
        has_name = dim in self._shape.dims or dim in self.dims
        if not has_name and not is_wildcard(dim):
            return [None] * len(pieces)
        try:
            size = size_of_both(self, dim)
            explicit = [normalized_slice(piece, size) for piece in pieces]
        except SplitError as error:
            raise SplitError(f"{self.signature}: {dim}: {error}") from None
        cut = next((piece for piece in explicit if piece is not None), None)
        if cut is not None:
            if not has_name:
                raise SplitError(
                    f"{self.signature}: {dim} must have a name to be split along, got {cut}"
                )
            if (reason := self.why_opaque(dim)) is not None:
                raise SplitError(f"{self.signature}: {dim} cannot be split: {reason}")
        return explicit

    def tiles_along(self: Any, dim: NamedDimension, pieces: Sequence[slice]) -> list[NamedLinop]:
        """Return the tile of each of the slices of one dimension.

        What has to be checked of the whole is checked once, not once for each tile.

        Raises
        ------
        SplitError
            As :func:`tile_of`.
        """
        if self.split is not self._split_of_row:
            return [tile_of(self, {dim: piece}) for piece in pieces]
        own = self.own_pieces(dim, pieces)
        tiles = iter(self._row(dim, [piece for piece in own if piece is not None]))
        return [self if piece is None else next(tiles) for piece in own]

    _split_of_row: ClassVar[Any] = None
    """The ``split`` that does for one tile what ``_row`` does for many."""

    def _row(self: Any, dim: NamedDimension, pieces: Sequence[slice]) -> Iterable[NamedLinop]:
        """Return the tile of each of some slices, which are explicit and checked.

        To be overridden, together with ``_split_of_row``, by operators that can do for all at once
        what they do for each.
        """
        raise NotImplementedError(f"{self.name}: the class must override _row to cut along {dim}")

    def split_forward(self: Any, ibatch: Iterable[slice], obatch: Iterable[slice]) -> NamedLinop:
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
        return self.split(self, tile)  # type: ignore[no-any-return]


def row_of_operand(
    linop: NamedLinop, dim: NamedDimension, pieces: Sequence[slice]
) -> Sequence[NamedLinop | None]:
    """Return the tiles of an operand of a sum, None where it adds nothing.

    The tiles of an inner dimension add up to the whole, so an operand without that dimension
    belongs to one tile alone: to the one that starts at 0.
    """
    if dim in linop.dims:
        return linop.tiles_along(dim, pieces)
    return [linop if piece.start == 0 else None for piece in pieces]


def tile_of(linop: Any, window: Window) -> NamedLinop:
    """Return what the operator's ``split`` makes of explicit slices, if it can be a tile.

    Operators that users write are asked for their parts too, and a part that is none would only be
    seen where it is applied, or not at all.

    Raises
    ------
    SplitError
        As :meth:`NamedLinop.split`; also if it returns no operator, or one between other dimensions
        or of other sizes.
    """
    tile = linop.split(linop, window)
    if not isinstance(tile, Slicing):
        raise SplitError(f"{linop.signature}: split must return a NamedLinop, got {tile!r}")
    found: Any = tile
    names, own = found.shape, linop.shape
    if names is not own and (names.ishape, names.oshape) != (own.ishape, own.oshape):
        raise SplitError(
            f"{linop.signature}: split must return an operator between the same dimensions, "
            f"got {found.signature}"
        )
    for dim, piece in window.items():
        if dim in own.dims and found.size(dim) not in (None, piece.stop - piece.start):
            raise SplitError(
                f"{linop.signature}: split must return an operator in which {dim} has the size "
                f"{piece.stop - piece.start} of {piece}, got {found.size(dim)}"
            )
    return found  # type: ignore[no-any-return]
