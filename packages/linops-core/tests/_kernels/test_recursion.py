"""Nests that are too deep for Python raise an error that says what to do, or give the result."""

import sys
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from linops_core import Add, Chain, Diagonal, NamedLinop, SimpleLinop
from linops_core._kernels._recursion import ADVICE

LEVELS = 400
WEIGHT = 0.5 * torch.ones(3, dtype=torch.float64)


def nest(levels: int = LEVELS) -> NamedLinop:
    """Return (1/2 + A)/2 of itself, so often."""
    D = Diagonal(WEIGHT, ("N",))
    A: NamedLinop = D
    for _ in range(levels):
        A = Chain(Add(A, D), D)
    return A


@pytest.fixture
def more_calls() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10 * 2 * LEVELS)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "work",
    [
        lambda A: A(torch.ones(3)),
        lambda A: A @ torch.ones(3),
        lambda A: A.H,
        lambda A: A.T,
        lambda A: A.N,
    ],
)
def test_a_nest_that_is_too_deep_says_what_to_do(work: Callable[[NamedLinop], object]) -> None:
    with pytest.raises(RecursionError, match=r"maximum .*sys.setrecursionlimit") as caught:
        work(nest())
    assert str(caught.value).count(ADVICE) == 1


def test_with_the_limit_of_the_advice_it_is_right(more_calls: None) -> None:
    A = nest()
    # x = (x + 1/2) / 2 has the solution 1/2.
    torch.testing.assert_close(A(torch.ones(3, dtype=torch.float64)), WEIGHT)
    torch.testing.assert_close(A.H(torch.ones(3, dtype=torch.float64)), WEIGHT)
    torch.testing.assert_close(A.N(torch.ones(3, dtype=torch.float64)), WEIGHT**2)


def test_a_function_that_calls_itself_keeps_its_traceback() -> None:
    def forever(x: Tensor) -> Tensor:
        return forever(x)

    A = SimpleLinop(forever, forever, ishape=("N",))
    with pytest.raises(RecursionError, match=r"maximum recursion") as caught:
        A(torch.ones(3))
    assert "forever" in [entry.name for entry in caught.traceback]


class TooManyRounds(RecursionError):
    """An error of a user, with two arguments."""


def test_an_error_of_the_user_keeps_its_arguments() -> None:
    def refuse(x: Tensor) -> Tensor:
        raise TooManyRounds("rounds", 5)

    A = SimpleLinop(refuse, refuse, ishape=("N",))
    with pytest.raises(TooManyRounds, match="rounds") as caught:
        A(torch.ones(3))
    assert caught.value.args == ("rounds", 5)
