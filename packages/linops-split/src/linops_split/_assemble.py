"""Putting together: from a grid of tiles to one operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from linops_core import Add, Concat, NamedLinop, SplitError
from nameddim import ND, NamedDimension


def assemble(
    linops: NDArray[np.object_],
    batch_dims: Sequence[NamedDimension | str],
    *,
    lengths: Mapping[NamedDimension, Sequence[int]] | None = None,
) -> NamedLinop:
    """Return the operator whose tiles are ``linops``.

    A dimension in input and output is concatenated on both sides, one in the input or in the
    output alone on that side; what is left are partial results, which are added.

    Parameters
    ----------
    linops : ndarray of NamedLinop
        One axis per dimension that was cut.
    batch_dims : sequence of dimensions
        Their names, in the order of the axes. The last is put together first.
    lengths : mapping of dimension to sequence of int, optional
        How long the tiles are along each dimension; needed where they do not know it.

    Raises
    ------
    SplitError
        If the number of names is not that of the axes, or there are no tiles.
    TypeError
        If the tiles are in no array, or one is no operator.

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
    if linops.ndim != len(dims) or linops.size == 0:
        raise SplitError(
            f"assemble: there must be one axis of tiles per dimension of "
            f"({', '.join(map(str, dims))}), got tiles of shape {linops.shape}"
        )
    if not dims:
        whole = linops.item()
        if not isinstance(whole, NamedLinop):
            raise TypeError(f"assemble: tiles must be NamedLinops, got {whole!r}")
        return whole
    # linops[k, ...] and not linops[k]: the last axis is to end in an array too.
    tiles = [assemble(linops[k, ...], dims[1:], lengths=lengths) for k in range(len(linops))]
    if len(tiles) == 1:
        return tiles[0]
    dim = dims[0]
    sizes = (lengths or {}).get(dim)
    idim = dim if dim in tiles[0].ishape else None
    odim = dim if dim in tiles[0].oshape else None
    if idim is None and odim is None:
        return Add(*tiles)
    return Concat(*tiles, idim=idim, odim=odim, isizes=sizes, osizes=sizes)
