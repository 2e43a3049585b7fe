"""Fingerprints of the contents of tensors, to detect writes that torch does not count.

A copy to compare with would need the memory of the weights again. If weights that train were sent
in each call instead, autograd would hold one copy for each call.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from linops_core.siblings import made_once_per_call
from memmap import tensor_memory_span

from .._private_torch import FakeTensor, active_fake_mode

_LENGTH = 1 << 15
"""The number of four-byte words that are summed to one number."""


def has_contents(tensor: Tensor) -> bool:
    """Whether there are values to compare; meta and fake tensors have none."""
    is_fake = active_fake_mode() is not None or isinstance(tensor, FakeTensor)
    return not (is_fake or tensor.is_meta)


def fingerprint(tensor: Tensor) -> tuple[int, ...]:
    """Return numbers that change if a byte of the tensor changes; computed once per call.

    The probability that they miss a change is below 2**-31.
    """
    key = "contents", id(tensor)  # which is not used again, as the tensor is kept, too
    return made_once_per_call(key, lambda: (_fingerprint_of(tensor), tensor))[0]


def _fingerprint_of(tensor: Tensor) -> tuple[int, ...]:
    with torch.inference_mode(False), torch.no_grad():
        held = _bytes_of(tensor.detach())
        n_words = len(held) // 4
        words, rest = held[: 4 * n_words].view(torch.int32), held[4 * n_words :]
        n_whole = n_words // _LENGTH * _LENGTH
        factors = _factors().to(tensor.device)
        parts = [words[n_whole:][None], rest[None]]
        # On the host, as many rows as fit into the cache; other devices need larger portions.
        n_rows = 16 if tensor.device.type == "cpu" else 512
        parts += torch.split(words[:n_whole].view(-1, _LENGTH), n_rows)
        sums = [(part * factors[: part.shape[1]]).sum(1) for part in parts]  # modulo 2**64
        return tuple(torch.cat(sums).tolist())


def _bytes_of(tensor: Tensor) -> Tensor:
    """Return the memory of a tensor as bytes; as a copy only if it has wide gaps."""
    span = tensor_memory_span(tensor)
    if span is None:
        return torch.empty(0, dtype=torch.uint8, device=tensor.device)
    n_elements = span[1] + 1 - span[0]
    if n_elements <= 2 * tensor.numel():
        flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        flat.set_(tensor.untyped_storage(), span[0], (n_elements,), (1,))
    else:
        flat = tensor.resolve_conj().resolve_neg().flatten().contiguous()
    held = flat.view(torch.uint8)
    return held.clone() if held.storage_offset() % 4 else held


@cache
def _factors() -> Tensor:
    """Return random 64-bit integers, the same in all processes."""
    generator = torch.Generator().manual_seed(0)
    limits = torch.iinfo(torch.int64)
    return torch.randint(limits.min, limits.max, (_LENGTH,), generator=generator)
