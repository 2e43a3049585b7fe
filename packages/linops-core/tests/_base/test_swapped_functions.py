"""Adjoints made by hand, as programs for torch-named-linops do, are adjoints."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_core import (
    Add,
    Chain,
    Concat,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Rearrange,
    Sampling,
    Scalar,
    Stack,
    Zero,
)
from linops_core.testing._functions import adjoint_by_hand
from nameddim import ND

Linop = Any  # its functions are assigned


def dense(n_rows: int = 3, there: str = "M", here: str = "N") -> NamedLinop:
    return Dense(torch.randn(n_rows, 3, dtype=torch.complex128), (there, here), (here,), (there,))


def matrix_of(linop: NamedLinop) -> Tensor:
    unknown = [dim for dim in linop.ishape if linop.size(dim) is None and dim != "..."]
    return linop.to_dense({str(dim): 3 for dim in unknown}, torch.complex128)


KINDS: dict[str, Callable[[], NamedLinop]] = {
    "Dense": dense,
    "Diagonal": lambda: Diagonal(torch.randn(3, dtype=torch.complex128), ("N",)),
    "Scalar": lambda: Scalar(2j, ("N",)),
    "Rearrange": lambda: Rearrange("a b", "b a", ("N", "M"), ("M", "N")),
    "Zero": lambda: Zero(("N",), ("M",), sizes={"N": 3, "M": 2}),
    "Sampling": lambda: Sampling([torch.tensor([1, 1])], [3]),
    "Chain": lambda: dense(2, "P", "M") @ dense(),
    "Add": lambda: dense() + 1j * dense(),
    "Stack": lambda: Stack(dense(), dense(), odim_and_idx=("C", 0)),
    "Concat": lambda: Concat(dense(1), dense(2), odim="M"),
    "Conjugate": lambda: (dense() + dense()).conj().conj(),
    "Normal": lambda: Diagonal(torch.randn(3, dtype=torch.complex128), ("N",)).N,
}


def as_in_the_reference(A: NamedLinop) -> NamedLinop:
    adj: Linop = adjoint_by_hand(A)
    adj.split, adj.adj_split = adj.adj_split, adj.split
    return adj  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_hand", [adjoint_by_hand, as_in_the_reference])
def test_swapping_the_functions_of_a_copy_makes_its_adjoint(kind: str, by_hand: Any) -> None:
    A = KINDS[kind]()
    matrix, B = matrix_of(A), by_hand(A)
    made = {
        B: matrix.mH,
        B.H: matrix,
        B.N: matrix @ matrix.mH,
        B.T: matrix.conj(),
        B @ A: matrix.mH @ matrix,
        2j * B: 2j * matrix.mH,
        by_hand(A.H): matrix,
        by_hand(B): matrix,
    }
    for linop, expected in made.items():
        torch.testing.assert_close(matrix_of(linop), expected)
    for dim in filter(lambda dim: B.why_opaque(dim) is None, A.H.dims):
        piece = {ND(dim): slice(0, 1)}
        for tile in (B.split(B, piece), B.H.split(B.H, piece).H):
            torch.testing.assert_close(matrix_of(tile), matrix_of(A.H.split(A.H, piece)))


def test_a_composition_may_make_its_own_adjoint_by_hand() -> None:
    class Product(Chain):
        def adjoint(self) -> NamedLinop:
            return adjoint_by_hand(self)

    A = Product(dense(), dense(2, "P", "M"))
    torch.testing.assert_close(A.H.to_dense(), A.to_dense().mH)
    torch.testing.assert_close(A.H.N.to_dense(), A.to_dense() @ A.to_dense().mH)


def test_functions_of_ones_own_stay() -> None:
    A: Linop = copy.copy(Diagonal(torch.ones(2), ("N",)))
    A.fn = lambda linop, x: 3 * x
    A.adj_fn = lambda linop, x: 5 * x
    assert A(torch.ones(2)).tolist() == [3, 3] and A.H(torch.ones(2)).tolist() == [5, 5]


def test_a_composition_with_another_fn_has_no_adjoint() -> None:
    class Twice(Chain):
        @staticmethod
        def fn(linop: Any, x: Tensor, /) -> Tensor:
            return 2 * Chain.fn(linop, x)

    A = Twice(Identity(("N",)), dense())
    with pytest.raises(NotImplementedError, match="Twice: there is no adjoint; the class must"):
        _ = A.H


def test_a_sum_with_two_other_functions_has_an_adjoint() -> None:
    class Twice(Add):
        @staticmethod
        def fn(linop: Any, x: Tensor, /) -> Tensor:
            return 2 * Add.fn(linop, x)

        @staticmethod
        def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
            y: Tensor = 2 * sum(operand.H(x) for operand in linop.linops)
            return y

    A = Twice(dense(), dense())
    torch.testing.assert_close(A.H.to_dense(), A.to_dense().mH)
