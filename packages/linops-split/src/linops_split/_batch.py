"""Running an operator tile by tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from linops_core import NamedLinop
from nameddim import ND

from ._assemble import assemble
from ._cutting import cut_along
from ._narrowed import narrowed
from ._slices import Sizes, slices_along
from ._tiled import Tiled, check_tqdm_kwargs


def batch_linop(
    linop: NamedLinop,
    batch_sizes: Sizes,
    *,
    sizes: Sizes | None = None,
    tqdm_kwargs: Mapping[str, object] | None = None,
) -> NamedLinop:
    """Return an operator equal to ``linop`` that works tile by tile on the same device.

    What is in memory at a time beside input and output is the workspace of one tile. The
    normal operator runs inside the tiles as far as the mathematics allows.

    Parameters
    ----------
    linop : NamedLinop
    batch_sizes, sizes : mapping of dimension to int
        As in :func:`split_linop`; the first dimension is the outermost loop.
    tqdm_kwargs : mapping, optional
        Options of a progress bar over the tiles of each call, as in ``{"leave": False}``; none is
        shown by default, and none where autograd keeps what the tiles return.

    Returns
    -------
    NamedLinop
        Its tiles refer to the weights of ``linop``: nothing is copied. ``linop`` itself where there
        is one tile and no size was given.

    Raises
    ------
    TypeError, SplitError
        As :func:`split_linop`.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> A = Diagonal(torch.arange(3.0), ("N",))
    >>> batch_linop(A, {"N": 2})(torch.ones(3))
    tensor([0., 1., 2.])
    """
    pieces = slices_along(linop, batch_sizes, sizes)
    check_tqdm_kwargs(linop, tqdm_kwargs)
    tiles = cut_along(linop, pieces)
    given = {ND.infer(dim): size for dim, size in (sizes or {}).items()}
    if tiles.size == 1:
        return Tiled(linop, tqdm_kwargs, given) if given else linop
    for position in np.ndindex(tiles.shape):
        tiles[position] = narrowed(cast(NamedLinop, tiles[position]))
    lengths = {dim: [piece.stop - piece.start for piece in along] for dim, along in pieces.items()}
    whole = assemble(tiles, tuple(pieces), lengths=lengths)
    if linop.is_endomorphism:
        whole = whole.as_endomorphism()
    return Tiled(whole, tqdm_kwargs, given)
