from collections.abc import Callable
from typing import Any

import pytest
import torch

from linops_core import (
    Chain,
    Dense,
    Diagonal,
    NamedLinop,
    Repeat,
    Role,
    Scalar,
    SplitError,
    SumReduce,
)
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND


class TestRepeat(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Repeat({"C": 2, "D": 3}, ("...", "N", "M"), ("C", "...", "N", "D", "M"))

    def sizes(self) -> dict[str, int]:
        return {"N": 2, "M": 2}


class TestSumReduce(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return SumReduce(("A", "...", "N", "B"), ("...", "N"), sizes={"A": 2, "B": 3})

    def sizes(self) -> dict[str, int]:
        return {"N": 2}


def test_known_repetitions_and_sums() -> None:
    x = torch.tensor([1.0, 2.0])
    A = Repeat({"C": 3}, "N", "NC")
    assert A(x).tolist() == [[1, 1, 1], [2, 2, 2]]
    assert A.H(torch.tensor([[1.0, 2, 3], [4, 5, 6]])).tolist() == [6, 15]
    assert A.N(x).tolist() == [3, 6]
    assert A.H.N(torch.eye(2, 3)).tolist() == [[1, 1, 1], [1, 1, 1]]
    S = SumReduce("NC", "N", sizes={"C": 3})
    assert S(torch.eye(2, 3)).tolist() == [1, 1]
    assert S.H(x).tolist() == A(x).tolist()
    assert S.N(torch.eye(2, 3)).tolist() == [[1, 1, 1], [1, 1, 1]]
    assert S.H.N(x).tolist() == [3, 6]


def test_a_repetition_is_a_view() -> None:
    x = torch.randn(3)
    y = Repeat({"C": 1000}, "N", "CN")(x)
    assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_the_normal_of_a_repetition_is_a_number() -> None:
    A = Repeat({"C": 2, "D": 3}, "N", "CND")
    assert isinstance(A.N, Scalar) and A.N.weight == 6
    part = A.split(A, {ND("C"): slice(0, 1)})
    assert isinstance(part.N, Scalar) and part.N.weight == 3
    assert isinstance(SumReduce("CN", "N", sizes={"C": 2}).H.N, Scalar)


def test_what_is_summed_over_and_what_is_new_can_be_sliced() -> None:
    S = SumReduce("CN", "N", sizes={"C": 4})
    assert (S.role("C"), S.H.role("C"), S.role("N")) == (Role.INPUT, Role.OUTPUT, Role.BATCH)
    part = S.split(S, {ND("C"): slice(1, 3)})
    assert part.size("C") == 2 and S.size("C") == 4
    assert part.H(torch.ones(5)).shape == (2, 5)
    assert part.split(part, {ND("C"): slice(1, 2)}).size("C") == 1
    assert S.split(S, {ND("N"): slice(0, 1)}) is S
    normal = S.N
    assert normal.role("C") is Role.INPUT and normal.role("C1") is Role.OUTPUT
    block = normal.split(normal, {ND("C"): slice(0, 1), ND("C1"): slice(1, 4)})
    assert block(torch.ones(1, 2)).tolist() == [[1, 1]] * 3


def test_a_sum_takes_any_size_where_none_was_given() -> None:
    S = SumReduce(("C", "...", "D"), ("...",))
    assert S.size("C") is S.size("N") is None
    for lengths in ((2, 5, 3), (4, 5, 1)):
        x = torch.randn(lengths, dtype=torch.float64)
        torch.testing.assert_close(S(x), x.sum((0, 2)))
        torch.testing.assert_close(S.N(x), x.sum((0, 2), keepdim=True).expand(lengths))
    assert S.N.role("C") is Role.OPAQUE
    part = S.split(S, {ND("C"): slice(0, 2), ND("D"): slice(1, 2)})
    assert part.H(torch.ones(5)).shape == (2, 5, 1)


def test_the_adjoint_of_a_sum_refuses_to_guess() -> None:
    S = SumReduce(("C", "D", "N"), ("N",), sizes={"C": 2})
    with pytest.raises(ValueError, match=r"SumReduce: the size of D must be known for the adjoint"):
        S.H(torch.ones(3))
    with pytest.raises(ValueError, match=r"the size of D must be known"):
        S.H.N(torch.ones(3))


def test_a_sum_in_a_chain_knows_its_normal() -> None:
    weight = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64)
    D = Diagonal(weight, ("C", "N"))
    A = SumReduce("CN", "N") @ D
    matrix = A.to_dense()
    torch.testing.assert_close(A.N.to_dense(), matrix.mH @ matrix)
    B = D @ Repeat({"C": 3}, "N", "CN")
    assert isinstance(B.N, Chain) and B.N.role("C") is Role.INNER
    torch.testing.assert_close(
        B.N.to_dense({"N": 2}), B.to_dense({"N": 2}).mH @ B.to_dense({"N": 2})
    )


def test_coil_maps_are_a_repetition_and_a_product() -> None:
    maps = torch.randn(3, 4, dtype=torch.complex128)
    dense = Dense(maps, ("C", "N"), ("N",), ("C", "N"))
    A = Diagonal(maps, ("C", "N")) @ Repeat({"C": 3}, "N", "CN")
    torch.testing.assert_close(A.to_dense({"N": 4}), dense.to_dense({"N": 4}))


def test_a_dimension_of_size_1_can_be_broadcast() -> None:
    A = Repeat({"N": 3, "C": 2}, ("M", "N"), ("M", "N", "C"), ["N"])
    x = torch.tensor([[1.0], [2.0]])
    assert A(x).tolist() == [[[1, 1]] * 3, [[2, 2]] * 3]
    assert A.H(A(x)).tolist() == A.N(x).tolist() == [[6], [12]]
    assert torch.equal(A.H.N(A(x)), 6 * A(x))
    assert A.role("N") is Role.OPAQUE and A.size("N") == 1 and A.H.size("N") == 3
    assert A.sizes("output") == A.H.sizes("input") == (None, 3, 2)
    with pytest.raises(SplitError, match=r"N cannot be split: it has size 1 on one side and 3 on"):
        A.split(A, {ND("N"): slice(0, 1)})
    for linop in (A, A.N):
        with pytest.raises(ValueError, match=r"N must have size 1, got 2 in an input"):
            linop(torch.ones(2, 2))
    for linop in (A.H, A.H.N):
        with pytest.raises(ValueError, match=r"N must have size 3, got 1 in an input"):
            linop(torch.ones(2, 1, 2))


def test_a_dimension_alone_can_be_broadcast_and_one_of_a_single_repetition_is_a_batch() -> None:
    A = Repeat({"N": 3}, "N", "N", ["N"])
    assert A.to_dense({"N": 1}).tolist() == [[1], [1], [1]]
    assert A.H.to_dense({"N": 3}).tolist() == [[1, 1, 1]]
    once = Repeat({"N": 1}, "N", "N", ["N"])
    assert once.role("N") is Role.BATCH and once.size("N") == 1
    new = Repeat({"C": 1}, "N", "CN", ["C"])  # as new as without
    assert new(torch.ones(2)).shape == (1, 2) and new.size("C") == 1


def test_neighbours_know_how_often() -> None:
    with pytest.raises(ValueError, match=r"Chain: C must have one size, got 2 in Repeat"):
        Diagonal(torch.ones(3, 4), ("C", "N")) @ Repeat({"C": 2}, "N", "CN")
    with pytest.raises(ValueError, match=r"Repeat: C must have size 2, got 3"):
        Repeat({"C": 2}, "N", "CN").H(torch.ones(3, 4))


def test_gradients_are_those_of_the_sum() -> None:
    x = torch.ones(3, requires_grad=True)
    weight = torch.arange(6.0).reshape(2, 3)
    (result,) = torch.autograd.grad((weight * Repeat({"C": 2}, "N", "CN")(x)).sum(), x)
    assert result.tolist() == weight.sum(0).tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Repeat({}, "N", "CN"), r"Repeat: .* and at least one dimension more"),
        (lambda: Repeat({"C": 2}, "N", "CDN"), r"named dimension .* as size, got D: None for"),
        (
            lambda: Repeat({"C": 2}, "N", ("C", "()", "N")),
            r"named dimension .* as size, got \(\): None",
        ),
        (lambda: Repeat({"C": 0}, "N", "CN"), r"a positive integer as size, got C: 0"),
        (lambda: Repeat({"C": 1.5}, "N", "CN"), r"a positive integer as size, got C: 1.5"),  # type: ignore[arg-type]
        (lambda: Repeat({"Q": 2}, "N", "CN"), r"a named dimension of the larger .* got Q: 2"),
        (lambda: Repeat({"C": 2}, "NM", "CMN"), r"the dimensions of the smaller one, in the same"),
        (lambda: Repeat({"C": 2}, "NM", "CN"), r"must have the dimensions of the smaller one"),
        (lambda: Repeat({"N": 2}, "N", "N"), r"must be in broadcast_dims to be repeated, got N"),
        (lambda: Repeat({"C": 2}, "N", "CN", ["N"]), r"n_repeats must have a size .* none for N"),
        (lambda: SumReduce("N", "N"), r"SumReduce: .* and at least one dimension more"),
        (lambda: SumReduce("N", "CN"), r"SumReduce: .* the dimensions of the smaller one"),
        (lambda: SumReduce(("()", "N"), "N"), r"SumReduce: .* a named dimension .* \(\)"),
        (lambda: SumReduce(("...", "N"), "N"), r"SumReduce: .*at least one dimension more"),
        (lambda: SumReduce("CN", "N", sizes={"N": 2}), r"sizes must be of dimensions that are sum"),
        (lambda: SumReduce("CN", "N", sizes={"C": -1}), r"a positive integer as size, got C: -1"),
    ],
)
def test_what_does_not_go_together_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Repeat(2, "N", "CN"), "Repeat: n_repeats must be a mapping of dimension to size"),  # type: ignore[arg-type]
        (lambda: SumReduce("CN", "N", sizes=2), "SumReduce: sizes must be a mapping .* 'int'"),  # type: ignore[arg-type]
    ],
)
def test_sizes_that_are_no_mapping_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()
