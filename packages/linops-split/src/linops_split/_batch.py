"""Running an operator tile by tile."""

from __future__ import annotations

from collections.abc import Mapping

from linops_core import NamedLinop
from nameddim import NamedDimension

from ._assemble import assemble
from ._split import split_linop, tile_grid, tile_lengths


def batch_linop(
    linop: NamedLinop, batch_sizes: Mapping[str, int] | Mapping[NamedDimension, int]
) -> NamedLinop:
    """Return an operator equal to ``linop`` that works tile by tile on the same device.

    What is in memory at a time beside input and output is the workspace of one tile. The
    normal operator runs inside the tiles as far as the mathematics allows.

    Parameters
    ----------
    linop : NamedLinop
    batch_sizes : mapping of dimension to int
        As in :func:`split_linop`; the first dimension is the outermost loop.

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
    return assemble(tiles, tuple(batch_sizes), lengths=tile_lengths(grid))
