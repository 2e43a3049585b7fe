from itertools import product

import pytest
import torch

from linops_core import Add, Chain, Dense, Diagonal, Identity, NamedLinop, Role, Scalar, Zero
from linops_core._algebra._add import add
from nameddim import ND


def through(n: int = 2) -> NamedLinop:
    into = Dense(torch.ones(n, 3), ("K", "N"), ("N",), ("K",))
    return Chain(into, Dense(torch.ones(3, n), ("N", "K"), ("K",), ("N",)))


def test_sums_are_flattened() -> None:
    A, B, C = (Scalar(float(k), ("N",)) for k in range(3))
    assert Add(Add(A, B), C).linops == (A, B, C)
    assert list((A + B + C).children()) == [A, B, C]


def test_zeros_vanish_and_are_checked_before() -> None:
    A = Diagonal(torch.ones(3), ("N",))
    zero = Zero(("N",), sizes={"N": 3})
    assert A + zero is A and zero + A is A
    assert isinstance(add(zero, zero), Zero)
    with pytest.raises(ValueError, match=r"Add: N must have one size, got 3 .* and 4"):
        A + Zero(("N",), sizes={"N": 4})


def test_a_size_that_differs_names_both_terms_by_number() -> None:
    A, B = (Dense(torch.ones(2, n), ("M", "N")) for n in (3, 4))
    with pytest.raises(
        ValueError,
        match=r"^Add: N must have one size, got 3 in Dense \(N\) -> \(M\), operand 1, and 4 in "
        r"Dense \(N\) -> \(M\), operand 3; make both with one size$",
    ):
        Add(A, A, B)


def test_wildcards_are_resolved_by_the_other_terms() -> None:
    A = Scalar(2.0) + Diagonal(torch.ones(3), ("N",)) + Identity()
    assert isinstance(A, Add)
    assert {linop.ishape for linop in A.linops} == {("N",)}
    loose = Add(Scalar(2.0), Scalar(3.0))
    named = loose.resolved(ishape=(ND("N"),))
    assert isinstance(named, Add)
    assert {linop.oshape for linop in named.linops} == {("N",)}
    assert loose.resolved() is loose


def test_terms_of_different_spaces_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Add: all must have one shape"):
        Scalar(1.0, ("N",)) + Scalar(1.0, ("M",))


def test_a_term_without_the_inner_dimension_is_in_the_first_tile_alone() -> None:
    A = Add(through(), Scalar(1.0, ("N",)))
    assert A.role("K") is Role.INNER
    tiles = [A.split(A, {ND("K"): slice(k, k + 1)}) for k in range(2)]
    assert [len(list(tile.children())) for tile in tiles] == [2, 1]
    assert torch.equal(tiles[0].to_dense() + tiles[1].to_dense(), A.to_dense())


def test_a_tile_to_which_no_term_belongs_is_zero() -> None:
    first = through()
    second = through().renamed({ND("K"): ND("L")})
    A = Add(first, second)
    tile = A.split(A, {ND("K"): slice(1, 2), ND("L"): slice(1, 2)})
    assert isinstance(tile, Zero)
    assert tile(torch.ones(3)).tolist() == [0.0, 0.0, 0.0]
    pieces = [slice(0, 1), slice(1, 2)]
    total = torch.zeros(3, 3, dtype=torch.complex128)
    for k, m in product(pieces, pieces):
        total += A.split(A, {ND("K"): k, ND("L"): m}).to_dense()
    assert torch.equal(total, A.to_dense())


def test_inner_dimensions_of_different_sizes_cannot_be_sliced() -> None:
    A = Add(through(2), through(3))
    assert A.role("K") is Role.OPAQUE
    assert "sizes ['2', '3']" in str(A.why_opaque("K"))


def test_terms_on_threads_stay_together_in_a_sum_without_threads() -> None:
    A, B, C = (Scalar(float(n), ("N",)) for n in (1, 2, 3))
    threaded = Add(A, B, threaded=True, num_workers=2)
    whole = threaded + C
    assert isinstance(whole, Add) and whole.linops[0] is threaded and not whole.threaded
    assert whole(torch.ones(1)).tolist() == [6]
    assert Add(threaded, C, threaded=True).linops == (A, B, C)
    assert (Add(A, B) + C).linops == (A, B, C)
    with pytest.raises(ValueError, match=r"^Add: num_workers must be a positive integer, got 0"):
        Add(A, B, num_workers=0)


def test_terms_that_are_no_operators_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Add: operands must be NamedLinops, got <class 'float'>"):
        Add(Scalar(1.0), 2.0)  # type: ignore[arg-type]


def test_a_sum_of_sums_knows_the_lengths_that_only_one_term_knows() -> None:
    unknown, known = Scalar(2.0, ("N",)), Diagonal(torch.ones(3), ("N",))
    first = unknown + unknown
    for total, number in (
        (first + (unknown + known), 7),
        ((unknown + known) + first, 7),
        (first + known, 5),
        (known + first, 5),
    ):
        assert total.sizes("input") == total.sizes("output") == (3,)
        assert total.linked_positions() == ((0, 0),)
        torch.testing.assert_close(total(torch.ones(3)), torch.full((3,), float(number)))
        with pytest.raises(ValueError, match=r"Add: N must have one size, got 3 in .* and 4 in"):
            total + Diagonal(torch.ones(4), ("N",))
