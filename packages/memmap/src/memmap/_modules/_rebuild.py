"""Building tensors over raw bytes: strided views of them, with their classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

import torch

from .._torch import FakeTensor, of_class, set_bits

T = TypeVar("T", bound=torch.Tensor)


def bytes_of(storage: torch.UntypedStorage, start: int, stop: int) -> torch.Tensor:
    """Some bytes of a storage as a uint8 tensor that shares them."""
    data = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return data.set_(storage, start, (stop - start,), (1,))


def strided(
    data: torch.Tensor,
    offset: int,
    sizes: Sequence[int],
    strides: Sequence[int],
    empty: torch.Tensor,
) -> torch.Tensor:
    """Turn `empty` into a strided view of bytes from `offset` on; strides count its elements."""
    storage = data.untyped_storage()
    offset += int(data.storage_offset())
    misfit = offset % empty.itemsize
    if misfit:
        # Foreign memory may start at any byte, but torch counts offsets in whole elements.
        storage = storage[misfit:]
    return empty.set_(storage, offset // empty.itemsize, sizes, strides)


def view_like(
    source: torch.Tensor,
    data: torch.Tensor,
    offset: int,
    strides: Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """The same view as `source`, with conjugate and negative bits, over other bytes.

    The result has no history. It is a plain tensor, unless `source` is a fake tensor.
    """
    device = data.untyped_storage().device  # a fake tensor itself reports another device
    if source.is_quantized:
        empty = torch.empty_quantized([0] * source.dim(), source, device=device)
    else:
        empty = torch.empty(0, dtype=dtype or source.dtype, device=device)
    tensor = strided(data, offset, source.shape, strides or source.stride(), empty)
    set_bits(tensor, source.is_conj(), source.is_neg())
    if isinstance(source, FakeTensor):
        pretended = data if isinstance(data, FakeTensor) else source
        return FakeTensor(source.fake_mode, tensor, pretended.device)
    return tensor


def with_class_of(plain: torch.Tensor, source: T) -> T:
    """Turn a plain tensor into the class of `source`, which requires the same gradient."""
    cls = type(source)
    if type(plain) is not cls:
        made = of_class(cls, plain, source.requires_grad)
    else:
        made = cast(T, plain.requires_grad_() if source.requires_grad else plain)
    if source.requires_grad and source.is_leaf and source.grad_dtype is not source.dtype:
        made.grad_dtype = source.grad_dtype
    return made
