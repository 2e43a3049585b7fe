"""split_linop: from an operator and batch sizes to a grid of tiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from linops_core import NamedLinop
from nameddim import NamedDimension

from ._batch_sizes import Sizes, slices_along
from ._cutting import Pieces, grid_of, tiles_between

Tile: TypeAlias = Mapping[NamedDimension, tuple[int, slice]]
"""For each dimension that is cut: the position of a tile along it, and its slice."""


def tile_grid(
    linop: NamedLinop, batch_sizes: Sizes, *, sizes: Sizes | None = None
) -> NDArray[np.object_]:
    """Return the positions and slices of all tiles, without cutting the operator.

    All arguments are checked here, before any tile is made.

    Parameters
    ----------
    linop : NamedLinop
    batch_sizes : mapping of dimension to int
        The length of a tile in each dimension. The last tile may be shorter. A size larger than the
        dimension gives one tile, and so does an empty dimension.
    sizes : mapping of dimension to int, optional
        Sizes of dimensions that the operator does not know, such as the batch of an FFT.

    Returns
    -------
    ndarray of Tile
        One axis per dimension of ``batch_sizes``, in its order.

    Raises
    ------
    TypeError
        If ``linop`` is not an operator, or the sizes are not mappings.
    SplitError
        If the operator does not have a dimension, cannot be cut along it or does not know its
        size; if a batch size is not a positive integer; or if a given size differs from the known
        one.
    """
    pieces = slices_along(linop, batch_sizes, sizes)
    positions = product(*map(enumerate, pieces.values()))
    return grid_of([dict(zip(pieces, position, strict=True)) for position in positions], pieces)


def split_linop(
    linop: NamedLinop, batch_sizes: Sizes, *, sizes: Sizes | None = None
) -> tuple[NDArray[np.object_], NDArray[np.object_], NDArray[np.object_]]:
    """Cut an operator into tiles. This allocates no tensor.

    Parameters
    ----------
    linop : NamedLinop
    batch_sizes, sizes : mapping of dimension to int
        As in :func:`tile_grid`.

    Returns
    -------
    linops : ndarray of NamedLinop
        The tiles, one axis per dimension of ``batch_sizes``, in its order.
    ibatches, obatches : ndarrays of list of slice
        The place of each tile in the input and in the output of the whole: one slice per dimension
        of ``ishape`` and ``oshape``.

    Raises
    ------
    TypeError, SplitError
        As :func:`tile_grid`; also if ``split`` of an operator returns something that is not a tile.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> A = Diagonal(torch.arange(6.0).reshape(2, 3), ("Nx", "Ny"))
    >>> linops, ibatches, obatches = split_linop(A, {"Ny": 2})
    >>> linops[1](torch.ones(2, 1)).flatten()
    tensor([2., 5.])
    >>> ibatches[1]
    [slice(None, None, None), slice(2, 3, None)]
    """
    pieces = slices_along(linop, batch_sizes, sizes)
    linops = grid_of(tiles_between(linop, pieces), pieces)
    return linops, _batches(linop.ishape, pieces), _batches(linop.oshape, pieces)


def _batches(names: tuple[NamedDimension, ...], pieces: Pieces) -> NDArray[np.object_]:
    """Return the slices of all ``names`` for each tile."""
    windows = [dict(zip(pieces, window, strict=True)) for window in product(*pieces.values())]
    return grid_of([[w.get(dim, slice(None)) for dim in names] for w in windows], pieces)


def tile_lengths(grid: NDArray[np.object_]) -> dict[NamedDimension, list[int]]:
    """Return the lengths of the tiles of ``grid`` along each dimension.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> tile_lengths(tile_grid(Diagonal(torch.ones(5), ("N",)), {"N": 2}))
    {'N': [2, 2, 1]}
    """
    lengths: dict[NamedDimension, dict[int, int]] = {}
    for tile in cast(Iterable[Tile], grid.flat):
        for dim, (position, piece) in tile.items():
            lengths.setdefault(dim, {})[position] = piece.stop - piece.start
    return {dim: [*along.values()] for dim, along in lengths.items()}
