from typing import Any

import torch
from torch import Tensor

from linops_core import FFT, Diagonal, Wrapper
from linops_core.siblings import without_fftshift
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND


class Around(Wrapper):
    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        return linop.linop(x)  # type: ignore[no-any-return]


class TestWrapper(BaseNamedLinopTests):
    def make_linop(self) -> Around:
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(2, 3, dtype=torch.complex128, generator=generator)
        return Around(Diagonal(weight, ("C", "Nx")))


def test_derived_operators_are_around_those_of_the_operand() -> None:
    D = Diagonal(torch.tensor([1j, 2j, 3j]), ("Nx",))
    A = Around(D)
    derived = (A.H, A.conj(), A.N, A.split(A, {ND("Nx"): slice(1, 3)}))
    expected = (D.H, D.conj(), D.N, D.split(D, {ND("Nx"): slice(1, 3)}))
    for linop, other in zip(derived, expected, strict=True):
        assert isinstance(linop, Around)
        assert type(linop.linop) is type(other)
        torch.testing.assert_close(linop.to_dense(), other.to_dense())


def test_shifts_are_left_out_where_the_operand_can_do_without() -> None:
    F = FFT(1, centered=True)
    grid = [ND("Nx"), ND("Kx")]
    plain, expected = without_fftshift(Around(F), grid), without_fftshift(F, grid)
    assert isinstance(plain, Around) and expected is not None
    torch.testing.assert_close(plain.to_dense({"Nx": 4}), expected.to_dense({"Nx": 4}))
    assert without_fftshift(Around(F), grid[:1]) is None
