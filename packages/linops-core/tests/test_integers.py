"""Sums and products of integers are those of int64: nothing wraps in a narrow dtype."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import (
    FFT,
    Add,
    BlocksToArray,
    Concat,
    Convolution,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Repeat,
    Sampling,
    Scalar,
    Stack,
    SumReduce,
)

GRID, COLUMNS = ("A", "B"), ("B",)
NARROW = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32)
KEPT = torch.tensor([True, True, False])
MATRIX, MAPS = torch.ones(2, 3, dtype=torch.int8), torch.ones(3, 2, dtype=torch.bool)
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
    "BlocksToArray": lambda: BlocksToArray([3], [2], [1]),
    "BlocksToArray, a mask": lambda: BlocksToArray([4], [2], [1], KEPT),
    "BlocksToArray.H.N": lambda: BlocksToArray([3], [2], [1]).H.N,
    "BlocksToArray.H.N, kept": lambda: BlocksToArray([4], [2], [1], KEPT).H.N,
    "Convolution": lambda: Convolution(torch.ones(3, dtype=torch.int8)),
    "Convolution.H": lambda: Convolution(torch.full((3,), -2, dtype=torch.int8)).H,
    "Add": lambda: Add(Identity(), Identity(), Identity()),
    "Stack": lambda: Stack(*[Identity(("B",))] * 3, idim_and_idx=("A", 0)),
    "Concat": lambda: Concat(*[SumReduce(GRID, COLUMNS)] * 3, idim="A", isizes=(1, 1, 1)),
}
LENGTHS = {
    **dict.fromkeys(("Stack", "Concat", "Dense, maps", "Dense, any"), (3, 2)),
    **{"BlocksToArray": (2, 2), "BlocksToArray, a mask": (2, 2), "BlocksToArray.H.N, kept": (3, 4)},
}


def largest(lengths: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    value = True if dtype is torch.bool else torch.iinfo(dtype).max
    return torch.full(lengths, value, dtype=dtype)


def smallest(lengths: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    value = True if dtype is torch.bool else torch.iinfo(dtype).min
    return torch.full(lengths, value, dtype=dtype)


@pytest.mark.parametrize("name", SUMMING)
@given(st.data())
def test_sums_of_narrow_integers_are_those_of_wide_ones(name: str, data: st.DataObject) -> None:
    linop, dtype = SUMMING[name](), data.draw(st.sampled_from(NARROW))
    lengths = LENGTHS.get(name, (3, 3))
    x = data.draw(st.sampled_from([largest(lengths, dtype), smallest(lengths, dtype)]))
    y = linop(x)
    assert y.dtype is torch.int64
    assert torch.equal(y, linop(x.long()))
    torch.testing.assert_close(y.double(), linop(x.double()), rtol=0, atol=0)


MULTIPLYING: dict[str, Callable[[Tensor], NamedLinop]] = {
    "Diagonal": lambda w: Diagonal(w, ("N",)),
    "Diagonal.H": lambda w: Diagonal(w, ("N",)).H,
    "Diagonal.N": lambda w: Diagonal(w, ("N",)).N,
    "Diagonal, along one axis": lambda w: Diagonal.from_weight(w, ("N",), ("N", "C")),
    "Dense": lambda w: Dense(w, ("N",), ("N",), ("N",)),
    "Dense, maps": lambda w: Dense(w, ("C",), ("N",), ("C", "N")),
    "Scalar": lambda w: Scalar(w[0]),
    "Scalar.N": lambda w: Scalar(w[0]).N,
    "a number": lambda w: Scalar(int(w[0])),
    "its normal": lambda w: Scalar(int(w[0])).N,
    "Repeat.N": lambda w: Repeat({"C": 200}, "N", "CN").N,
    "FFT.N": lambda w: FFT(1, norm="backward").N,
}
INTEGERS = st.sampled_from(NARROW[1:])
EXTREMES = st.sampled_from([largest, smallest])


@pytest.mark.parametrize("name", MULTIPLYING)
@given(INTEGERS, INTEGERS, EXTREMES, EXTREMES)
def test_products_of_narrow_integers_are_those_of_wide_ones(
    name: str,
    of_weight: torch.dtype,
    of_x: torch.dtype,
    weights: Callable[..., Tensor],
    values: Callable[..., Tensor],
) -> None:
    if name.endswith((".N", "normal")):  # int64 does not hold the product of three int32
        of_weight = torch.int8 if of_weight is torch.int32 else of_weight
    weight, x = weights((2,), of_weight), values((2, 3) if "axis" in name else (2,), of_x)
    y = MULTIPLYING[name](weight)(x)
    assert y.dtype is torch.int64
    assert torch.equal(y, MULTIPLYING[name](weight.long())(x.long()))


def test_a_mask_of_bools_keeps_the_dtype_of_what_it_selects_from() -> None:
    mask, x = torch.tensor([True, False]), torch.tensor([-128, 127], dtype=torch.int8)
    for A in (Diagonal(mask, ("N",)), Diagonal(mask, ("N",)).N):
        assert A(x).dtype is torch.int8 and A(x).tolist() == [-128, 0]


def test_integers_are_not_transformed() -> None:
    A = Convolution(torch.ones(3, dtype=torch.int8), method="fft")
    with pytest.raises(TypeError, match="Convolution: method must be 'auto' or 'direct' for integ"):
        A(torch.ones(4, dtype=torch.int8))
