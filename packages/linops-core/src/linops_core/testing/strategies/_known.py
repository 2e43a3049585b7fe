"""Operators of which everything is known: the matrix, and what cannot be sliced."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

import torch
from hypothesis import strategies as st
from torch import Tensor

from ..._base._linop import NamedLinop
from ._spaces import Spaces

Index: TypeAlias = dict[str, int]


@dataclass(frozen=True)
class Known:
    """An operator beside what it must be.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Scalar
    >>> spaces = Spaces(("N",), ("N",), {"N": 2})
    >>> known = Known(Scalar(2.0), 2 * torch.eye(2, dtype=torch.complex128), spaces)
    >>> torch.equal(known.linop.to_dense({"...": 2}, torch.complex128), known.matrix)
    True
    """

    linop: NamedLinop
    matrix: Tensor
    """complex128, (product of output sizes, product of input sizes)."""
    spaces: Spaces
    opaque: frozenset[str] = frozenset()
    """Dimensions, without index, for which there is a reason why they cannot be sliced."""
    inner: Mapping[str, int] = field(default_factory=dict)
    """Dimensions inside of the operator that are in neither shape, with their sizes."""
    side_by_side: frozenset[str] = frozenset()
    """Dimensions along which blocks stand side by side somewhere: what sums over them (a normal
    operator) may have them in different sizes."""


def matrix_of(entry: Callable[[Index, Index], complex], spaces: Spaces) -> Tensor:
    """Return the matrix whose entries are ``entry(output index, input index)``, by explicit loops.

    Examples
    --------
    >>> spaces = Spaces(("A",), ("A",), {"A": 2})
    >>> matrix_of(lambda o, i: o["A"] - i["A"], spaces).real
    tensor([[ 0., -1.],
            [ 1.,  0.]], dtype=torch.float64)
    """
    rows = indices(spaces, spaces.oshape)
    columns = indices(spaces, spaces.ishape)
    values = [[entry(row, column) for column in columns] for row in rows]
    return torch.tensor(values, dtype=torch.complex128)


def indices(spaces: Spaces, space: tuple[str, ...]) -> list[Index]:
    """Return all indices into a tensor of shape ``space``, the last dimension fastest."""
    ranges = [range(length) for length in spaces.lengths(space)]
    return [dict(zip(space, index, strict=True)) for index in product(*ranges)]


@st.composite
def tensors(draw: st.DrawFn, lengths: list[int], kind: str | None = None) -> Tensor:
    """Tensors of small integers, some zero: real or complex, with or without gradient.

    Parameters
    ----------
    lengths : list of int
    kind : {"real", "complex"}, optional
        Both by default.
    """
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    parts = torch.randint(-2, 4, [2, *lengths], generator=generator).double()
    kind = kind or draw(st.sampled_from(["complex", "real"]))
    values = torch.complex(*parts) if kind == "complex" else parts[0]
    assert values.numel() == math.prod(lengths)
    return torch.nn.Parameter(values) if draw(st.booleans()) else values
