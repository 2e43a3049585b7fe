"""Sums of integers and bools are those of int64: nothing wraps in a narrow dtype."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import (
    Add,
    Concat,
    Dense,
    Identity,
    NamedLinop,
    Repeat,
    Sampling,
    Stack,
    SumReduce,
)

NARROW = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32)
MATRIX, MAPS = torch.ones(2, 3, dtype=torch.int8), torch.ones(3, 2, dtype=torch.bool)
GRID, COLUMNS = ("A", "B"), ("B",)
SUMMING: dict[str, Callable[[], NamedLinop]] = {
    "SumReduce": lambda: SumReduce(GRID, COLUMNS),
    "SumReduce.N": lambda: SumReduce(GRID, COLUMNS).N,
    "Repeat.H": lambda: Repeat({"A": 3}, COLUMNS, GRID).H,
    "Sampling.H": lambda: Sampling([torch.tensor([1, 1, 0])], [2]).H,
    "Sampling.N": lambda: Sampling([torch.tensor([1, 1, 1])], [3]).N,
    "Dense": lambda: Dense(MATRIX, ("M", "N"), ("B", "N"), ("B", "M")),
    "Dense.T": lambda: Dense(MATRIX.mT.contiguous(), ("N", "M"), ("B", "N"), ("B", "M")),
    "Dense, maps": lambda: Dense(MAPS, ("C", "N"), ("N",), ("C", "N")).H,
    "Dense, any": lambda: Dense(MATRIX, ("M", "N"), ("N", "B"), ("B", "M")),
    "Add": lambda: Add(Identity(), Identity(), Identity()),
    "Stack": lambda: Stack(*[Identity(("B",))] * 3, idim_and_idx=("A", 0)),
    "Concat": lambda: Concat(*[SumReduce(GRID, COLUMNS)] * 3, idim="A", isizes=(1, 1, 1)),
}


@pytest.mark.parametrize("name", SUMMING)
@given(st.data())
def test_sums_of_narrow_integers_are_those_of_wide_ones(name: str, data: st.DataObject) -> None:
    linop, dtype = SUMMING[name](), data.draw(st.sampled_from(NARROW))
    lengths = (3, 2) if name in ("Stack", "Concat", "Dense, maps", "Dense, any") else (3, 3)
    x = data.draw(st.sampled_from([largest(lengths, dtype), smallest(lengths, dtype)]))
    y = linop(x)
    assert y.dtype is torch.int64
    assert torch.equal(y, linop(x.long()))
    torch.testing.assert_close(y.double(), linop(x.double()), rtol=0, atol=0)


def largest(lengths: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    value = True if dtype is torch.bool else torch.iinfo(dtype).max
    return torch.full(lengths, value, dtype=dtype)


def smallest(lengths: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    value = True if dtype is torch.bool else torch.iinfo(dtype).min
    return torch.full(lengths, value, dtype=dtype)
