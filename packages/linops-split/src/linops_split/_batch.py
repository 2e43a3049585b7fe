"""Running an operator tile by tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from linops_core import NamedLinop
from nameddim import NamedDimension

from ._assemble import assemble
from ._narrowed import narrowed
from ._split import split_linop, tile_grid, tile_lengths
from ._tiled import Tiled


def batch_linop(
    linop: NamedLinop,
    batch_sizes: Mapping[str, int] | Mapping[NamedDimension, int],
    *,
    tqdm_kwargs: Mapping[str, object] | None = None,
) -> NamedLinop:
    """Return an operator equal to ``linop`` that works tile by tile on the same device.

    What is in memory at a time beside input and output is the workspace of one tile. The
    normal operator runs inside the tiles as far as the mathematics allows.

    Parameters
    ----------
    linop : NamedLinop
    batch_sizes : mapping of dimension to int
        As in :func:`split_linop`; the first dimension is the outermost loop.
    tqdm_kwargs : mapping, optional
        Options of a progress bar over the tiles of each call, as in ``{"leave": False}``; none is
        shown by default.

    Returns
    -------
    NamedLinop
        Its tiles refer to the weights of ``linop``: nothing is copied.

    Raises
    ------
    SplitError
        As :func:`split_linop`.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> A = Diagonal(torch.arange(3.0), ("N",))
    >>> batch_linop(A, {"N": 2})(torch.ones(3))
    tensor([0., 1., 2.])
    """
    grid = tile_grid(linop, batch_sizes)
    tiles, _, _ = split_linop(linop, batch_sizes)
    for position in np.ndindex(tiles.shape):
        tiles[position] = narrowed(cast(NamedLinop, tiles[position]))
    whole = assemble(tiles, tuple(batch_sizes), lengths=tile_lengths(grid))
    return Tiled(whole, tqdm_kwargs)
