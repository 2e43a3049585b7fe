from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_core import FFT, Diagonal, NamedLinop, PadLast, Side, VStack, Wrapper
from linops_core.siblings import without_fftshift
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND, NamedDimension, NamedShape


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


class PlusSum(Wrapper):
    """A x plus the sum of x, so that it reads more than A does."""

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        return linop.linop(x) + x.sum(-1, keepdim=True)  # type: ignore[no-any-return]

    def support(self, dim: NamedDimension | str) -> slice | None:
        return None


class Repeated(Wrapper):
    """Each element of A x twice."""

    def __init__(self, linop: NamedLinop) -> None:
        super().__init__(linop, NamedShape(linop.ishape, ("K",)))

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        y: Tensor = linop.linop(x).repeat_interleave(2, -1)
        return y

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        return tuple(2 * (n or 0) if side == "output" else n for n in self.linop.sizes(side))

    def linked_positions(self) -> list[tuple[int, int]]:
        return []


def weights(n: int, dim: str) -> Diagonal:
    return Diagonal(torch.arange(1.0, n + 1), (dim,))


@pytest.mark.parametrize(
    "A",
    [lambda A: A @ weights(6, "N"), lambda A: A + A, Around, lambda A: VStack(A, A)],
    ids=["chain", "sum", "wrapper", "stack"],
)
def test_a_composition_asks_for_a_support_that_a_wrapper_overrides(
    A: Callable[[NamedLinop], NamedLinop],
) -> None:
    crop = PadLast([6], [2], ("M",), ("N",), ()).H
    assert A(crop).support("N") == slice(2, 4)
    assert A(PlusSum(crop)).support("N") is None


def test_a_composition_asks_for_sizes_that_a_wrapper_overrides() -> None:
    A = Repeated(weights(3, "N"))
    for B in (weights(6, "K") @ A, 2 * A, A + A, Around(A)):
        assert (B.sizes("input"), B.sizes("output"), B.size("K")) == ((3,), (6,), 6)
