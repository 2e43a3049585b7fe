"""Random vectors for an operator."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from numbers import Integral

import torch
from torch import Tensor

from .._base._linop import NamedLinop
from .._base._sizes import input_lengths
from ._vectors import Operator


def seeded(owner: str, seed: int) -> torch.Generator:
    """Return a generator of random numbers on the CPU.

    Raises
    ------
    TypeError
        If the seed is no integer.
    """
    if not isinstance(seed, Integral) or isinstance(seed, bool):
        raise TypeError(f"{owner}: seed must be an integer, got {seed!r}")
    return torch.Generator().manual_seed(int(seed) % 2**63)


def random_like(x: Tensor, generator: torch.Generator, count: int | None = None) -> Tensor:
    """Return independent normal numbers of the shape of x; ``count`` rows of as many."""
    shape = x.shape if count is None else (count, x.numel())
    # Drawn on the CPU, whatever the default device, so that a seed means the same everywhere.
    return torch.randn(shape, dtype=x.dtype, generator=generator, device="cpu").to(x.device)


def random_input(
    owner: str, A: Operator, sizes: Mapping[str, int] | None, generator: torch.Generator
) -> Tensor:
    """Return a vector of independent normal numbers in the input space of an operator.

    It has the first of the devices of the operator's inputs, and the dtype to which its weights
    promote.

    Raises
    ------
    TypeError
        If A is a function, of which nothing is known.
    ValueError
        If the size of a dimension is not known.
    """
    if not isinstance(A, NamedLinop):
        raise TypeError(f"{owner}: a function must come with a first vector, got {A!r} alone")
    lengths = input_lengths(A, sizes, of_run=None)
    weights = [
        weight
        for weight in (*A.parameters(), *A.buffers())
        if weight.is_floating_point() or weight.is_complex()
    ]
    dtypes = [weight.dtype for weight in weights] or [torch.get_default_dtype()]
    dtype = functools.reduce(torch.promote_types, dtypes)
    device = next(iter(A.input_devices), None)
    return random_like(torch.empty(lengths, dtype=dtype, device=device or "cpu"), generator)
