"""Random vectors for an operator."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral

import torch
from torch import Generator, Tensor

from .._base._linop import NamedLinop
from .._base._sizes import input_lengths
from .._kernels._dtype import promoted
from ._checks import Operator, check_vector


def random_like(x: Tensor, generator: Generator | None = None, count: int | None = None) -> Tensor:
    """Return normal numbers of the shape of x, or ``count`` rows of as many; seed 0 by default."""
    shape = x.shape if count is None else (count, x.numel())
    generator = generator or Generator().manual_seed(0)
    # Drawn on the CPU, whatever the default device, so that a seed means the same everywhere.
    return torch.randn(shape, dtype=x.dtype, generator=generator, device="cpu").to(x.device)


def input_or_random(
    owner: str, A: Operator, name: str, x: Tensor | None, sizes: Mapping[str, int] | None, seed: int
) -> tuple[Tensor, Generator]:
    """Return x, or normal numbers in the input space of A, and the generator for more.

    They have the first of the devices of the operator's inputs, and the dtype to which its weights
    promote.
    """
    if not isinstance(seed, Integral) or isinstance(seed, bool):
        raise TypeError(f"{owner}: seed must be an integer, got {seed!r}")
    generator = Generator().manual_seed(int(seed) % 2**63)
    if x is not None:
        check_vector(owner, name, x)
        return x, generator
    if not isinstance(A, NamedLinop):
        raise TypeError(f"{owner}: a function must come with a first vector, got {A!r} alone")
    lengths = input_lengths(A, sizes, of_run=None)
    dtype = promoted((*A.parameters(), *A.buffers()), torch.get_default_dtype())
    device = next(iter(A.input_devices), "cpu")
    return random_like(torch.empty(lengths, dtype=dtype, device=device), generator), generator
