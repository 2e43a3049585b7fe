"""Taking apart tensors made of tensors: sparse, nested and wrapper subclasses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.parameter import is_lazy

from .._torch import nested_from, shows_its_parts
from .._views._address import view_of
from .._views._view import View

_COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


class CompositeTensor(NamedTuple):
    """The strided tensors that another tensor is made of; they share its memory.

    `assemble` makes a tensor like the whole from other parts, without copying them. `has_own`
    says whether the whole holds the memory of each part through its own tensor, rather than
    through the part.
    """

    parts: list[torch.Tensor]
    names: Sequence[str]
    assemble: Callable[[Sequence[torch.Tensor]], torch.Tensor]
    has_own: bool


def memory_of(tensor: torch.Tensor) -> View | CompositeTensor | None:
    """Where a strided tensor lies, or the parts of another one; None if it shows neither."""
    if is_lazy(tensor):
        return None
    try:
        return view_of(tensor)
    except TypeError:
        return take_apart(tensor)


def take_apart(tensor: Any) -> CompositeTensor | None:
    """Parts of a tensor without its own strided memory; None if it cannot be taken apart."""
    if shows_its_parts(tensor):
        names, context = tensor.__tensor_flatten__()
        size, stride, unflatten = tensor.size(), tensor.stride(), type(tensor).__tensor_unflatten__
        inner = {name: getattr(tensor, name) for name in names}
        # The mesh of a distributed tensor is no tensor; the new tensor shares it.
        names = [name for name in names if isinstance(inner[name], torch.Tensor)]
        return CompositeTensor(
            [inner[name] for name in names],
            names,
            lambda parts: unflatten(
                inner | dict(zip(names, parts, strict=True)), context, size, stride
            ),
            False,
        )
    if tensor.layout is torch.sparse_coo:
        return CompositeTensor(
            [tensor._indices(), tensor._values()],
            ("indices", "values"),
            lambda parts: torch.sparse_coo_tensor(
                parts[0],
                parts[1],
                tensor.shape,
                is_coalesced=tensor.is_coalesced(),
                check_invariants=False,
            ),
            True,
        )
    if tensor.layout in _COMPRESSED:
        names = _COMPRESSED[tensor.layout]
        return CompositeTensor(
            # Differentiable views would hold the whole, and it could not be exchanged.
            [getattr(tensor, name)().data for name in names],
            names,
            lambda parts: torch.sparse_compressed_tensor(
                parts[0],
                parts[1],
                parts[2],
                tensor.shape,
                layout=tensor.layout,
                check_invariants=False,
            ),
            True,
        )
    if tensor.is_nested:
        # The table of sizes, strides and offsets is on the host and never changes.
        sizes, strides = tensor._nested_tensor_size(), tensor._nested_tensor_strides()
        offsets = tensor._nested_tensor_storage_offsets()
        return CompositeTensor(
            [tensor.values().data],
            ("values",),
            lambda parts: nested_from(parts[0], sizes, strides, offsets),
            True,
        )
    if tensor._is_zerotensor():
        # The zeros of automatic differentiation have no memory that could be shared.
        return CompositeTensor([tensor.detach().clone()], ("zeros",), lambda parts: parts[0], False)
    return None
