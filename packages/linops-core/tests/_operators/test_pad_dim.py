from typing import Any

import pytest
import torch

from linops_core import Identity, NamedLinop, PadDim, Truncate
from linops_core.testing import BaseNamedLinopTests


class TestPadDim(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return PadDim("T", 2, 5, ("T", "..."), ("S", "..."))


class TestTruncate(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Truncate("T", 5, 3, ("A", "T", "B"), ("A", "S", "B"))

    def sizes(self) -> dict[str, int]:
        return {"A": 2, "B": 2}


def test_zeros_come_behind_the_end_and_the_end_is_cut_off() -> None:
    x = torch.arange(1.0, 7.0).reshape(2, 3)
    assert PadDim("A", 2, 3, "AB", "CB")(x).tolist() == [[1, 2, 3], [4, 5, 6], [0, 0, 0]]
    assert Truncate("B", 3, 1, "AB", "AC")(x).tolist() == [[1], [4]]
    assert Truncate("B", 3, 1, "AB", "AC").N(x).tolist() == [[1, 0, 0], [4, 0, 0]]
    assert isinstance(PadDim("A", 2, 3, "AB", "CB").N, Identity)


@pytest.mark.parametrize("dim", ["T", 1, -2])
def test_the_dimension_is_given_by_its_name_or_its_position(dim: str | int) -> None:
    A = Truncate(dim, 3, 2, ("...", "T", "N"), ("...", "T1", "N"))
    assert (A.size("T"), A.size("T1")) == (3, 2)
    assert A(torch.ones(4, 5, 3, 6)).shape == (4, 5, 2, 6)
    assert A(torch.ones(3, 6)).shape == (2, 6)


def test_a_dimension_before_an_ellipsis_counts_from_the_start() -> None:
    A = PadDim(0, 2, 4, ("T", "..."), ("T", "..."))
    assert A(torch.ones(2, 3, 5)).shape == (4, 3, 5)
    assert A.H(torch.ones(4)).shape == (2,)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (PadDim, ("T", 4, 2, "T", "S"), r"PadDim: lengths must be .* at least .* got 4 to 2"),
        (PadDim, ("T", 0, 2, "T", "S"), r"PadDim: lengths must be positive .* got 0 to 2"),
        (PadDim, ("T", 1.5, 2, "T", "S"), r"PadDim: lengths must be positive integers .* got 1.5"),
        (Truncate, ("T", 2, 4, "T", "S"), r"Truncate: lengths must be .* at most .* got 2 to 4"),
        (Truncate, ("T", 2, 0, "T", "S"), r"Truncate: lengths must be positive .* got 2 to 0"),
        (PadDim, ("Q", 2, 4, "T", "S"), r"PadDim: dim must be a named dimension .* got 'Q'"),
        (PadDim, (1, 2, 4, "T", "S"), r"or its position there, got 1"),
        (PadDim, (0, 2, 4, ("...", "T"), ("...", "S")), r"must be a named dimension .* got 0"),
        (PadDim, ("T", 2, 4, "TN", "SM"), r"oshape must be ishape but for T, got \(T, N\) -> \(S"),
        (PadDim, ("T", 2, 4, "TN", "S"), r"oshape must be ishape but for T"),
        (PadDim, ("T", 2, 4, ("T",), ("()",)), r"the dimension must have a name on both sides"),
    ],
)
def test_what_is_no_such_change_is_refused(kind: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(*arguments)
