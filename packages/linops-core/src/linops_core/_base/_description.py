"""Tensors, bytes and slices in words, for what ``repr`` shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import Tensor

from memmap import union_nbytes
from memmap.siblings import bytes_text
from nameddim import is_wildcard

from ._dimensions import SIDES, DimensionedModule, dims_of
from ._question import Question


def tensor_text(name: str, tensor: Tensor, part: str = "") -> str:
    """Return name, part, dtype, shape, device and bytes of a tensor; values are not read."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    size = bytes_text(union_nbytes([tensor]))
    return f"{name}{part}: {dtype} {tuple(tensor.shape)} {tensor.device} {size}"


def slices_text(pieces: Iterable[slice]) -> str:
    """Return slices as they are written in an index: ``[0:2, :]``."""
    texts = [":" if p == slice(None) else f"{p.start}:{p.stop}" for p in pieces]
    return f"[{', '.join(texts)}]"


def dims_text(dims: Iterable[object], sizes: Iterable[int | None]) -> str:
    """Return names of dimensions with the sizes that are known: ``C 8, Nx``."""
    pairs = zip(dims, sizes, strict=True)
    return ", ".join(str(dim) if size is None else f"{dim} {size}" for dim, size in pairs)


@Question
def method_of(linop: DimensionedModule) -> str | None:
    """Return by which method an operator is computed; None if there is one, or a call chooses."""
    return None


@Question.inherited
def shown_operands(linop: DimensionedModule) -> Iterable[DimensionedModule]:
    """Return the operands that ``repr`` shows; for many that are alike, the first ones."""
    # Not children(), which lists an operand that is used twice only once.
    return [
        operand for operand in linop._modules.values() if isinstance(operand, DimensionedModule)
    ]


def tree_lines(linop: DimensionedModule) -> Iterator[str]:
    """Yield the lines of ``repr``: an operator, then its operands."""
    yield "  ".join(text for text in (linop.signature, linop.extra_repr()) if text)
    for operand in shown_operands(linop):
        yield from (f"  {line}" for line in repr(operand).splitlines())


def html_tree(linop: DimensionedModule) -> str:
    """Return the tree as a table for notebooks."""
    role_of_dim = [(dim, linop.role(dim)) for dim in sorted(linop.dims) if not is_wildcard(dim)]
    roles = ", ".join(f"{dim} {role}" for dim, role in role_of_dim if role is not None)
    from memmap import html_table  # only notebooks need it

    return html_table(["operator", "input", "output", "weights"], _html_rows(linop, 0), roles)


def _html_rows(linop: DimensionedModule, depth: int) -> Iterator[list[str]]:
    sides = [dims_text(dims_of(linop.shape, side), linop.sizes(side)) for side in SIDES]
    yield ["  " * depth + linop.name, *sides, linop.extra_repr()]
    for operand in shown_operands(linop):
        yield from _html_rows(operand, depth + 1)
