"""The dot test over ranks: of whole vectors, with the same verdict on all ranks."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_core import Dense, NamedLinop, RealPart
from linops_core.testing import AdjointError, dottest, is_adjoint
from linops_distributed import distribute_linop
from linops_distributed.testing import Ranked

pytestmark = pytest.mark.each_value

W = torch.randn(7, 5, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))
SIZES = {"B": 4}


class Off(Dense):
    """A matrix whose adjoint is off by a factor."""

    @staticmethod
    def adj_fn(linop: Any, y: Tensor) -> Tensor:
        return 3 * Dense.adj_fn(linop, y)


def operator(kind: type[Dense]) -> NamedLinop:
    return kind(W, ("M", "N"), ("B", "N"), ("B", "M"))


@pytest.mark.parametrize("dim", ["B", "M", "N"])
def test_an_adjoint_passes_and_one_that_is_off_does_not(ranks: Ranked, dim: str) -> None:
    def program(rank: int) -> None:
        mesh = ranks.mesh(r=ranks.n_ranks)
        A = distribute_linop(operator(Dense), mesh, {dim: "r"}, sizes=SIZES)
        dottest(A)
        dottest(A.H)
        dottest(distribute_linop(RealPart() @ operator(Dense), mesh, {dim: "r"}, sizes=SIZES))
        B = distribute_linop(operator(Off), mesh, {dim: "r"}, sizes=SIZES)
        with pytest.raises(AdjointError, match="got 3 times the adjoint"):
            dottest(B)

    ranks.run(program)


@pytest.mark.parametrize("dim", ["M", "N"])
@pytest.mark.parametrize("times", [0, 2])
def test_a_wrong_sum_is_told_with_the_same_words_on_all_ranks(
    two: Ranked, dim: str, times: int
) -> None:
    """Of results that are not summed over the ranks, or twice."""

    def program(rank: int) -> str:
        A = distribute_linop(operator(Dense), two.mesh(r=2), {dim: "r"}, sizes=SIZES)
        right = A.ranks.sum
        x = A.local_input(torch.ones(4, 5, dtype=W.dtype))
        y = A.local_output(torch.ones(4, 7, dtype=W.dtype))
        assert is_adjoint(A, x, y)

        def wrong(x: Tensor, dims: Sequence[str], owner: str, what: str) -> Tensor:
            for _ in range(times if "sum of the output" in what else 1):
                x = right(x, dims, owner, what)
            return x

        A.ranks.sum = wrong  # type: ignore[method-assign]
        assert not is_adjoint(A, x, y)
        with pytest.raises(AdjointError, match="the adjoint must satisfy") as caught:
            dottest(A)
        return str(caught.value)

    first, second = two.run(program)
    assert first == second
