"""The strategies reach what they promise, and the check that goes with them sees what is wrong."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Add, Chain, Concat, Dense, Diagonal, NamedLinop, Normal, Stack
from linops_core._algebra._wrapper import Conjugate
from linops_core.testing.strategies import (
    Known,
    LawError,
    Spaces,
    between,
    check,
    leaf,
    leaves,
    matrix_of,
    spaces,
    trees,
)
from linops_core.testing.strategies._leaves import LEAVES, MODULES

once = settings(database=None, max_examples=2000, phases=[Phase.generate])


def test_trees_have_every_kind_of_composition() -> None:
    missing = {Chain, Add, Concat, Stack, Normal, Conjugate}

    def none_is_missing(known: Known) -> bool:
        missing.difference_update(map(type, known.linop.modules()))
        return not missing

    # Normal operators are drawn where input and output have the same lengths.
    square = spaces(same=True).flatmap(lambda where: trees(where=where))
    find(square, none_is_missing, settings=once)


def test_leaves_have_wildcards_complex_weights_and_parameters() -> None:
    find(leaves(), lambda known: "..." in known.linop.ishape, settings=once)
    find(leaves(), lambda known: known.linop.ishape[:1] == ("...",) and "B" in known.linop.ishape)
    find(leaves(), lambda known: any(p.is_complex() for p in known.linop.parameters()))


def test_leaves_are_those_of_every_module() -> None:
    (folder,) = {Path(inspect.getfile(module)).parent for module in MODULES}
    texts = {file.stem: file.read_text("utf-8") for file in folder.glob("*.py")}
    counts = {name: n for name, text in texts.items() if (n := text.count("\n@leaf("))}
    assert counts.keys() == {module.__name__.split(".")[-1] for module in MODULES}
    assert len(LEAVES) == sum(counts.values())


class Own(Diagonal):
    """An operator of a user."""


@leaf(between(lambda where: where.ishape == where.oshape != ()))
def own(draw: st.DrawFn, where: Spaces) -> Known:
    weight = torch.full(where.lengths(where.ishape), 2.0)
    matrix = matrix_of(lambda o, i: 2 * (o == i), where)
    return Known(Own(weight, where.ishape), matrix, where)


def test_trees_are_made_of_own_operators_too() -> None:
    kinds = {Own, Dense, Chain, Add}

    def all_are_seen(known: Known) -> bool:
        kinds.difference_update(map(type, known.linop.modules()))
        return not kinds

    square = spaces(same=True).flatmap(lambda where: trees(where=where, own=[own]))
    find(square, all_are_seen, settings=once)
    assert own not in LEAVES  # which are drawn for all others


@settings(max_examples=settings().max_examples // 3)
@given(trees(own=[own]))
def test_trees_of_own_operators_have_their_matrices(known: Known) -> None:
    check(known)


@given(spaces(same=True))
def test_spaces_may_be_the_same(where: Spaces) -> None:
    assert where.ishape == where.oshape
    assert where.reverse == where


def test_a_matrix_is_filled_row_by_row() -> None:
    where = Spaces(("A", "B"), ("C",), {"A": 2, "B": 2, "C": 2})
    result = matrix_of(lambda o, i: 100 * o["C"] + 10 * i["A"] + i["B"], where)
    assert result.real.tolist() == [[0, 1, 10, 11], [100, 101, 110, 111]]


WHERE = Spaces(("N",), ("M",), {"N": 2, "M": 3})
W = torch.tensor([[1.0, 2j], [0.0, 1.0], [3.0, 0.0]], dtype=torch.complex128)


class WrongAdjoint(Dense):
    @staticmethod
    def adj_fn(linop: Any, x: Tensor) -> Tensor:
        return Dense.adj_fn(linop, x).conj()


class WrongNormal(Dense):
    @staticmethod
    def normal_fn(linop: Any, x: Tensor) -> Tensor:
        return x


class WrongTile(Dense):
    @staticmethod
    def split(linop: Any, tile: Any) -> NamedLinop:
        return Dense.split(linop, {dim: slice(0, p.stop - p.start) for dim, p in tile.items()})


class OpaqueForNoReason(Dense):
    def why_opaque(self, dim: str) -> str | None:
        return "I do not like it"


class OpaqueWithoutWords(Dense):
    def why_opaque(self, dim: str) -> str | None:
        return ""


class SupportTooNarrow(Dense):
    def support(self, dim: str) -> slice | None:
        return slice(0, 1) if dim == "N" and self.size("N") == 2 else None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (SupportTooNarrow, r"the part within \{'N': slice\(0, 1, None\)\}: the matrix must be"),
        (WrongAdjoint, r"whole: the matrix must be"),
        (WrongNormal, r"whole: the matrix must be"),
        (WrongTile, r"M in tiles of 1: the matrix must be"),
        (OpaqueForNoReason, r"an opaque dimension must have a reason, got 'I do not like it'"),
        (OpaqueWithoutWords, r"an opaque dimension must have a reason, got ''"),
    ],
)
def test_the_check_sees_a_planted_bug(kind: type[Dense], message: str) -> None:
    check(Known(Dense(W), W, WHERE))
    with pytest.raises(LawError, match=message):
        check(Known(kind(W), W, WHERE))


def test_the_check_sees_another_shape_and_accepts_a_known_reason() -> None:
    with pytest.raises(LawError, match=r"the matrix must be"):
        check(Known(Dense(W), W[:2], WHERE))
    known = Known(OpaqueForNoReason(W), W, WHERE, frozenset("NM"))
    check(known)
    with pytest.raises(LawError, match=r"N: an opaque dimension must have a reason"):
        check(replace(known, opaque=frozenset("M")))


def test_an_error_of_rounding_is_no_error() -> None:
    where = Spaces(("N",), ("N",), {"N": 1})
    weight = torch.tensor([1 + 1e-12], dtype=torch.complex128)
    one = torch.ones(1, 1, dtype=torch.complex128)
    check(Known(Diagonal(weight, ("N",)), one, where))
    with pytest.raises(LawError, match=r"the matrix must be"):
        check(Known(Diagonal(weight, ("N",)), one, where), rtol=1e-14)
