"""Inner products and norms of vectors, right to the precision of their entries.

On a CPU ``torch.vdot``, ``torch.linalg.vector_norm`` and a row times a column add numbers of single
precision in a few accumulators. The relative error grows with the number of entries: 3.6e-3 at 2^24
complex numbers. It is larger for constants, whose rounding has one sign: 1.9e-4 at 2^16. ``sum``
adds pairs, so a block of products is formed and summed, and the sums of blocks are added in double
precision. That errs by 5e-7 at most, for any number of entries. Double precision and other devices,
which add pairs, use the plain functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling, is_dynamo_compiling

from ._dtype import at_least_single
from ._torch_state import is_transformed
from ._tracing import is_differentiated

_SHORT = 2**11
"""Number of entries up to which few accumulators are enough."""
_BLOCK = 2**16
"""Number of entries of a block of products, which stays in the cache."""
_COLUMNS = 2**12
"""Number of entries of the rows in a product of matrices, which keeps more accumulators."""
_DOUBLE = {True: torch.complex128, False: torch.float64}


def vdot(x: Tensor, z: Tensor, axes: Sequence[int] = ()) -> Tensor:
    """Return x^H z of two tensors, each as one vector; of each vector that ``axes`` number.

    There is no temporary of their size, except in a compiled graph.
    """
    if not axes and not _is_long(x) and not (x.is_cpu and _are_strided(x, z)):
        return torch.vdot(x.flatten(), z.flatten())
    if not axes and not is_compiling():
        return _total([_products(a, b).sum() for a, b in _blocks(x, z)], x.dtype)
    lengths = [x.shape[axis] for axis in axes]
    first, second = _systems(x, axes), _systems(z, axes)
    if not x.is_cpu:
        rows, columns = first.flatten(1).conj(), second.flatten(1)
        result = torch.matmul(rows.unsqueeze(-2), columns.unsqueeze(-1))
    elif is_compiling():
        products = _products(first.flatten(1), second.flatten(1))
        result = products.sum(-1, dtype=_DOUBLE[x.is_complex()])
    elif first[:1].numel() > _BLOCK:
        result = torch.stack([vdot(*pair) for pair in zip(first, second, strict=True)])
    else:
        step = _BLOCK // max(first[:1].numel(), 1)
        pairs = zip(first.split(step), second.split(step), strict=True)
        result = torch.cat([_products(a, b).flatten(1).sum(-1) for a, b in pairs])
    return result.reshape(lengths).to(x.dtype)


def inner_products(rows: Tensor, columns: Tensor) -> Tensor:
    """Return the inner products of rows (M, N) with a vector (N) or with columns (N, K)."""
    if not _is_long(rows, (0,)):
        return _conjugate_product(rows, columns)
    pairs = zip(rows.split(_COLUMNS, 1), columns.split(_COLUMNS), strict=True)
    return _total([_conjugate_product(a, b) for a, b in pairs], rows.dtype)


def _conjugate_product(rows: Tensor, columns: Tensor) -> Tensor:
    # torch copies what a product takes conjugated, and there are usually fewer columns than rows.
    return (rows @ columns.conj()).conj().resolve_conj()


def norm(x: Tensor, axes: Sequence[int] = ()) -> Tensor:
    """Return the root of the sum of squares of all entries; of each vector that ``axes`` number."""
    dims = [axis for axis in range(x.ndim) if axis not in axes]
    parts = real_parts(x)
    dims += range(x.ndim, parts.ndim)
    if not dims:
        return x.abs()
    if is_compiling() and x.is_cpu:
        lengths: Tensor = torch.linalg.vector_norm(parts, 2, dims, dtype=torch.float64)
        return lengths.to(parts.dtype)
    if not _is_long(x, axes):
        return torch.linalg.vector_norm(parts, 2, dims)  # type: ignore[no-any-return]
    square = squared_norm(x, axes)
    if not (is_differentiated(x) or is_transformed()):
        length: Tensor = square.sqrt()
        return length
    is_positive = square > 0
    return square.where(is_positive, 1).sqrt() * is_positive


def squared_norm(x: Tensor, axes: Sequence[int] = ()) -> Tensor:
    """Return the sum of squares of all entries; of each vector that ``axes`` number."""
    parts = real_parts(x)
    return vdot(parts, parts, axes)


def host_numbers(*scalars: Tensor) -> list[Any]:
    """Return the numbers in tensors without dimensions, real ones as floats, with one wait."""
    if scalars[0].is_cpu:  # one by one is faster there
        return [scalar.item() for scalar in scalars]
    numbers = torch.stack(scalars).tolist()  # beside a complex one, all of them are complex
    pairs = zip(scalars, numbers, strict=True)
    return [number if scalar.is_complex() else number.real for scalar, number in pairs]


def host_products_and_norms(
    pairs: Sequence[tuple[Tensor, Tensor]], vectors: Sequence[Tensor]
) -> tuple[list[Any], list[float]]:
    """Return x^H z of each pair, and the norm of each vector, as numbers, with one wait."""
    # Roots of floats are faster than norms of tensors, but a dot product ends at 2^31 on a GPU.
    are_squares = pairs[0][0].is_cpu
    lengths = map(squared_norm if are_squares else norm, vectors)
    numbers = host_numbers(*(vdot(x, z) for x, z in pairs), *lengths)
    products, sizes = numbers[: len(pairs)], numbers[len(pairs) :]
    return products, [*map(math.sqrt, sizes)] if are_squares else sizes


def real_parts(x: Tensor) -> Tensor:
    """Return x if it is real, else its real and imaginary parts, or those of its conjugate.

    Norms are taken of them, because complex norms of torch are far slower on a CPU.
    """
    if not x.is_complex():
        return x
    if is_dynamo_compiling():  # which cannot be asked whether it is conjugated, and needs no copy
        return torch.view_as_real(x.resolve_conj())
    return torch.view_as_real(x.conj() if x.is_conj() else x)


def _is_long(x: Tensor, axes: Sequence[int] = ()) -> bool:
    """Whether sums of torch over a vector are less exact than its entries."""
    bits = torch.finfo(x.dtype).bits
    if bits > 32 or not x.is_cpu:
        return False
    if bits < 32 or is_compiling():
        return True
    count = x.numel()  # first alone, because most vectors of small operators are short
    return count > _SHORT and count > _SHORT * math.prod([x.shape[axis] for axis in axes])


def _are_strided(*tensors: Tensor) -> bool:
    """Whether one of the tensors has to be copied to be one vector."""
    return not all([tensor.is_contiguous() for tensor in tensors])


def _products(x: Tensor, z: Tensor) -> Tensor:
    """Return the products of the entries, at least in single precision."""
    single = at_least_single(x.dtype)
    return x.conj().to(single) * z.to(single)


def _total(sums: list[Tensor], dtype: torch.dtype) -> Tensor:
    if len(sums) == 1:
        return sums[0].to(dtype)
    return torch.stack(sums).sum(0, dtype=_DOUBLE[dtype.is_complex]).to(dtype)


def _systems(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return x with one first axis in the place of those that number the vectors."""
    if not axes:
        return x.unsqueeze(0)
    first = x.movedim(tuple(axes), tuple(range(len(axes))))
    return first.flatten(0, len(axes) - 1) if first.ndim > len(axes) else first.reshape(-1, 1)


def _blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield the same part of each tensor, a block at a time; views, also of strided tensors."""
    x = tensors[0]
    if x.numel() <= _BLOCK:
        yield tensors
    elif not _are_strided(*tensors):
        yield from zip(*(tensor.view(-1).split(_BLOCK) for tensor in tensors), strict=True)
    else:
        axis = max(range(x.ndim), key=lambda axis: (x.shape[axis] > 1, x.stride(axis)))
        step = max(1, _BLOCK * x.shape[axis] // x.numel())
        for parts in zip(*(tensor.split(step, axis) for tensor in tensors), strict=True):
            yield from _blocks(*parts)
