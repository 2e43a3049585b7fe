"""Operators without a ``...`` get further dimensions in front from a neighbour."""

import pytest
import torch
from torch import Tensor

from linops_core import (
    BlockDiag,
    Concat,
    Dense,
    Diagonal,
    Kronecker,
    NamedLinop,
    Rearrange,
    Repeat,
    SimpleLinop,
    Stack,
    SumReduce,
    VStack,
    Zero,
)
from linops_core.testing import dottest
from nameddim import ND

N = 4
W = torch.randn(2, N, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
DIAGONALS = [Diagonal(weight, ("N",)) for weight in W]
DENSE = [Dense(w[None], ("M", "N"), ("N",), ("M",)) for w in W]

FITTED: dict[str, NamedLinop] = {
    "Zero": Zero(("N",), ("M",), sizes={"M": 3, "N": N}),
    "Rearrange": Rearrange("(a b)", "b a", ("N",), ("B", "A"), {"a": 2}),
    "Repeat": Repeat({"R": 3}, ("N",), ("R", "N")),
    "Repeat behind": Repeat({"R": 3}, ("N",), ("N", "R")),
    "SumReduce": SumReduce(("N", "R"), ("N",), sizes={"R": 3}),
    "Stack": Stack(*DIAGONALS, odim_and_idx=("S", 1)),
    "Stack of the input": Stack(*DIAGONALS, idim_and_idx=("S", 0)),
    "Stack of both": Stack(*DIAGONALS, idim_and_idx=("S", 0), odim_and_idx=("T", 1)),
    "Concat": Concat(*DENSE, odim="M"),
    "Concat of both": Concat(*DENSE, idim="N", odim="M"),
}


def each(A: NamedLinop, x: Tensor, ndim: int) -> Tensor:
    parts = x.reshape(-1, *x.shape[x.ndim - ndim :])
    result = torch.stack([A(part) for part in parts])
    return result.reshape(*x.shape[: x.ndim - ndim], *result.shape[1:])


@pytest.mark.parametrize("front", [("P",), ("...",), ("P", "..."), ("P", "Q")])
@pytest.mark.parametrize("name", FITTED)
def test_all_slices_of_dimensions_in_front_are_treated_alike(
    name: str, front: tuple[str, ...]
) -> None:
    A = FITTED[name]
    sizes = {"R": 3, "S": 2, "T": 2, "N": N * (1 + (name == "Concat of both"))}
    own = [sizes[str(dim)] for dim in A.ishape]
    generator = torch.Generator().manual_seed(1)
    for linop, lengths in ((A, own), (A.H, [*A(torch.zeros(own).double()).shape])):
        fitted = linop.fitted_to((*map(ND, front), *linop.ishape))
        assert fitted is not None
        assert fitted.oshape == (*front, *linop.oshape)
        x = torch.randn(*[2, 3][: len(front)], *lengths, dtype=torch.float64, generator=generator)
        for one, many in ((linop, fitted), (linop.N, fitted.N)):
            torch.testing.assert_close(many(x), each(one, x, len(lengths)))
        dottest(fitted, like=x)
        assert linop.fitted_to((ND("A1"), *linop.ishape[1:])) is None


def test_what_says_nothing_of_further_dimensions_stays_unfitted() -> None:
    N2 = (ND("P"), ND("N"))
    assert VStack(*DENSE).fitted_to(N2) is None
    assert BlockDiag(*DENSE).fitted_to((ND("P"), *BlockDiag(*DENSE).ishape)) is None
    plain = SimpleLinop(lambda x: x, lambda y: y, ishape=("N",))
    assert plain.fitted_to(N2) is None
    assert Stack(plain, plain, odim_and_idx=("S", 0)).fitted_to(N2) is None
    assert FITTED["Stack"].fitted_to((ND("S"), ND("N"))) is None


def test_compositions_and_kronecker_products_use_it() -> None:
    A, B = FITTED["Concat"], FITTED["Rearrange"].renamed({ND("N"): ND("K")})
    x = torch.randn(N, N, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    result = Kronecker(A, B)(x)
    expected = (W @ x).reshape(2, 2, 2).mT
    torch.testing.assert_close(result, expected)
    chain = FITTED["Stack"] @ Diagonal(W, ("P", "N"))
    assert chain.oshape == ("P", "N", "S")
