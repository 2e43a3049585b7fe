from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from linops_core import (
    FFT,
    Add,
    Chain,
    Concat,
    Dense,
    Diagonal,
    Identity,
    ImagPart,
    NamedLinop,
    Normal,
    PadLast,
    RealFFT,
    RealForm,
    Sampling,
    Scalar,
    Side,
    VStack,
    Wrapper,
    Zero,
)
from linops_core._algebra._wrapper import Conjugate
from linops_core.siblings import without_fftshift
from linops_core.testing import BaseNamedLinopTests
from linops_core.testing._real_matrices import conjugated
from linops_core.testing.strategies import Known, trees
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


class TestConjugate(BaseNamedLinopTests):
    def make_linop(self) -> Conjugate:
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(2, 3, 2, dtype=torch.complex128, generator=generator)
        return Conjugate(Dense(weight, ("B", "M", "N"), ("B", "N"), ("B", "M")))


def test_a_conjugate_of_a_conjugate_is_the_operator() -> None:
    D = Diagonal(torch.tensor([1j]), ("N",))
    assert D.conj().conj() is D
    assert D.conj()(torch.ones(1)).resolve_conj().tolist() == [-1j]


def test_real_operators_are_their_own_conjugates() -> None:
    for linop in (Identity(), Zero(("N",)), Sampling([torch.tensor([0])], [2])):
        assert linop.conj() is linop
    counts = Sampling([torch.tensor([0])], [2]).N
    assert counts.conj() is counts


def test_numbers_are_conjugated_at_once_and_tensors_when_they_are_read() -> None:
    assert Scalar(2j).conj().weight == -2j
    weight = torch.tensor(2j)
    conjugate = Scalar(weight).conj()
    weight.mul_(2)
    assert conjugate(torch.ones(1)).resolve_conj().tolist() == [-4j]


def test_compositions_conjugate_their_operands() -> None:
    D = Diagonal(torch.tensor([1j, 2j]), ("N",))
    for linop in (Chain(D, D), Add(D, D), Concat(D, D, idim="N", odim="N")):
        conjugate = linop.conj()
        assert type(conjugate) is type(linop) and conjugate.shape == linop.shape
        assert all(isinstance(part, Conjugate) for part in conjugate.linops)


def test_the_normal_of_a_conjugate_has_the_closed_form() -> None:
    assert isinstance(FFT(1).conj().N, Identity)


def test_wildcards_are_resolved() -> None:
    conjugate = FFT(1).conj().resolved(ishape=(ND("C"), ND("Nx")))
    assert conjugate.oshape == ("C", "Kx")
    assert conjugate.resolved() is conjugate


@given(trees())
def test_conjugates_and_transposes_are_those_of_the_matrix(known: Known) -> None:
    A, matrix, sizes = known.linop, known.matrix, dict(known.spaces.sizes)
    conjugate = conjugated(matrix).resolve_conj()
    for linop, expected in (
        (A.conj(), conjugate),
        (A.T, conjugate.mH),
        (A.T.T, matrix),
        (A.conj().H, conjugate.mH),
    ):
        result = known.dense(linop, sizes).resolve_conj()
        torch.testing.assert_close(result, expected.resolve_conj())


class Conjugations(TorchDispatchMode):
    """Counts copies, by which lazy conjugations are carried out."""

    n = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n += func is torch.ops.aten.clone.default
        return func(*args, **(kwargs or {}))


def test_conjugates_cancel_within_a_chain() -> None:
    W = torch.randn(3, 2, dtype=torch.complex128)
    A = (FFT(1) @ Dense(W, ("Nx", "N"), ("N",), ("Nx",)) @ Diagonal(W[0], ("N",))).conj()
    x = torch.randn(2, dtype=torch.complex128)
    with Conjugations() as passes:  # type: ignore[no-untyped-call]
        y = A(x)
    assert passes.n == 2 and not y.is_conj()  # of the input and of the result
    with Conjugations() as passes:  # type: ignore[no-untyped-call]
        A.conj()(x)
    assert passes.n == 0


@pytest.mark.parametrize(
    "A", [ImagPart(("N",)), RealFFT(("N",), 4).H, RealForm(ImagPart(("M",)), "N")], ids=str
)
def test_imaginary_parts_of_conjugates_can_be_batched(A: NamedLinop) -> None:
    x = torch.randn(3, *[A.size(dim) or 2 for dim in A.ishape], dtype=torch.complex128)
    many = torch.func.vmap(lambda v: A(v.conj()))(x)
    torch.testing.assert_close(many, torch.stack([A(one.conj().resolve_conj()) for one in x]))
    assert not many.is_conj() and not many.is_neg()


@pytest.mark.parametrize("kind", [Wrapper, Normal, RealForm])
def test_what_is_no_operator_is_not_wrapped(kind: Any) -> None:
    with pytest.raises(TypeError, match=f"{kind.__name__}: operands must be NamedLinops, got .*st"):
        kind("N")
