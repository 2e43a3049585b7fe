"""Brute force: the bytes that tensors touch, share and hold, listed one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import torch

from .._views._arrays import Array
from .._views._view import View


def touched_bytes(tensor: torch.Tensor | Array | View) -> list[int]:
    """Address of every byte of every element, listed one by one.

    This is the definition of a view. A byte that two elements share is listed twice.

    Parameters
    ----------
    tensor : torch.Tensor, numpy.ndarray or View
        A small one. A tensor must have addresses (be neither meta nor copy-on-write).

    Examples
    --------
    >>> touched_bytes(View("RAM", 0, 9, sizes=(2, 2), strides=(1, 4), itemsize=2))
    [0, 1, 4, 5, 1, 2, 5, 6]
    """
    sizes: Sequence[int]
    if isinstance(tensor, View):
        start, itemsize = tensor.storage_address + tensor.offset, tensor.itemsize
        sizes, strides = tensor.sizes, tensor.strides
    elif isinstance(tensor, np.ndarray):
        start, itemsize = tensor.ctypes.data, tensor.itemsize
        sizes, strides = tensor.shape, tensor.strides
    else:
        itemsize = tensor.element_size()
        start = tensor.untyped_storage().data_ptr() + int(tensor.storage_offset()) * itemsize
        sizes, strides = tensor.shape, tuple(stride * itemsize for stride in tensor.stride())
    return [
        start + sum(i * stride for i, stride in zip(index, strides, strict=True)) + byte
        for index in product(*map(range, sizes))
        for byte in range(itemsize)
    ]


def sharing_of(tensors: Iterable[torch.Tensor], scale: int = 1) -> list[list[int]]:
    """Byte numbers that are equal for two lists of tensors that share memory in the same way.

    For each tensor, lists the bytes of its elements, numbered in the order in which they are met.

    Parameters
    ----------
    tensors : iterable of torch.Tensor
        Small ones, with addresses or on the meta device.
    scale : int, optional
        Count each byte this many times, to compare with tensors cast to a wider type.

    Examples
    --------
    >>> x = torch.zeros(6, dtype=torch.uint8)
    >>> sharing_of([x[:3], x[2:4]]), sharing_of([x[1:2]], scale=2)
    ([[0, 1, 2], [2, 3]], [[0, 1]])
    """
    numbers: dict[tuple[object, int, int], int] = {}
    listed = []
    for tensor in tensors:
        storage = tensor.untyped_storage()
        space = storage._cdata if tensor.is_meta else None
        bytes_met = [(space, at, part) for at in touched_bytes(tensor) for part in range(scale)]
        listed.append([numbers.setdefault(byte, len(numbers)) for byte in bytes_met])
    return listed


def content_of(tensor: torch.Tensor) -> bytes:
    """Bytes of every element of a small tensor on the CPU, as they lie in memory.

    Examples
    --------
    >>> content_of(torch.tensor([1, 258, 3], dtype=torch.int16)[::2]).hex()
    '01000300'
    """
    storage = tensor.untyped_storage()
    memory = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    start = storage.data_ptr()
    return bytes(memory[at - start] for at in touched_bytes(tensor))


def allocated_nbytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of all storages of some strided tensors, each storage counted once.

    Examples
    --------
    >>> x = torch.zeros(6)
    >>> allocated_nbytes([x[:3], x[2:4], torch.zeros(1)])
    28
    """
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in tensors}
    return sum(storage.nbytes() for storage in storages.values())
