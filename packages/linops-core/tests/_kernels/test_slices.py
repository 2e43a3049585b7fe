"""Supports of compositions, and the arithmetic of slices that they are made with."""

from unittest.mock import patch

import pytest
import torch

from linops_core import (
    Add,
    Chain,
    Concat,
    Convolution,
    Crop,
    Dense,
    Diagonal,
    NamedLinop,
    PadLast,
    Stack,
    Truncate,
)
from linops_core._kernels._slices import clipped_slice, hull, intersection
from nameddim import ND, NamedDimension, NamedShape


def blur(here: str, there: str, size: int = 9, taps: int = 3) -> Convolution:
    return Convolution(torch.ones(taps), (), (here,), (there,), grid_size=[size])


def part(linop: NamedLinop, **window: slice) -> NamedLinop:
    return linop.split(linop, {ND(dim): piece for dim, piece in window.items()})


def test_what_is_outside_is_cut_off() -> None:
    assert clipped_slice(1, 3, 5) == slice(1, 3)
    assert clipped_slice(-4, 9, 5) == slice(0, 5)
    assert clipped_slice(-4, -2, 5) == slice(0, 0)
    assert clipped_slice(5, 9, 5) == slice(5, 5)


def test_hulls_and_intersections_are_one_slice() -> None:
    assert hull([slice(2, 3)]) == slice(2, 3)
    assert hull([slice(2, 3), slice(0, 1), slice(5, 6)]) == slice(0, 6)
    assert intersection([]) is intersection([None, None]) is None
    assert intersection([slice(0, 4), None, slice(2, 9)]) == slice(2, 4)
    assert intersection([slice(0, 2), slice(5, 6)]) == slice(5, 5)
    assert hull([slice(3, 3)]) == hull([]) == slice(0, 0)
    assert hull([slice(9, 9), slice(2, 3)]) == slice(2, 3)


def test_an_operator_that_says_nothing_has_no_support() -> None:
    A = Dense(torch.ones(2, 3))
    assert [A.support(dim) for dim in ("M", "N", "Q")] == [None] * 3
    assert A.N.support("M") is None


@pytest.mark.parametrize(
    ("linop", "supports"),
    [
        (PadLast([7], [3], ("N",), ("M",)), {"N": slice(0, 3), "M": slice(2, 5)}),
        (Crop([3], [7], ("N",), ("M",)), {"N": slice(2, 5), "M": slice(0, 3)}),
        (Truncate("N", 4, 2, ("N",), ("M",)), {"N": slice(0, 2), "M": slice(0, 2)}),
        (part(PadLast([7], [3], ("N",), ("M",)), M=slice(5, 7)), {"N": slice(0, 0)}),
        (PadLast([7], [3], ("N",), ("N",)), {"N": None, "Q": None}),
    ],
)
def test_a_placement_supports_what_has_a_place(
    linop: NamedLinop, supports: dict[str, slice | None]
) -> None:
    for derived in (linop, linop.H, linop.conj(), linop.H.H):
        assert {dim: derived.support(dim) for dim in supports} == supports


def test_the_normal_of_a_placement_supports_what_it_keeps() -> None:
    assert Crop([3], [7], ("N",), ("M",)).N.support("N") == slice(2, 5)


def test_halos_add_up_along_a_chain() -> None:
    A = Chain(blur("A", "B"), blur("B", "C", taps=5), blur("C", "D"))
    tile = part(A, D=slice(4, 5))
    result = {dim: tile.support(dim) for dim in "ABCD"}
    assert result == {"A": slice(0, 9), "B": slice(1, 8), "C": slice(3, 6), "D": slice(0, 1)}
    assert {dim: tile.H.support(dim) for dim in "ABCD"} == result
    narrow = part(tile, **{dim: piece for dim, piece in result.items() if piece is not None})
    assert torch.equal(narrow.to_dense(), tile.to_dense())


def test_a_conjugate_has_the_supports_of_what_it_conjugates() -> None:
    tile = part(blur("A", "B"), B=slice(4, 6)).conj()
    assert [tile.support(dim) for dim in "AB"] == [slice(3, 7), slice(0, 2)]


def test_narrow_dimensions_make_others_narrow_in_both_directions() -> None:
    blurs = [blur(here, there, 20) for here, there in ("BC", "CD", "DE")]
    tile = part(Chain(*blurs), E=slice(10, 11))
    assert [tile.support(dim) for dim in "BCD"] == [slice(7, 14), slice(8, 13), slice(9, 12)]
    A = part(Chain(PadLast([20], [4], ("A",), ("B",), ()), *blurs), E=slice(5, 6))
    result = {dim: A.support(dim) for dim in "ABCDE"}
    assert result == {
        "A": slice(0, 1), "B": slice(8, 9), "C": slice(7, 8), "D": slice(6, 7), "E": slice(0, 1),
    }  # fmt: skip
    narrow = part(A, **{dim: piece for dim, piece in result.items() if piece is not None})
    assert narrow.to_dense().item() == A.to_dense()[0, 0]


def test_the_normal_of_a_tile_stays_near_it() -> None:
    tile = part(blur("A", "B"), B=slice(4, 6)).N
    assert [tile.support(dim) for dim in ("A", "A1", "B")] == [
        slice(3, 7),
        slice(3, 7),
        slice(0, 2),
    ]
    A = part(blur("A", "B").N, B=slice(4, 6))
    assert A.support("A") == A.support("A1") == slice(3, 7)


def test_a_chain_through_an_opaque_dimension_has_no_support() -> None:
    A = Chain(PadLast([5], [3], ("N",), ("M",)), Crop([3], [5], ("M",), ("N",)))
    assert A.support("N") is None  # there and again
    assert A.support("M") == slice(1, 4)


def test_no_slice_goes_past_a_dimension_that_cannot_be_sliced() -> None:
    whole = Convolution(torch.ones(3), (), ("B",), ("C",))
    A = Chain(part(blur("A", "B"), A=slice(0, 2)), whole, part(blur("C", "D"), D=slice(0, 2)))
    assert A.support("D") == slice(0, 2) and A.support("B") is A.support("C") is None
    there_and_back = Chain(
        part(blur("N", "M"), N=slice(0, 2)), blur("M", "N"), Truncate("N", 9, 4, ("N",), ("L",))
    )
    assert there_and_back.support("L") == slice(0, 4)
    assert there_and_back.support("M") == slice(0, 3)


def test_a_sum_supports_what_any_term_does() -> None:
    A = Add(
        PadLast([7], [2], ("N",), ("M",)), part(PadLast([9], [2], ("N",), ("M",)), M=slice(0, 7))
    )
    assert A.support("M") == slice(2, 5)
    assert Add(A, Dense(torch.ones(7, 2))).support("M") is None


def test_a_term_without_an_inner_dimension_would_get_lost_with_the_start_of_it() -> None:
    inside = part(blur("N", "K"), N=slice(4, 6)) @ Diagonal(torch.ones(2), ("N",))
    terms = part(blur("K", "M"), M=slice(3, 7)) @ inside
    assert terms.support("K") == slice(3, 7)
    A = Add(terms, Dense(torch.ones(4, 2)))
    assert A.support("K") is None


def test_operators_side_by_side_support_what_any_does() -> None:
    operands = [
        part(blur("N", "M"), M=piece, N=slice(0, 4)) for piece in (slice(0, 2), slice(4, 6))
    ]
    row, column = Concat(*operands, idim="N"), Concat(*operands, odim="M")
    assert (row.support("N"), row.support("M")) == (None, slice(0, 2))
    assert (column.support("N"), column.support("M")) == (slice(0, 4), slice(0, 3))
    for A in (Stack(*operands, idim_and_idx=("K", 0)), Stack(*operands, odim_and_idx=("K", 0))):
        assert [A.support(dim) for dim in "KNM"] == [None, slice(0, 4), slice(0, 2)]


def test_an_operand_that_reaches_nothing_does_not_widen_the_hull() -> None:
    ends = (slice(0, 1), slice(7, 8))
    A = Concat(*(part(blur("N", "M"), M=end, N=slice(0, 4)) for end in ends), odim="M")
    assert A.linops[1].support("N") == slice(0, 0)
    assert A.support("N") == slice(0, 2)


def test_a_chain_of_what_does_not_meet_is_zero() -> None:
    A = Chain(
        part(PadLast([9], [2], ("N",), ("K",)), N=slice(0, 1)),
        part(blur("K", "M"), M=slice(0, 1)),
    )
    assert [A.support(dim) for dim in "NKM"] == [slice(0, 0)] * 3
    assert not A.to_dense().any()


def levels(n: int) -> NamedLinop:
    """Return sums of chains of sums of chains, with 2 n + 1 convolutions in them."""
    A: NamedLinop = blur("N", "N0", 64)
    for i in range(n):
        A = Add(Chain(A, blur(f"N{i}", f"N{i + 1}", 64)), blur("N", f"N{i + 1}", 64))
    return A


@pytest.mark.parametrize("n", [1, 4, 12])
def test_each_operator_of_nested_ones_is_asked_once(n: int) -> None:
    tile, n_parts = part(levels(n), **{f"N{n}": slice(30, 31)}), 2 * n + 1
    for A, times in ((tile, 1), (tile.H, 1), (tile.conj(), 1), (tile.N, 2)):
        assert A.support("N") == slice(29 - n, 32 + n)
        assert n_questions(A, "N") == times * n_parts


def n_questions(linop: NamedLinop, dim: str) -> int:
    """Return how many convolutions are asked for their support."""
    asked, support = list[object](), Convolution.support

    def counted(self: Convolution, dim: NamedDimension | str) -> slice | None:
        asked.append(self)
        return support(self, dim)

    with patch.object(Convolution, "support", counted):
        linop.support(dim)
    return len(asked)


def test_dimensions_inside_of_nested_operators_are_narrow_too() -> None:
    tile = part(levels(2), N2=slice(30, 31))
    assert [tile.support(dim) for dim in ("N", "N0", "N1", "N2")] == [
        slice(27, 34), None, None, slice(0, 1)
    ]  # fmt: skip
    there = Chain(Add(Chain(blur("A", "B"), blur("B", "C"))), blur("C", "D"))
    tile = part(there, D=slice(4, 5))
    assert [tile.support(dim) for dim in "ABCD"] == [
        slice(1, 8), slice(2, 7), slice(3, 6), slice(0, 1)
    ]  # fmt: skip


def test_a_reason_is_asked_for_once_however_deep_it_is() -> None:
    class Opaque(NamedLinop):
        asked = 0
        fn = adj_fn = staticmethod(lambda linop, x: x)

        def why_opaque(self, dim: NamedDimension | str) -> str | None:
            Opaque.asked += 1
            return "nobody knows"

    A: NamedLinop = Opaque(NamedShape(("N",)))
    for _ in range(10):
        A = Chain(Diagonal(torch.ones(2), ("N",)), Add(A, Diagonal(torch.ones(2), ("N",))).conj())
    Opaque.asked = 0
    reason = A.why_opaque("N")
    assert reason is not None and reason.endswith("Opaque (N) -> (N): nobody knows")
    assert Opaque.asked == 1
