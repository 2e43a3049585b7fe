"""The interval of elements that a tensor spans in its storage."""

from __future__ import annotations

import torch

from ._address import view_of
from ._arrays import Array
from ._view import View


def tensor_memory_span(tensor: torch.Tensor | Array | View) -> tuple[int, int] | None:
    """First and last element of its storage that a tensor touches.

    Parameters
    ----------
    tensor : torch.Tensor, numpy.ndarray or View
        One strided tensor.

    Returns
    -------
    tuple of int or None
        Positions of the first and of the last element, both inclusive, counted in elements of the
        tensor's type from the start of its storage; None for a tensor without elements.

    Raises
    ------
    TypeError
        If the argument has no strided memory (see `view_of`).
    ValueError
        If an element lies outside its storage, or not a whole number of elements from its start.

    Examples
    --------
    >>> x = torch.zeros(4, 5)
    >>> tensor_memory_span(x[1:3, ::2]), tensor_memory_span(x[:0])
    ((5, 14), None)
    """
    view = view_of(tensor)
    span = view.span
    if span is None:
        return None
    first, stop = span[0] - view.storage_address, span[1] - view.storage_address
    if first % view.itemsize:
        raise ValueError(
            f"tensor_memory_span: elements must lie whole elements from the start of their "
            f"storage, got a view of {view.itemsize}-byte elements at byte {first}"
        )
    return first // view.itemsize, stop // view.itemsize - 1
