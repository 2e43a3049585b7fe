"""Kronecker: its matrix, and the laws of all operators."""

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from linops_core import FFT, Dense, Identity, Kronecker, NamedLinop, Role, SimpleLinop
from linops_core.testing import BaseNamedLinopTests
from linops_core.testing.strategies import Known, check, kronecker_products


def values(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


def matrix(n_rows: int, n_columns: int, o: str, i: str, seed: int = 0) -> Dense:
    weight = torch.nn.Parameter(values(n_rows, n_columns, seed=seed))
    return Dense(weight, (o, i), ("...", i), ("...", o))


@settings(max_examples=settings().max_examples // 3)
@given(kronecker_products())
def test_the_matrix_is_the_product_whole_and_in_tiles(known: Known) -> None:
    check(known)


def test_it_is_cut_where_its_operands_are() -> None:
    K = Kronecker(matrix(2, 3, "M", "N"), FFT(1))
    assert K.shape.ishape == ("...", "N", "Nx")
    assert (K.role("M"), K.role("N"), K.role("Nx")) == (Role.OUTPUT, Role.INPUT, Role.OPAQUE)
    x = values(4, 3, 5)
    expected = torch.fft.fft(torch.einsum("mn,bnx->bmx", matrix(2, 3, "M", "N").weight, x))
    torch.testing.assert_close(K(x), expected / 5**0.5)


def test_the_normal_of_unitary_operands_is_the_identity() -> None:
    K = Kronecker(FFT(1), FFT(1).renamed({"Nx": "Ny", "Kx": "Ky"}))  # type: ignore[dict-item]
    assert isinstance(K.N, Identity)


def test_operands_without_a_batch_or_with_common_names_are_refused() -> None:
    A = matrix(2, 3, "M", "N")
    with pytest.raises(ValueError, match=r"Kronecker: an operand must have a leading '...' that"):
        Kronecker(A, SimpleLinop(torch.neg, torch.neg, ishape=("K",)))
    with pytest.raises(ValueError, match=r"no dimension in common, got M in Dense .*; rename one"):
        Kronecker(A, matrix(2, 2, "M", "K"))
    with pytest.raises(TypeError, match=r"Kronecker: operands must be NamedLinops, got"):
        Kronecker(A, torch.ones(2))  # type: ignore[arg-type]


class TestKronecker(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Kronecker(matrix(2, 3, "M", "N"), matrix(1, 2, "P", "Q", 1))
