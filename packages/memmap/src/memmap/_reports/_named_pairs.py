"""Overlapping pairs among tensors in a list, or by name in a module or a mapping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import overload

import torch

from .._modules._named import Source
from .._views import _pairs
from .._views._arrays import Array
from .._views._view import View
from ._numbers import entries_of


@overload
def overlapping_pairs(tensors: Source) -> list[tuple[str, str]]: ...
@overload
def overlapping_pairs(tensors: Iterable[torch.Tensor | Array | View]) -> list[tuple[int, int]]: ...
def overlapping_pairs(
    tensors: Iterable[torch.Tensor | Array | View] | Source,
) -> list[tuple[int, int]] | list[tuple[str, str]]:
    """Pairs of tensors that share at least one byte, exactly.

    Slices of one tensor are compared as boxes of a grid. Other views are tested one by one if the
    smallest boxes around them meet. For N slices of one storage, the time is about the time to sort
    N numbers and to list the pairs.

    Parameters
    ----------
    tensors : iterable of torch.Tensor, numpy.ndarray or View; or torch.nn.Module or mapping
        Strided tensors on any devices. Raises the errors of `footprint`. The tensors of a module
        or a mapping are named as in a `MemoryReport`, and tied tensors are a pair. Tensors made of
        tensors are compared by their parts. Raises `TypeError` if the memory of one is unknown.

    Returns
    -------
    list of (int, int) or of (str, str)
        Positions ``i < j``, ascending; of a module or a mapping, pairs of names.

    Examples
    --------
    >>> x = torch.zeros(4, 4)
    >>> overlapping_pairs([x[0], x[1], x[:, 0], torch.zeros(2)])
    [(0, 2), (1, 2)]
    >>> overlapping_pairs({"row": x[0], "column": x[:, 0], "state": {"step": torch.zeros(2)}})
    [('row', 'column')]
    """
    if not isinstance(tensors, (torch.nn.Module, Mapping)):
        return _pairs.overlapping_pairs(tensors)
    entries = entries_of(tensors)
    if entries.unplaced:
        raise TypeError(
            f"overlapping_pairs: {entries.unplaced[0]}: a tensor must have a known place in memory"
        )
    named = [(name, entry.view) for entry in entries.placed for name in entry.names]
    pairs = _pairs.overlapping_pairs(view for _, view in named)
    return [(named[first][0], named[second][0]) for first, second in pairs]
