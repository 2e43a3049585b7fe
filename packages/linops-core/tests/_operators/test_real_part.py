from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import (
    FFT,
    AsComplex,
    Chain,
    Dense,
    Diagonal,
    Identity,
    ImagPart,
    NamedLinop,
    RealForm,
    RealPart,
    Role,
    Scalar,
)
from linops_core.siblings import without_fftshift
from linops_core.testing import BaseNamedLinopTests
from linops_core.testing._real_matrices import real_matrix
from linops_core.testing.strategies import Known, LawError, Spaces, check, trees

KINDS = (RealPart, ImagPart, AsComplex)


class TestRealPart(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return RealPart()


class TestImagPart(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return ImagPart(("B", "N"))

    def sizes(self) -> Mapping[str, int]:
        return {"B": 2, "N": 3}


class TestAsComplex(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return AsComplex(("N",))

    def sizes(self) -> Mapping[str, int]:
        return {"N": 3}


def values(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


@pytest.mark.variant
class TestChainOfRealParts(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        D = Diagonal(torch.nn.Parameter(values(3)), ("N",))
        M = Dense(torch.nn.Parameter(values(2, 3)), ("M", "N"), ("N",), ("M",))
        return Chain(D, RealPart(), Scalar(2j), M, ImagPart())


@pytest.mark.parametrize(
    ("kind", "there", "back"),
    [
        (RealPart, [1.0, 0.0], [1 + 0j, 0 + 0j]),
        (ImagPart, [2.0, 3.0], [1j, 0j]),
        (AsComplex, [1 + 0j, 0 + 0j], [1.0, 0.0]),
    ],
)
def test_parts_of_two_numbers(kind: Any, there: list[complex], back: list[complex]) -> None:
    A, x = kind(), torch.tensor([1 + 2j, 3j])
    assert torch.equal(A(x), torch.tensor(there))
    assert torch.equal(A.H(x), torch.tensor(back))
    assert A(torch.tensor([3, 4])).dtype is (torch.complex64 if kind is AsComplex else torch.int64)
    assert torch.equal(
        A(torch.tensor([3, 4])), torch.tensor([0, 0] if kind is ImagPart else [3, 4])
    )


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_linear_over_the_reals_only_and_so_is_what_is_made_of_them(
    kind: Any,
) -> None:
    A = kind()
    D = Diagonal(values(3), ("N",))
    made: list[NamedLinop] = [A, A.H, A.N, A.conj(), A.T, 2j * A, A @ D, D + A, D.normal(A)]
    assert not any(linop.is_complex_linear for linop in made)
    assert all(linop.is_complex_linear for linop in (D, D.H, D.N, RealForm(A), A**0))
    assert A.role("...") is None and kind(("N",)).role("N") is Role.BATCH


def test_complex_numbers_stay_where_they_are_and_real_ones_are_collected() -> None:
    R = RealPart(("N",))
    x = values(3)
    A = 2j * (R * 3) @ (1j * Identity(("N",)))
    torch.testing.assert_close(A(x), 6j * (1j * x).real)
    assert [type(part) for part in A.flatten()] == [Scalar, RealPart, Scalar]
    assert [type(part) for part in (2 * R @ (3 * Identity(("N",)))).flatten()] == [RealPart, Scalar]
    torch.testing.assert_close((R * 2j)(x), 2j * x.real)  # a multiple, on whichever side it stands
    torch.testing.assert_close((R @ (2j * Identity(("N",)))).N(x), -2j * (2j * x).real)
    by_tensor = R @ Scalar(torch.tensor(2j, dtype=torch.complex128), ("N",))
    torch.testing.assert_close(by_tensor.N(x), -2j * (2j * x).real)


def test_a_centred_transform_keeps_its_shifts_around_a_real_part() -> None:
    class Uncentred(RealPart):
        """One that says what is true of it: it does the same at each point."""

    @without_fftshift.register(Uncentred)
    def _(linop: Uncentred, dims: Any) -> NamedLinop:
        return linop

    F = FFT(1, (), centered=True)
    x = values(5)  # of an even number, the phases of the shift are real
    for part in (RealPart(), Uncentred()):
        torch.testing.assert_close(F.normal(part)(x), F.H(F(x).real))


numbers = st.sampled_from([2, -0.5, 1j, 2 - 1j])


@given(trees(), numbers, numbers)
def test_multiples_are_those_of_results(known: Known, a: complex, b: complex) -> None:
    A, where = known.linop, known.spaces
    x, y = values(*where.lengths(where.ishape)), values(*where.lengths(where.oshape), seed=1)
    B = a * A @ (b * Identity(A.ishape))
    torch.testing.assert_close(B(x) + 0j, a * A(b * x) + 0j)
    back = B.H(y)
    torch.testing.assert_close(
        back + 0j, complex(b).conjugate() * A.H(complex(a).conjugate() * y) + 0j
    )
    torch.testing.assert_close(B.N(x) + 0j, B.H(B(x)) + 0j)
    left = torch.vdot(y.flatten(), B(x).flatten() + 0j)
    right = torch.vdot(back.flatten() + 0j, x.flatten())
    torch.testing.assert_close(left.real, right.real)
    if A.is_complex_linear:
        torch.testing.assert_close(left, right)


@given(trees(1))
def test_real_forms_are_operators_with_a_matrix(known: Known) -> None:
    A = RealForm(known.linop, "P")
    sizes = {**{str(d): n for d, n in known.sizes_of(known.linop).items()}, "P": 2}
    expected = real_matrix(known.matrix)
    for linop, matrix in ((A, expected), (A.H, expected.mT), (A.conj(), expected)):
        torch.testing.assert_close(linop.to_dense(sizes, torch.complex128).real, matrix)
    x = torch.randn([2, *known.spaces.lengths(known.spaces.ishape)], dtype=torch.float64)
    torch.testing.assert_close(A.N(x), A.H(A(x)))


class TestRealForm(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        weight = torch.nn.Parameter(values(2, 3))
        return RealForm(Dense(weight, ("M", "N"), ("N",), ("M",)) @ ImagPart())


def test_the_real_form_of_a_matrix_is_made_of_its_parts() -> None:
    M = values(2, 3)
    A = RealForm(Dense(M, ("M", "N"), ("N",), ("M",)))
    expected = torch.cat([torch.cat([M.real, -M.imag], 1), torch.cat([M.imag, M.real], 1)])
    assert torch.equal(A.to_dense(), expected)
    assert (A.size("Part"), A.size("N"), A.H.size("Part"), A.H.size("M")) == (2, 3, 2, 2)
    assert A.to_scipy().shape == (4, 6)


def test_what_has_no_complex_matrix_is_refused() -> None:
    A = RealPart(("N",))
    for convert in (A.to_dense, A.to_scipy, A.H.to_dense):
        with pytest.raises(ValueError, match=r"^RealPart .* must be linear over .* its RealForm"):
            convert({"N": 2})


def test_the_operand_of_a_real_form_is_an_operator_without_the_name_of_parts() -> None:
    with pytest.raises(TypeError, match="RealForm: operands must be NamedLinops, got"):
        RealForm(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"RealForm: dim must be a name that .* not have, got N"):
        RealForm(RealPart(("N",)), "N")
    A = RealForm(RealPart(("N",)))
    assert A.role("N") is Role.OPAQUE and "cut the operator in it" in str(A.why_opaque("N"))


def test_what_says_to_be_linear_over_complex_numbers_and_is_not_is_seen() -> None:
    class Wrong(RealPart):
        is_complex_linear = True

    where = Spaces(("N",), ("N",), {"N": 2})
    matrix = RealForm(RealPart(("N",))).to_dense({"N": 2})
    with pytest.raises(LawError, match="is_complex_linear must be False"):
        check(Known(Wrong(("N",)), matrix, where))
