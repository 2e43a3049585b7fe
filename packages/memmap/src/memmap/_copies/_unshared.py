"""The fast path for tensors that share no memory with others. Most tensors are of this kind."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .._modules._traverse import FoundTensor
from .._torch import data_address, n_holders
from .._views._address import PLAIN_TENSORS
from .._views._runs import connected_intervals
from ._allocate import HUGE_FROM

# torch has no kernels for numbers of few bits.
_NAMES = [f"{kind}{bits}" for kind in ("uint", "int") for bits in range(1, 8)]
_WITHOUT_CLONES = frozenset(getattr(torch, name) for name in _NAMES if hasattr(torch, name))


def split_unshared(tensors: Sequence[FoundTensor]) -> tuple[list[FoundTensor], list[FoundTensor]]:
    """Split tensors into those that fill a storage alone (a clone copies it) and the others."""
    spans: list[tuple[int, int, int]] = []
    are_filled = [False] * len(tensors)
    for position, (tensor, _, owned) in enumerate(tensors):
        try:
            start, storage = data_address(tensor), tensor.untyped_storage()
        except (RuntimeError, ValueError):  # no strided memory, or none yet
            continue
        nbytes = storage.nbytes()
        spans.append((start, start + nbytes, position))
        are_filled[position] = start != 0 and owned and _fills(tensor, storage, nbytes)
    # Equal addresses on two devices only cost time.
    apart = {component[0][2] for component in connected_intervals(spans) if len(component) == 1}
    unshared: list[FoundTensor] = []
    others: list[FoundTensor] = []
    for position, item in enumerate(tensors):
        (unshared if are_filled[position] and position in apart else others).append(item)
    return unshared, others


def _fills(tensor: torch.Tensor, storage: torch.UntypedStorage, nbytes: int) -> bool:
    """Whether a tensor fills its storage alone, so that a clone copies everything."""
    return (
        nbytes < HUGE_FROM
        and type(tensor) in PLAIN_TENSORS
        and tensor.nbytes == nbytes
        and tensor.is_leaf
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not tensor.is_conj()
        and not tensor.is_quantized
        and tensor.dtype not in _WITHOUT_CLONES
        and n_holders(storage._cdata) == 2  # the tensor, and the Python object
    )
