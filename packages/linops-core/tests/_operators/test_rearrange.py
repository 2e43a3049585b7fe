from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import Diagonal, Identity, NamedLinop, Rearrange, Role, SplitError
from linops_core.testing import BaseNamedLinopTests
from linops_core.testing.strategies import Known, rearrangements
from nameddim import ND


class TestRearrange(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        # The adjoint has to split M: one of its two lengths is known.
        return Rearrange(
            "a ... (b c)", "c (b a) 1 ...", ("A", "...", "N"), ("C", "M", "U", "..."), {"b": 2}
        )

    def sizes(self) -> dict[str, int]:
        return {"A": 2, "N": 6, "C": 3, "M": 4, "U": 1}


def test_known_rearrangements() -> None:
    x = torch.arange(6)
    transposed = Rearrange("a b", "b a", "AB", "BA")
    assert transposed(x.reshape(2, 3)).tolist() == [[0, 3], [1, 4], [2, 5]]
    split = Rearrange("(a b)", "a b", ("N",), ("A", "B"), {"b": 2})
    assert split(x).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert split.H(split(x)).tolist() == x.tolist()
    merged = Rearrange("a b", "(b a)", "AB", "N", {"a": 2})
    assert merged(x.reshape(2, 3)).tolist() == [0, 3, 1, 4, 2, 5]
    assert torch.equal(merged.H(merged(x.reshape(2, 3))), x.reshape(2, 3))
    assert Rearrange("a", "1 a 1", "A", "UAV")(x).shape == (1, 6, 1)


def test_a_run_may_stand_for_any_number_of_dimensions() -> None:
    A = Rearrange("... (a b)", "b ... a", ("...", "N"), ("B", "...", "A"), {"a": 2})
    for batch in ((), (5,), (5, 1, 7)):
        x = torch.randn(*batch, 6)
        expected = x.reshape(*batch, 2, 3).movedim(-1, 0)
        assert torch.equal(A(x), expected)
        assert torch.equal(A.H(expected), x)


@given(rearrangements(), st.data())
def test_every_element_goes_where_the_pattern_says_in_any_layout(
    known: Known, data: st.DataObject
) -> None:
    A, where = known.linop, known.spaces
    x = torch.arange(1.0, 1 + known.matrix.shape[1], dtype=torch.float64)
    x = x.reshape(where.lengths(where.ishape))
    if x.ndim:
        x = x.transpose(0, -1).contiguous().transpose(0, -1)
    y = A(x)
    assert torch.equal(y.flatten(), known.matrix.real @ x.flatten())
    assert list(y.shape) == where.lengths(where.oshape)
    assert torch.equal(A.H(y), x)


@given(rearrangements())
def test_lengths_that_were_given_are_the_sizes(known: Known) -> None:
    A = known.linop
    assert isinstance(A, Rearrange)
    for dim in A.dims:
        assert A.size(dim) in (None, known.spaces.sizes[dim])
    items = zip(A.ishape, A._sides[0], strict=True)
    complete = [dim for dim, item in items if A._lengths.keys() >= set(item)]
    assert all(A.size(dim) == known.spaces.sizes[dim] for dim in complete)


def test_a_result_is_a_view_where_nothing_is_merged() -> None:
    x = torch.zeros(2, 3, 4)
    split = Rearrange("a b (c d)", "d b a c", "ABN", "DBAC", {"d": 2})
    for A in (Rearrange("a b c", "c a b", "ABC", "CAB"), split, split.H.H):
        assert A(x).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_the_normal_is_the_identity_and_needs_no_lengths() -> None:
    A = Rearrange("a b", "(b a)", "AB", "N")
    assert isinstance(A.N, Identity) and isinstance(A.H.N, Identity)
    assert A.N.role("A") is Role.BATCH
    with pytest.raises(ValueError, match=r"to split a dimension into \(b a\) all lengths but"):
        A.H(torch.ones(6))


def test_only_what_passes_through_alone_can_be_sliced() -> None:
    A = Rearrange("a (b c) d e", "b d (a c) e", "ANDE", "BDMF", {"c": 2, "d": 4})
    assert A.role("D") is Role.BATCH
    for dim, reason in (
        ("N", r"it is made of the axes \(b c\)"),
        ("M", r"it is made of the axes \(a c\)"),
        ("A", "it is merged with others or has another name"),
        ("B", "it is merged with others or has another name"),
        ("E", "it is merged with others or has another name"),
    ):
        assert A.role(dim) is Role.OPAQUE
        with pytest.raises(SplitError, match=rf"{dim} cannot be split: {reason}"):
            A.split(A, {ND(dim): slice(0, 1)})
    part = A.split(A, {ND("D"): slice(1, 3)})
    x = torch.randn(3, 6, 4, 5)
    assert part.size("D") == 2 and A.size("D") == 4
    assert torch.equal(part(x[:, :, 1:3]), A(x)[:, 1:3])
    assert part.split(part, {ND("D"): slice(1, 2)}).size("D") == 1
    assert A.split(A, {ND("D"): slice(0, 4)}) is A


def test_a_name_for_two_axes_is_opaque_and_has_a_size_on_each_side() -> None:
    A = Rearrange("a b", "b a", "AB", "AB", {"a": 2, "b": 3})
    assert A.role("A") is Role.OPAQUE and A.size("A") == 2
    assert A.sizes("input") == (2, 3) and A.sizes("output") == (3, 2)
    assert "its axes differ" in str(A.why_opaque("A"))
    x = torch.randn(2, 3)
    assert torch.equal(A(x), x.mT) and torch.equal(A.H(x.mT), x)
    assert A.split(A, {ND("C"): slice(0, 1)}) is A


def test_a_dimension_of_size_1_is_sliced_like_any() -> None:
    A = Rearrange("a 1", "1 a 1", "AU", "VAU")
    assert (A.size("U"), A.size("V")) == (1, 1)
    assert (A.role("U"), A.role("V")) == (Role.BATCH, Role.OUTPUT)
    assert A.split(A, {ND("V"): slice(0, 1)}) is A
    with pytest.raises(ValueError, match=r"Rearrange: U must have size 1, got 2"):
        A(torch.ones(3, 2))


def test_names_that_a_run_stands_for_keep_their_role() -> None:
    A = Rearrange("... (a b) c", "c ... a b", ("...", "N", "C"), ("C", "...", "A", "B"), {"a": 2})
    named = A.resolved(ishape=tuple(map(ND, ("P", "Q", "N", "C"))))
    assert named.oshape == ("C", "P", "Q", "A", "B")
    assert [named.role(dim) for dim in "PQC"] == [Role.BATCH] * 3
    assert (named.size("A"), named.size("Q"), named.size("C")) == (2, None, None)
    assert named.role("N") is named.role("B") is Role.OPAQUE
    assert named(torch.ones(3, 1, 4, 5)).shape == (5, 3, 1, 2, 2)


def test_sizes_are_known_to_neighbours() -> None:
    A = Rearrange("(a b)", "a b", "N", "AB", {"a": 2, "b": 3})
    assert A.size("N") == 6
    with pytest.raises(ValueError, match=r"Chain: B must have one size, got 3 in Rearrange"):
        Diagonal(torch.ones(2, 4), ("A", "B")) @ A


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(5, 4), r"Rearrange: the size along axis 0 must be a multiple of 2 for \(a b\)"),
        (torch.ones(4, 5), r"Rearrange: C must have size 4, got 5"),
        (torch.ones(4), r"Rearrange: the input must have 2 dimensions"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(x: torch.Tensor, message: str) -> None:
    A = Rearrange("(a b) c", "c a b", "NC", "CAB", {"a": 2, "c": 4})
    with pytest.raises(ValueError, match=message):
        A(x)


def test_an_axis_of_another_length_is_refused() -> None:
    A = Rearrange("a b", "b a", "AB", "AB", {"a": 2, "b": 3})
    with pytest.raises(ValueError, match=r"A must have size 2, got 3 in an input"):
        A(torch.ones(3, 2))
    with pytest.raises(ValueError, match=r"the size along axis 0 must be 2 for \(a\), got shape"):
        A.fn(A, torch.ones(3, 2))  # for a caller who has not checked it


@pytest.mark.parametrize(
    ("patterns", "shapes", "lengths", "message"),
    [
        (("a b", "a"), ("AB", "A"), None, r"both patterns must have the same axes, got 'a b' -> "),
        (("a b", "b a"), ("A", "BA"), None, r"one item for each dimension .* got 'a b' for \(A\)"),
        (("... a", "a ..."), ("BA", "AB"), None, r"'\.\.\.' where the shape has it, got '\.\.\. a"),
        (("a", "a"), (("...",), ("...",)), None, r"one item for each dimension .* got 'a' for"),
        (("a", "a"), ("A", "A"), {"q": 2}, r"axes_lengths must be .* got q: 2 for 'a'"),
        (("a", "a"), ("A", "A"), {"a": 0}, r"axes_lengths must be positive .* got a: 0"),
        (("a", "a"), ("A", "A"), {"a": 2.0}, r"axes_lengths must be positive .* got a: 2.0"),
        (
            ("... a", "... a"),
            (("...", "A"),) * 2,
            {"...": 2},
            r"axes_lengths must be .* got \.\.\.",
        ),
    ],
)
def test_what_is_no_rearrangement_is_refused(
    patterns: Sequence[str], shapes: Sequence[Any], lengths: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Rearrange(patterns[0], patterns[1], tuple(shapes[0]), tuple(shapes[1]), lengths)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "a", "N", "N"), "Rearrange: a pattern must be a string, got None"),
        (("a", "a", "N", "N", 2), "Rearrange: axes_lengths must be a mapping .* 'int'"),
    ],
)
def test_what_is_of_another_type_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Rearrange(*arguments)
