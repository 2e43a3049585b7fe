from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from linops_core import FFT, Dense, Diagonal, Scalar
from linops_core._algebra._scalar import as_python
from linops_core._base._arithmetic import is_scalar

NUMBERS = [2, 2.5, 1 - 2j, True, Fraction(1, 4), np.float32(1.5), np.int8(3), np.complex64(2j)]


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_numbers_of_every_kind_multiply_and_never_change_the_precision(number: Any) -> None:
    x = torch.ones(2, dtype=torch.float32)
    y = Scalar(number)(x)
    assert y.dtype == (torch.complex64 if isinstance(number, complex | np.complex64) else x.dtype)
    assert y[0].item() == complex(number)
    assert type(as_python(number)) in (int, float, complex)


def test_the_adjoint_conjugates_and_the_normal_is_the_squared_modulus() -> None:
    for A in (Scalar(3 - 4j), Scalar(torch.tensor(3 - 4j))):
        x = torch.tensor([1 + 1j])
        assert A.H(x).item() == (3 + 4j) * (1 + 1j)
        assert A.N(x).item() == A.H.N(x).item() == 25 * (1 + 1j)


def test_a_tensor_is_kept_as_it_is() -> None:
    weight = nn.Parameter(torch.tensor(2.0))
    A = Scalar(weight, ("N",))
    assert list(A.parameters()) == list(A.H.parameters()) == [weight]
    torch.autograd.backward(A(torch.ones(3)).sum())
    assert weight.grad is not None and weight.grad.item() == 3


def test_a_tensor_is_not_replaced_by_one_with_dimensions() -> None:
    A = Scalar(nn.Parameter(torch.tensor(2.0)), ("N",))
    derived, x = [A, A.H, A.N, A.H.N], torch.ones(3)
    A.weight = nn.Parameter(torch.arange(3.0))
    for linop in derived:
        with pytest.raises(ValueError, match=r"Scalar: weight must be replaced by one of shape"):
            linop(x)
    A.weight = nn.Parameter(torch.tensor(5.0))
    assert [linop(x)[0].item() for linop in derived] == [5, 5, 25, 25]


@pytest.mark.parametrize("weight", ["2", None, torch.ones(1), [1], Decimal(2)])
def test_what_is_no_number_is_refused(weight: Any) -> None:
    assert not is_scalar(weight)
    with pytest.raises(TypeError, match=r"Scalar: the weight must be a number or a tensor without"):
        Scalar(weight)


def test_the_adjoint_of_a_number_is_another_number() -> None:
    A = Scalar(2j)
    assert A.H.weight == -2j and A.H.H is A
    assert A.H.conj().weight == 2j
    assert (3 * A.H).weight == -6j


def test_the_adjoint_of_a_number_is_its_conjugate_in_every_expression() -> None:
    S, D = Scalar(1j, ("N",)), Diagonal(torch.tensor([2.0]), ("N",))
    for linop, value in (
        (S.H, -1j),
        (S.T, 1j),
        (S.H.conj(), 1j),
        (S.H.H, 1j),
        ((2 * D) @ S.H, -4j),
        (2 * S.H, -2j),
        (S.H**2, -1),
        (S.H.N, 1),
    ):
        assert linop.to_dense({"N": 1}).item() == value
    assert S.H.H is S
    with pytest.raises(RuntimeError, match=r"weight must not change once other operators"):
        S.weight = 2j


@pytest.mark.parametrize(
    "weight",
    [
        torch.tensor(200, dtype=torch.uint8),
        torch.tensor(20000, dtype=torch.int16),
        torch.tensor(300.0, dtype=torch.float16),
        torch.tensor(1.004, dtype=torch.bfloat16),
        torch.tensor(-7j),
    ],
)
def test_a_weight_of_a_narrow_dtype_need_not_hold_its_square(weight: Tensor) -> None:
    A, x = Scalar(weight), torch.ones(2)
    for linop in (A, A @ A, A @ Diagonal(torch.ones(2))):
        torch.testing.assert_close(linop.N(x), linop.H(linop(x)))


def test_numbers_that_are_moved_in_half_precision_lead_to_infinity_and_to_nothing_else() -> None:
    A = Diagonal(torch.full((2,), 100.0, dtype=torch.float16), ("N",)) @ Scalar(0.01, ("N",))
    x = torch.tensor([100.0, 1.0], dtype=torch.float16)
    torch.testing.assert_close(A.H(A(x)), x, rtol=1e-2, atol=0)
    assert A.N(x)[0].isinf()
    torch.testing.assert_close(A.N(x)[1], x[1], rtol=1e-2, atol=0)
    torch.testing.assert_close(A.N(x.float()), x.float())


def test_division_by_a_tensor_of_an_integer_has_the_precision_of_the_data() -> None:
    A, x = Scalar(2.0, ("N",)), torch.ones(1, dtype=torch.float64)
    torch.testing.assert_close((A / torch.tensor(3))(x), 2 / (3 * x))
    assert (A / torch.tensor(3))(x.float()).dtype is torch.float32


@pytest.mark.parametrize(
    ("weight", "divisor", "result"),
    [
        (torch.tensor([1e-30]), 1e-40, 1e10),
        (torch.tensor([1e38]), 1e40, 1e-2),
        (torch.tensor([1e-30]), 1e-40j, -1e10j),
        (torch.tensor([1e-310], dtype=torch.float64), 1e-310, 1),
        (torch.tensor([1e308], dtype=torch.float64), np.float64(1e308), 1),
        (torch.tensor([2e-310], dtype=torch.complex128), 1e-310 + 1e-310j, 1 - 1j),
        (torch.tensor([1.0]), 10**400, 0),
    ],
)
def test_a_division_has_each_result_that_is_in_range(
    weight: Tensor, divisor: complex, result: complex
) -> None:
    D, x = Diagonal(weight, ("N",)), torch.ones_like(weight)
    assert (D / divisor)(x).item() == pytest.approx(result, rel=1e-6)
    if not isinstance(divisor, int):
        of_torch = torch.tensor(divisor, dtype=torch.complex128)
        assert (D / of_torch)(x).item() == pytest.approx(result, rel=1e-6)


@pytest.mark.parametrize(
    "zero", [0, -0.0, 0j, False, np.float64(0), torch.tensor(0), torch.tensor(0.0)], ids=repr
)
def test_a_division_by_zero_is_refused(zero: Any) -> None:
    with pytest.raises(ZeroDivisionError, match=r"Dense .*: the divisor must not be 0"):
        Dense(torch.ones(2, 3), ("M", "N"), ("N",), ("M",)) / zero


def test_a_divisor_with_a_gradient_is_not_read() -> None:
    zero = torch.tensor(0.0, requires_grad=True)
    assert (Diagonal(torch.ones(1), ("N",)) / zero)(torch.ones(1)).isinf().all()


def test_complex_numbers_at_the_edge_of_the_range_have_normals() -> None:
    x = torch.ones(1, dtype=torch.complex128)
    for number, square in ((1e200j, torch.inf), (1.7e308 + 1.7e308j, torch.inf), (1e-200j, 0)):
        A = Scalar(number, ("N",))
        assert A.N(x).real.item() == square
        assert torch.equal((A @ A)(1e-308 * x), number * (number * (1e-308 * x)))


@pytest.mark.parametrize("size", [1e20, 1e30, 1e-25])
def test_large_and_small_numbers_stay_where_they_keep_all_in_range(size: float) -> None:
    D = Diagonal(torch.full((1,), 1 / size), ("N",))
    M = Dense(torch.full((1, 1), 1 / size))
    x = torch.ones(1)
    for A in (size * D, size * M, size * (2 * M), torch.tensor(size) * M):
        torch.testing.assert_close(A.N(x), A.H(A(x)))
        assert A.N(x).isfinite().all() and A.N(x).all()
    F = size * FFT(1)
    torch.testing.assert_close(F.N(x / size) + 0j, F.H(F(x / size)))
    assert ((1 / size) * (size * M))(x).isfinite().all()


@pytest.mark.parametrize("weight", [1j, torch.tensor(2 + 1j)])
def test_complex_numbers_times_bfloat16_are_complex64(weight: Any) -> None:
    """torch 2.15 has a narrower dtype for them, which it cannot multiply."""
    x = torch.tensor([1.0, -2.0], dtype=torch.bfloat16)
    for A in (Scalar(weight, ("N",)), weight * Diagonal(x, ("N",))):
        expected = A(x.double())
        assert A(x).dtype == torch.complex64
        assert torch.equal(A(x).to(expected.dtype), expected)
