"""Tensors that are made of tensors: sparse, nested and wrapper subclasses, taken apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


class Composite(NamedTuple):
    """The strided tensors that another tensor is made of.

    Attributes
    ----------
    parts : list of torch.Tensor
        They share the memory of the whole.
    names : sequence of str
        What each part is called in its whole.
    assemble : callable
        Makes a tensor like the whole from other parts, which it does not copy.
    has_own : bool
        Whether the whole holds the memory of each part through a tensor of its own, and not
        through the part.
    """

    parts: list[torch.Tensor]
    names: Sequence[str]
    assemble: Callable[[Sequence[torch.Tensor]], torch.Tensor]
    has_own: bool


def take_apart(tensor: torch.Tensor) -> Composite | None:
    """Parts of a tensor without strided memory of its own; None if it cannot be taken apart.

    Examples
    --------
    >>> take_apart(torch.eye(3).to_sparse()).names
    ('indices', 'values')
    """
    if is_traceable_wrapper_subclass(tensor):
        return _take_apart_wrapper(tensor)
    if tensor.layout is torch.sparse_coo:
        return _take_apart_coordinates(tensor)
    if tensor.layout in _COMPRESSED:
        return _take_apart_compressed(tensor)
    if tensor.is_nested:
        return _take_apart_nested(tensor)
    if tensor._is_zerotensor():
        # The zeros of automatic differentiation have no memory that could be shared.
        return Composite([tensor.detach().clone()], ("zeros",), lambda parts: parts[0], False)
    return None


def _take_apart_wrapper(tensor: Any) -> Composite:
    names, context = tensor.__tensor_flatten__()
    sizes, strides = tensor.size(), tensor.stride()

    def assemble(parts: Sequence[torch.Tensor]) -> torch.Tensor:
        inner = dict(zip(names, parts, strict=True))
        made: torch.Tensor = type(tensor).__tensor_unflatten__(inner, context, sizes, strides)
        return made

    return Composite([getattr(tensor, name) for name in names], names, assemble, False)


def _take_apart_coordinates(tensor: torch.Tensor) -> Composite:
    def assemble(parts: Sequence[torch.Tensor]) -> torch.Tensor:
        indices, values = parts
        return torch.sparse_coo_tensor(
            indices,
            values,
            tensor.shape,
            is_coalesced=tensor.is_coalesced(),
            check_invariants=False,
        )

    parts = [tensor._indices(), tensor._values()]
    return Composite(parts, ("indices", "values"), assemble, True)


def _take_apart_compressed(tensor: torch.Tensor) -> Composite:
    def assemble(parts: Sequence[torch.Tensor]) -> torch.Tensor:
        compressed, plain, values = parts
        return torch.sparse_compressed_tensor(
            compressed,
            plain,
            values,
            tensor.shape,
            layout=tensor.layout,
            check_invariants=False,
        )

    names = _COMPRESSED[tensor.layout]
    # As differentiable views, the parts would hold the whole, which then could not be exchanged.
    parts = [getattr(tensor, name)().data for name in names]
    return Composite(parts, names, assemble, True)


def _take_apart_nested(tensor: torch.Tensor) -> Composite:
    # The table of sizes, strides and offsets lies on the host, and nobody writes to it.
    sizes = tensor._nested_tensor_size()
    strides = tensor._nested_tensor_strides()
    offsets = tensor._nested_tensor_storage_offsets()

    def assemble(parts: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch._nested_view_from_buffer(parts[0], sizes, strides, offsets)

    return Composite([tensor.values().data], ("values",), assemble, True)
