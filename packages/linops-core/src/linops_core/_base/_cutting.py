"""Tiles of operators: slices of their dimensions, explicit and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from nameddim import ND, NamedDimension, is_wildcard

from ._arithmetic import rules
from ._dimensions import SIDES, DimensionedModule, dims_of
from ._tile import SplitError, Window, normalized_slice

if TYPE_CHECKING:
    from ._linop import NamedLinop

Result = TypeVar("Result")


def overridable(function: Callable[..., Result]) -> Callable[..., Result]:
    """Make a static method that subclasses override with one for their own class."""
    return staticmethod(function)


class Slicing(DimensionedModule):
    """Slices of operators, for :class:`NamedLinop` to inherit."""

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return the reason why ``dim`` cannot be sliced here, or None when it can."""
        cls = type(self)
        if cls.split is not Slicing.split or cls._tiles_at is not Slicing._tiles_at:
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
            It holds views of the weights: cutting allocates no tensor. If your ``split`` makes an
            operator from slices of the weights, compositions and tiled operators call it again
            whenever a weight has changed.

        Raises
        ------
        TypeError
            If ``tile`` is not a mapping.
        SplitError
            If a dimension is opaque in the operator, or a slice is not within its size.
        """
        window = own_window(linop, tile)
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
        whole = cast("NamedLinop", self)
        if self.split is not Slicing.split:
            return [tile_of(whole, {dim: piece}) for piece in pieces]
        explicit = explicit_slices(self, dim, pieces)
        tiles = iter(self._tiles_at([{dim: piece} for piece in explicit if piece is not None]))
        return [whole if piece is None else next(tiles) for piece in explicit]

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
        return self.split(self, window_between(self, tuple(ibatch), tuple(obatch)))


def own_window(linop: DimensionedModule, tile: Mapping[NamedDimension, slice]) -> Window:
    """Return the slices of ``tile`` that concern this operator, explicit and checked.

    Raises
    ------
    TypeError
        If ``tile`` is not a mapping.
    SplitError
        As ``split``.
    """
    if not isinstance(tile, Mapping):
        raise TypeError(
            f"{linop.signature}: a tile must be a mapping of dimensions to slices, got {tile!r}"
        )
    window: dict[NamedDimension, slice] = {}
    for name, piece in tile.items():
        dim = ND.infer(name)
        (explicit,) = explicit_slices(linop, dim, (piece,))
        if explicit is not None:
            window[dim] = explicit
    return window


def explicit_slices(
    linop: DimensionedModule, dim: NamedDimension, pieces: Sequence[slice]
) -> Sequence[slice | None]:
    """Return explicit, checked slices of one dimension; None for the whole dimension."""
    has_name = dim in linop._shape.dims or dim in linop.dims
    if not has_name and not is_wildcard(dim):
        return [None] * len(pieces)
    try:
        size = _size_to_cut(linop, dim)
        explicit = [normalized_slice(piece, size) for piece in pieces]
    except SplitError as error:
        raise SplitError(f"{linop.signature}: {dim}: {error}") from None
    cut = next((piece for piece in explicit if piece is not None), None)
    if cut is not None:
        if not has_name:
            raise SplitError(
                f"{linop.signature}: {dim} must have a name to be split along, got {cut}"
            )
        if (reason := linop.why_opaque(dim)) is not None:
            raise SplitError(f"{linop.signature}: {dim} cannot be split: {reason}")
    return explicit


def _size_to_cut(linop: DimensionedModule, dim: NamedDimension) -> int | None:
    """Return the length of ``dim``, or None if it is not known or differs between the sides."""
    sizes = {
        linop.sizes(side)[names.index(dim)]
        for side in SIDES
        if dim in (names := dims_of(linop.shape, side))
    }
    if not sizes:
        return linop.size(dim)
    return sizes.pop() if len(sizes) == 1 else None


def window_between(
    linop: DimensionedModule, ibatch: Sequence[slice], obatch: Sequence[slice]
) -> Window:
    """Return the slice of each dimension, given those of the input and those of the output.

    Raises
    ------
    SplitError
        If there is not one for each dimension, or a dimension of both sides has two.
    """
    tile: dict[NamedDimension, slice] = {}
    for side, names, pieces in (
        ("input", linop.ishape, ibatch),
        ("output", linop.oshape, obatch),
    ):
        if len(pieces) != len(names):
            raise SplitError(
                f"{linop.signature}: one slice must be given for each "
                f"{side} dimension, got {len(pieces)}"
            )
        for dim, piece in zip(names, pieces, strict=True):
            if tile.setdefault(dim, piece) != piece:
                raise SplitError(
                    f"{linop.signature}: {dim} must have the same slice on both "
                    f"sides, got {tile[dim]} and {piece}"
                )
    return tile


def tiles_at(linop: NamedLinop, windows: Sequence[Window]) -> list[NamedLinop]:
    """Return the tile at each window; windows of one dimension are checked once."""
    dims = {dim for window in windows for dim in window}
    if len(dims) != 1:
        return [tile_of(linop, window) for window in windows]
    (dim,) = dims
    return linop.tiles_along(dim, [window[dim] for window in windows])


def tile_of(linop: NamedLinop, window: Window) -> NamedLinop:
    """Return ``linop.split(linop, window)``, after a check that it is a tile.

    If the tile holds tensors of its own, return one that follows the weights.

    Raises
    ------
    SplitError
        As ``split``; also if the result is not an operator, has other dimensions or sizes, or holds
        tensors through which no gradient reaches the weights.
    """
    tile = linop.split(linop, window)
    if not isinstance(tile, DimensionedModule):
        raise SplitError(f"{linop.signature}: split must return a NamedLinop, got {tile!r}")
    names, dims = tile.shape, linop.shape
    if names is not dims and (names.ishape, names.oshape) != (dims.ishape, dims.oshape):
        raise SplitError(
            f"{linop.signature}: split must return an operator between the same dimensions, "
            f"got {tile.signature}"
        )
    for dim, piece in window.items():
        if dim in dims.dims and tile.size(dim) not in (None, piece.stop - piece.start):
            raise SplitError(
                f"{linop.signature}: split must return an operator in which {dim} has size "
                f"{piece.stop - piece.start} for {piece}, got {tile.size(dim)}"
            )
    return (
        tile
        if linop.split is Slicing.split
        else rules.tile_that_follows_weights(linop, window, tile)
    )
