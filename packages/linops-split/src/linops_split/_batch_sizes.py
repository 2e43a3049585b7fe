"""From batch sizes to slices, with all checks of the arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from linops_core import NamedLinop, Role, SplitError
from linops_core.siblings import is_integer, is_size
from nameddim import ND, NamedDimension

Sizes: TypeAlias = Mapping[str, int] | Mapping[NamedDimension, int]
"""A length for each of some dimensions."""


def slices_along(
    linop: NamedLinop, batch_sizes: Sizes, sizes: Sizes | None = None
) -> dict[NamedDimension, list[slice]]:
    """Return the slices into which batch sizes divide each dimension.

    ``sizes`` has the sizes of dimensions that the operator does not know. Raises as
    :func:`tile_grid`.
    """
    if not isinstance(linop, NamedLinop):
        raise TypeError(f"linop must be a NamedLinop, got {type(linop)}")
    given = _by_dimension(linop, "sizes", {} if sizes is None else sizes)
    for dim, size in given.items():
        length = _size_of(linop, dim)
        if not is_integer(size, 0):
            raise SplitError(
                f"{linop.signature}: the size of {dim} must be an integer, at least 0, got {size!r}"
            )
        if length not in (None, size):
            raise SplitError(
                f"{linop.signature}: {dim} must have size {length}, got {size} in sizes"
            )
    dims = _by_dimension(linop, "batch_sizes", batch_sizes)
    return {dim: _slices(linop, dim, size, given.get(dim)) for dim, size in dims.items()}


def _by_dimension(linop: NamedLinop, argument: str, sizes: Sizes) -> dict[NamedDimension, int]:
    if not isinstance(sizes, Mapping):
        raise TypeError(
            f"{linop.signature}: {argument} must be a mapping of dimension to size, "
            f"got {type(sizes)}"
        )
    return {ND.infer(dim): size for dim, size in sizes.items()}


def _slices(
    linop: NamedLinop, dim: NamedDimension, batch_size: int, given: int | None
) -> list[slice]:
    length = _size_of(linop, dim)
    if linop.role(dim) is Role.OPAQUE:
        raise SplitError(f"{linop.signature}: {dim} cannot be split: {linop.why_opaque(dim)}")
    if not is_size(batch_size):
        raise SplitError(
            f"{linop.signature}: the batch size of {dim} must be a positive integer, "
            f"got {batch_size!r}"
        )
    size = given if length is None else length
    if size is None:
        raise SplitError(
            f"{linop.signature}: the size of {dim} must be known to split along it, but no tensor "
            f"of the operator has this dimension; give it, as in sizes={{'{dim}': 8}}"
        )
    end = int(size)
    starts = range(0, end or 1, int(batch_size))  # an empty dimension has one empty tile
    return [slice(start, min(start + starts.step, end)) for start in starts]


def _size_of(linop: NamedLinop, dim: NamedDimension) -> int | None:
    """Return the length of ``dim``, or None if unknown; raise if the operator has no ``dim``."""
    if linop.role(dim) is None:
        hidden = ", or it is hidden behind an ellipsis" if "..." in linop.ishape else ""
        raise SplitError(
            f"{linop.signature}: the dimension to split must be one of "
            f"{sorted(map(str, linop.dims))}, got {dim}{hidden}"
        )
    return linop.size(dim)
