"""Random vectors for an operator."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral

import torch
from torch import Tensor

from .._base._linop import NamedLinop
from .._base._sizes import input_lengths
from .._kernels._dtype import promoted
from ._checks import Operator, check_vector


def seeded(owner: str, seed: int) -> torch.Generator:
    """Return a generator of random numbers on the CPU."""
    if not isinstance(seed, Integral) or isinstance(seed, bool):
        raise TypeError(f"{owner}: seed must be an integer, got {seed!r}")
    return torch.Generator().manual_seed(int(seed) % 2**63)


def random_like(x: Tensor, generator: torch.Generator, count: int | None = None) -> Tensor:
    """Return independent normal numbers of the shape of x; ``count`` rows of as many."""
    shape = x.shape if count is None else (count, x.numel())
    # Drawn on the CPU, whatever the default device, so that a seed means the same everywhere.
    return torch.randn(shape, dtype=x.dtype, generator=generator, device="cpu").to(x.device)


def input_or_random(
    owner: str,
    A: Operator,
    given: tuple[str, Tensor | None],
    sizes: Mapping[str, int] | None,
    generator: torch.Generator,
) -> Tensor:
    """Return what is given, by its name, or independent normal numbers in the input space of A.

    They have the first of the devices of the operator's inputs, and the dtype to which its weights
    promote.

    Raises
    ------
    TypeError
        If nothing is given and A is a function, of which nothing is known.
    ValueError
        If the size of a dimension is not known.
    """
    name, x = given
    if x is not None:
        check_vector(owner, name, x)
        return x
    if not isinstance(A, NamedLinop):
        raise TypeError(f"{owner}: a function must come with a first vector, got {A!r} alone")
    lengths = input_lengths(A, sizes, of_run=None)
    dtype = promoted((*A.parameters(), *A.buffers()), torch.get_default_dtype())
    device = next(iter(A.input_devices), None)
    return random_like(torch.empty(lengths, dtype=dtype, device=device or "cpu"), generator)
