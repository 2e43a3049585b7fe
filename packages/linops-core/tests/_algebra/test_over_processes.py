"""Compositions of operators of which several processes have a part each."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from linops_core import FFT, Diagonal, Identity, NamedLinop, Side, Totals, VStack
from linops_core.siblings import is_over_processes, totals_of
from nameddim import ND


class Spread(Diagonal):
    """A diagonal of which this process has a part."""

    add: Callable[[Tensor], Tensor] = staticmethod(torch.clone)


@totals_of.register(Spread)
def _(linop: Spread, side: Side) -> Totals:
    return Totals(type(linop).add, frozenset({ND("N")}))


class Elsewhere(Spread):
    add = staticmethod(torch.neg)


W = torch.ones(2)
spread, local = Spread(W, ("N",)), Diagonal(W, ("N",))


@pytest.mark.parametrize(
    "A",
    [
        local @ spread,
        spread @ local,
        spread + local,
        spread + 2j * Identity(("N",)),
        (spread @ local).N,
        spread.conj(),
    ],
)
def test_a_composition_has_the_parts_of_its_operands(A: NamedLinop) -> None:
    for side in ("input", "output"):
        totals = totals_of(A, side)
        assert totals is not None and totals.add is Spread.add


def test_operators_of_one_process_say_nothing() -> None:
    assert totals_of(local @ local + local, "input") is None


@pytest.mark.parametrize(
    ("A", "match"),
    [
        (spread @ FFT(dims=("N",)), "N must be a batch"),
        (spread + FFT(dims=("N",)), "N must be a batch"),
        (spread + Elsewhere(W, ("N",)), "all terms must have the same parts"),
        (VStack(spread, local), "must have whole vectors"),
    ],
)
def test_what_mixes_parts_is_refused(A: NamedLinop, match: str) -> None:
    with pytest.raises(NotImplementedError, match=match):
        totals_of(A, "input")


def test_what_mixes_parts_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(is_over_processes._answers, Spread, lambda linop: True)
    F, both = FFT(dims=("N",)), VStack(spread, local)
    for number in range(3):
        with pytest.raises(NotImplementedError, match="N must be a batch"):
            [lambda: F @ spread, lambda: F @ (local @ spread), lambda: F.H + spread][number]()
    assert (both @ local)(W).shape == (2, 2)  # of which no sums are known
