"""assemble: from a grid of tiles to one operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from linops_core import NamedLinop, SplitError
from linops_core.siblings import is_size, same_space
from nameddim import ND, NamedDimension, NamedShape

from ._tiled import Tiled
from ._tiles import Part, Tiles

Lengths: TypeAlias = Mapping[str, Sequence[int]] | Mapping[NamedDimension, Sequence[int]]
"""The length of each tile along each of some dimensions."""


def assemble(
    linops: NDArray[np.object_],
    batch_dims: Sequence[NamedDimension | str],
    *,
    lengths: Lengths | None = None,
) -> NamedLinop:
    """Return the operator that consists of some tiles.

    A dimension in input and output is concatenated on both sides; one in only the input or only the
    output is concatenated on that side. All other tiles give partial results, which are added.

    Parameters
    ----------
    linops : ndarray of NamedLinop
        One axis per dimension that was cut.
    batch_dims : sequence of dimensions
        Their names, in the order of the axes. Results are summed in the order of the array.
    lengths : mapping of dimension to sequence of int, optional
        The length of each tile along each dimension; needed only if the tiles do not know it.

    Returns
    -------
    NamedLinop
        The tile itself if there is only one, otherwise a :class:`Tiled`.

    Raises
    ------
    SplitError
        If the names are not one for each axis, if there are no tiles, or if the length of a tile
        is not known, or ``lengths`` has others than a positive integer for each tile.
    TypeError
        If the tiles are not in an array, one is not an operator, or ``lengths`` is not a mapping.
    ValueError
        If the tiles have different shapes, or their sizes do not fit.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> from linops_split import split_linop
    >>> A = Diagonal(torch.arange(6.0).reshape(2, 3), ("Nx", "Ny"))
    >>> tiles, _, _ = split_linop(A, {"Ny": 2, "Nx": 1})
    >>> torch.equal(assemble(tiles, ("Ny", "Nx"))(torch.ones(2, 3)), A(torch.ones(2, 3)))
    True
    """
    if not isinstance(linops, np.ndarray):
        raise TypeError(f"assemble: linops must be an array of tiles, got {type(linops)}")
    dims = [ND.infer(dim) for dim in batch_dims]
    if linops.ndim != len(dims) or len({*dims}) < len(dims) or linops.size == 0:
        raise SplitError(
            f"assemble: there must be one axis of tiles per dimension of "
            f"({', '.join(map(str, dims))}), got tiles of shape {linops.shape}"
        )
    known: Lengths = {} if lengths is None else lengths
    _check_lengths(known, dict(zip(dims, linops.shape, strict=True)))
    tiles = same_space("assemble", [*linops.flat], frozenset(dims))
    if len(tiles) == 1:
        return tiles[0]
    grid = np.empty(linops.shape, dtype=object)
    for position, tile in zip(np.ndindex(linops.shape), tiles, strict=True):
        grid[position] = tile  # one by one, because NumPy would unpack compositions
    pieces = {}
    for axis, dim in enumerate(dims):
        if grid.shape[axis] > 1 and (along := _slices(dim, grid, axis, known.get(dim))):
            pieces[dim] = along
    parts = [
        Part(
            tile,
            {dim: pieces[dim][position[axis]] for axis, dim in enumerate(dims) if pieces.get(dim)},
        )
        for position, tile in np.ndenumerate(grid)
    ]
    whole = {dim: along[-1].stop for dim, along in pieces.items()}
    shape = NamedShape(tiles[0].ishape, tiles[0].oshape)
    return Tiled(Tiles(shape, parts, whole).without_zeros())


def _check_lengths(lengths: Lengths, n_tiles: Mapping[NamedDimension, int]) -> None:
    """Raise if lengths are not those of the tiles along each dimension."""
    if not isinstance(lengths, Mapping):
        raise TypeError(
            f"assemble: lengths must be a mapping of dimension to lengths, got {lengths!r}"
        )
    for dim, given in lengths.items():
        along, n = np.array(given, dtype=object), n_tiles.get(ND.infer(dim))
        if along.shape != (n,) or not all(map(is_size, along)):
            raise SplitError(
                f"assemble: lengths of {dim} must be positive integers, one for each of "
                f"{n or 'no'} tiles along it, got {given!r}"
            )


def _slices(
    dim: NamedDimension, grid: NDArray[np.object_], axis: int, given: Sequence[int] | None
) -> list[slice]:
    """Return the slice of each tile along a dimension; empty for inner ones of unknown size."""
    rows = np.moveaxis(grid, axis, 0).reshape(grid.shape[axis], -1)
    lengths = list[int]()
    for number, row in enumerate(rows):
        sizes = {size for tile in row if (size := tile.size(dim)) is not None}
        if given is not None:
            sizes.add(given[number])
        if len(sizes) > 1:
            raise ValueError(
                f"assemble: {dim} must have one size in all tiles at position {number} along it, "
                f"got {sorted(sizes)}"
            )
        lengths += sizes
    first: NamedLinop = grid.item(0)
    if len(lengths) < len(rows):
        if dim not in first.shape.dims:
            return []
        raise SplitError(
            f"assemble: the size of {dim} in each tile must be known, got {first.signature}, which "
            f"does not know it; give it, as in lengths={{'{dim}': [4, 4]}}"
        )
    return [slice(stop - n, stop) for n, stop in zip(lengths, accumulate(lengths), strict=True)]
