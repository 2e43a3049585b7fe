"""Whatever the dtypes of a vector and of the weights, a result is right or refused by us."""

import re
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import (
    Add,
    BlocksToArray,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Sampling,
    SimpleLinop,
)
from linops_core._base._sizes import input_lengths
from linops_core.testing._real_matrices import product
from linops_core.testing.strategies import Known, leaves
from linops_core.testing.strategies._known import named

FLOATING = (torch.float16, torch.bfloat16, torch.complex32, torch.float32, torch.complex64)
DTYPES = (
    *FLOATING,
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2),
)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@given(
    leaves(), st.sampled_from(FLOATING), st.sampled_from(DTYPES), st.sampled_from(["A", "H", "N"])
)
def test_every_dtype_is_computed_right_or_refused_by_name(
    known: Known, of_weights: torch.dtype, dtype: torch.dtype, which: Literal["A", "H", "N"]
) -> None:
    A, M = named(known).linop.to(of_weights), known.matrix
    linop, matrix = {"A": (A, M), "H": (A.H, M.mH), "N": (A.N, M.mH @ M)}[which]
    lengths = torch.Size(input_lengths(linop, known.sizes_of(linop)))
    bits = torch.arange(2 * lengths.numel()).reshape(2, *lengths) % 3 % 2
    x = torch.complex(*bits.float()).to(dtype) if dtype.is_complex else bits[0].to(dtype)
    try:
        y = linop(x)
    except TypeError as error:
        assert re.match(r"\S+ .* -> .*: the dtype must be .*, got torch\.\w+ .*; conv", str(error))
        return
    expected = product(matrix, x)
    inexact = [d for d in (y.dtype, dtype, of_weights) if d.is_floating_point or d.is_complex]
    rounding = max([torch.finfo(d).eps for d in inexact])
    bound = 64 * rounding * max(1.0, float(matrix.abs().sum(1).max()))
    if float(expected.abs().max()) < 1e4:  # float16 ends at 65504
        assert ((y.to(torch.complex128).flatten() - expected).abs() <= bound).all()


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("x", [torch.ones(2), torch.nn.Parameter(torch.ones(2))])
def test_the_dtype_of_the_weights_is_named_in_place_of_the_words_of_torch(x: torch.Tensor) -> None:
    A = Diagonal(torch.ones(2, dtype=torch.float8_e5m2), ("N",))
    rule = r"Diagonal \(N\) .*got torch.float8_e5m2 \(.*Float8.*\); convert .*\.to\(torch.float32\)"
    hooked = Diagonal(A.weight, ("N",))
    hooked.register_forward_hook(lambda *_: None)
    for linop in (A, hooked):
        with pytest.raises(TypeError, match=rule):
            linop(x)


def test_another_error_of_torch_stays() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no memory")

    A: NamedLinop = SimpleLinop(fails, fails)
    with pytest.raises(RuntimeError, match="no memory"):
        A(torch.ones(2, dtype=torch.float16))


KEPT = torch.ones(300, dtype=torch.bool)
COILS = torch.ones(300, 2**15, dtype=torch.bfloat16)
SUMMING: dict[str, Callable[[], tuple[NamedLinop, tuple[int, ...]]]] = {
    "Add": lambda: (Add(*[Identity(("N",))] * 100), (2,)),
    "BlocksToArray": lambda: (BlocksToArray([599], [300], [1]), (300, 300)),
    "BlocksToArray, a mask": lambda: (
        BlocksToArray([599], [300], [1], KEPT, mask_of="elements"),
        (300, 300),
    ),
    "Dense": lambda: (Dense(COILS, "CN", "N", "CN").H, COILS.shape),
    "Sampling": lambda: (Sampling([torch.zeros(200, dtype=torch.long)], [2]).H, (200,)),
}


@pytest.mark.parametrize("name", SUMMING)
def test_many_numbers_in_half_precision_are_added_in_single(name: str) -> None:
    A, lengths = SUMMING[name]()
    x = torch.full(lengths, 1.1, dtype=torch.bfloat16)
    y, expected = A(x), A.to(torch.float64)(x.double())
    assert y.dtype is torch.bfloat16
    torch.testing.assert_close(y.double(), expected, rtol=torch.finfo(torch.bfloat16).eps, atol=0)
