"""batch_linop: run an operator tile by tile."""

from __future__ import annotations

from collections.abc import Mapping

from linops_core import NamedLinop
from nameddim import ND

from ._batch_sizes import Sizes, slices_along
from ._cutting import Same, cut_into_parts
from ._tiled import Tiled, check_tqdm_kwargs
from ._tiles import Tiles


def batch_linop(
    linop: NamedLinop,
    batch_sizes: Sizes,
    *,
    sizes: Sizes | None = None,
    tqdm_kwargs: Mapping[str, object] | None = None,
) -> NamedLinop:
    """Return an operator equal to ``linop`` that works tile by tile on the same device.

    Besides input and output, only the workspace of one tile is in memory. The normal operator is
    applied tile by tile if possible.

    Parameters
    ----------
    linop : NamedLinop
    batch_sizes, sizes : mapping of dimension to int
        As in :func:`split_linop`; the first dimension is the outermost loop.
    tqdm_kwargs : mapping, optional
        Options for a tqdm progress bar over the tiles of each call, as in ``{"leave": False}``. By
        default there is no bar.

    Returns
    -------
    NamedLinop
        Its tiles refer to the weights of ``linop``; nothing is copied. If there is one tile and no
        size was given, this is ``linop`` itself.

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
    return cut_into_tiles(linop, batch_sizes, sizes, tqdm_kwargs)


def cut_into_tiles(
    linop: NamedLinop,
    batch_sizes: Sizes,
    sizes: Sizes | None = None,
    tqdm_kwargs: Mapping[str, object] | None = None,
    same: Same = lambda tile: tile,
) -> NamedLinop:
    """Return what `batch_linop` returns, with tiles that ``same`` may replace by equal ones."""
    pieces = slices_along(linop, batch_sizes, sizes)
    check_tqdm_kwargs(f"{linop.signature}: batch_linop", tqdm_kwargs)
    given = {ND.infer(dim): size for dim, size in (sizes or {}).items()}
    if all(len(along) == 1 for along in pieces.values()):
        if not given:
            return linop
        return Tiled(Tiles.of(linop), tqdm_kwargs, given, whole=linop)
    tiles = cut_into_parts(linop, pieces, same=same)
    tiled = Tiled(tiles, tqdm_kwargs, given, whole=linop)
    return tiled.as_endomorphism() if linop.is_endomorphism else tiled
