import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_core import (
    FFT,
    Add,
    Chain,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Role,
    Scalar,
    VStack,
)
from nameddim import ND, NamedShape


def diagonal(n: int, name: str = "N") -> Diagonal:
    return Diagonal(torch.arange(1.0, n + 1), (name,))


def matrix(n_rows: int, n_columns: int, oname: str = "M", iname: str = "N") -> Dense:
    return Dense(torch.ones(n_rows, n_columns), (oname, iname), (iname,), (oname,))


def test_the_first_operand_is_applied_first() -> None:
    A = Chain(diagonal(2), matrix(1, 2))
    assert A(torch.ones(2)).tolist() == [3.0]
    assert A.H(torch.ones(1)).tolist() == [1.0, 2.0]


def test_chains_are_flattened() -> None:
    A, B, C = (diagonal(2) for _ in range(3))
    assert Chain(Chain(A, B), C).linops == (A, B, C)
    for whole in (C @ (B @ A), (C @ B) @ A):
        assert isinstance(whole, Chain) and whole.linops == (A, B, C)


def test_wildcards_are_resolved_in_both_directions() -> None:
    A = Chain(Scalar(2.0), FFT(1), Diagonal(torch.ones(2, 3), ("C", "Kx")), Scalar(2.0))
    assert [linop.ishape for linop in A.linops] == [("C", "Nx")] * 2 + [("C", "Kx")] * 2
    assert A.role("C") is Role.BATCH
    assert A.size("C") == 2
    backwards = Chain(Scalar(1.0), Scalar(2.0), Identity(("A", "B")))
    assert {linop.oshape for linop in backwards.linops} == {("A", "B")}


def test_wildcards_that_stay_are_resolved_later_all_along_the_chain() -> None:
    A = Chain(FFT(1), Scalar(2.0))
    assert A.ishape == ("...", "Nx")
    named = A.resolved(ishape=(ND("C"), ND("Nx")))
    assert isinstance(named, Chain)
    assert [linop.ishape for linop in named.linops] == [("C", "Nx"), ("C", "Kx")]
    assert A.resolved() is A


def test_neighbours_that_do_not_fit_are_refused_with_their_names() -> None:
    with pytest.raises(
        ValueError, match=r"Chain: Diagonal expects \(L\) but Dense returns \(M\)\. If they are"
    ):
        Chain(matrix(2, 3), diagonal(2, "L"))


@pytest.mark.parametrize(
    "linops",
    [
        (diagonal(3), matrix(2, 4)),
        (diagonal(3), Identity(("N",)), Scalar(2.0), diagonal(4)),
        (matrix(2, 3), diagonal(3, "M")),
    ],
)
def test_sizes_that_do_not_fit_are_refused_when_it_is_built(linops: Any) -> None:
    with pytest.raises(ValueError, match=r"Chain: . must have one size, got \d in .* and \d in"):
        Chain(*linops)


@pytest.mark.parametrize("combine", [Chain, Add, VStack])
def test_operators_that_do_not_fit_raise_one_error_with_one_traceback(
    combine: Callable[..., NamedLinop],
) -> None:
    A = Dense(torch.ones(3, 4), ("M", "N"), ("N",), ("M",))
    B = Dense(torch.ones(5, 3), ("P", "K"), ("K",), ("P",))
    with pytest.raises(ValueError, match=r"\(N\)|\(M\)") as refused:
        combine(A, B, B)
    assert "".join(traceback.format_exception(refused.value)).count("Traceback") == 1


def test_a_size_is_not_carried_over_where_a_name_changes_its_meaning() -> None:
    swap = Identity(("A", "B"), ("B", "A"))
    A = Chain(Diagonal(torch.ones(2, 3), ("A", "B")), swap, Diagonal(torch.ones(2, 3), ("B", "A")))
    assert A(torch.ones(2, 3)).shape == (2, 3)


def test_something_to_compose_is_needed() -> None:
    with pytest.raises(ValueError, match=r"Chain: there must be at least one operator, got none"):
        Chain()
    with pytest.raises(TypeError, match=r"Chain: operands must be NamedLinops, got <class 'floa"):
        Chain(2.0)  # type: ignore[arg-type]


def test_two_dimensions_of_one_name_cannot_be_sliced() -> None:
    A = Chain(matrix(2, 3), matrix(4, 2, "N", "M"))
    assert A.role("N") is Role.OPAQUE
    assert "2 separate dimensions along the chain have this name" in str(A.why_opaque("N"))
    assert A.role("M") is Role.INNER
    assert Chain(A, matrix(1, 4, "M", "N")).role("M") is Role.OPAQUE


def test_the_size_of_a_name_with_two_meanings_is_that_of_the_input() -> None:
    A = Chain(matrix(2, 3), matrix(4, 2, "N", "M"))
    assert A.size("N") == 3
    inside = Chain(matrix(2, 3), matrix(4, 2, "L", "M"), matrix(5, 4, "M", "L"))
    assert inside.size("M") == 5
    assert inside.H.size("M") == 5
    unknown = Chain(Identity(("N",), ("K",)), matrix(2, 3, "M", "K"), matrix(4, 2, "N", "M"))
    assert unknown.size("N") == 3  # the identity says that K is N
    assert unknown.sizes("output") == (4,)


def test_the_normal_is_folded_from_the_inside() -> None:
    F = FFT(1, ("C",))
    A = Chain(diagonal(3, "Nx"), Identity(("Nx",)), name="A")
    assert [part.signature for part in (A.N, *A.N.children())] == [
        "Diagonal.N (Nx) -> (Nx)",
        "Diagonal (Nx) -> (Nx)",
    ]
    S = Dense(torch.ones(2, 3), ("C", "Nx"), ("Nx",), ("C", "Nx"))
    assert "FFT" not in repr((F @ S).N)


def test_an_operand_is_checked_when_called() -> None:
    class Grows(NamedLinop):
        def __init__(self) -> None:
            super().__init__(NamedShape(("N",)))

        @staticmethod
        def fn(linop: Any, x: Tensor) -> Tensor:
            return torch.cat([x, x])

    with pytest.raises(ValueError, match=r"Diagonal: N must have size 3, got 4"):
        Chain(Grows(), diagonal(3))(torch.ones(2))


def test_a_chain_with_a_sum_inside_is_cut_once_per_tile() -> None:
    through = Chain(matrix(2, 3, "K"), matrix(3, 2, "N", "K"))
    A = Chain(diagonal(3), Add(through, Scalar(1.0, ("N",))))
    tiles = [A.split(A, {ND("K"): slice(k, k + 1)}) for k in range(2)]
    total = tiles[0].to_dense() + tiles[1].to_dense()
    assert torch.equal(total, A.to_dense())
