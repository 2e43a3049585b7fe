from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import (
    FFT,
    Add,
    Chain,
    Convolution,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Normal,
    RealPart,
    Scalar,
    Zero,
)
from linops_core._algebra._add import add
from linops_core._algebra._chain import compose
from linops_core.testing._real_matrices import scaled
from linops_core.testing.strategies import Known, trees
from nameddim import ND


def matrix(n_rows: int = 3, n_columns: int = 4, names: str = "MN") -> Dense:
    weight = torch.randn(n_rows, n_columns, dtype=torch.complex128)
    return Dense(weight, tuple(names), tuple(names[1]), tuple(names[0]))


def dense(linop: NamedLinop, known: Known) -> Tensor:
    sizes = {ND(dim): n for dim, n in known.spaces.sizes.items()}
    return linop.to_dense(
        {dim: sizes.get(dim, sizes.get(ND(dim.name), 0)) for dim in linop.ishape}, torch.complex128
    )


def test_compositions_omit_identities() -> None:
    A = matrix()
    assert Identity() @ A is A and A @ Identity(("N",)) is A
    assert compose(Identity(("N",)), Identity()).ishape == ("N",)
    assert isinstance(Identity(("N",)) @ Identity(("N",)), Identity)
    rename = Identity(("M",), ("K",))
    assert (rename @ A).flatten() == [A, rename]


def test_chains_and_sums_are_flat() -> None:
    A, B = matrix(3, 3, "MN"), matrix(3, 3, "NM")
    assert (A @ (B @ A)).flatten() == ((A @ B) @ A).flatten() == [A, B, A]
    assert A.flatten() == [A]
    whole = (A + A) + (A + A)
    assert isinstance(whole, Add) and len(whole.linops) == 4


def test_numbers_are_collected_into_the_last_of_them() -> None:
    A = matrix()
    whole = 2 * (3j * A) / 4
    assert isinstance(whole, Chain)
    assert [type(part) for part in whole.linops] == [Dense, Scalar]
    assert whole.linops[1].weight == 1.5j
    again = (2 * Identity(("M",))) @ A @ (3 * Identity(("N",)))
    assert [type(part) for part in again.flatten()] == [Dense, Scalar]
    assert torch.equal(again.to_dense(), 6 * A.to_dense())


def test_numbers_whose_product_is_extreme_stay_apart() -> None:
    whole = 1e4 * (1e4 * matrix())
    assert [type(part) for part in whole.flatten()] == [Dense, Scalar, Scalar]


def test_numbers_that_are_extreme_stay_where_they_are() -> None:
    A = Chain(Scalar(1e200, ("N",)), matrix(), Scalar(1e-200, ("M",)))
    for whole, numbers in (
        (2 * A, [1e200, 1e-200, 2]),
        (A.N, [1e200, 1e-200, 1e-200, 1e200]),
    ):
        results = [part.weight for part in whole.flatten() if isinstance(part, Scalar)]
        assert results == numbers


def test_as_few_numbers_are_left_as_go_into_one() -> None:
    whole = compose(*[Scalar(100.0, ("N",))] * 7)
    assert [part.weight for part in whole.flatten() if isinstance(part, Scalar)] == [1e6, 1e6, 100]


def test_one_number_that_is_used_twice_counts_twice() -> None:
    half = Scalar(0.5, ("N",))
    assert compose(half, half).weight == 0.25


def numbers_in(linop: NamedLinop) -> list[complex]:
    return [part.weight for part in linop.flatten() if isinstance(part, Scalar)]


@pytest.mark.parametrize(
    "combine", [lambda A, B: A @ (3 * B), lambda A, B: (3 * B) @ A, lambda A, B: 3 * A @ B]
)
def test_numbers_are_collected_when_a_loop_has_made_the_chain(
    combine: Callable[[Any, Any], Any],
) -> None:
    parts = [Diagonal(torch.randn(2, dtype=torch.float64), ("N",)) for _ in range(30)]
    whole = reduce(combine, parts)
    # A product stays below a million.
    assert sorted(numbers_in(whole), key=abs) == [3**5, 3**12, 3**12]
    assert [part for part in whole.flatten() if not isinstance(part, Scalar)] in (
        parts,
        parts[::-1],
    )
    product = torch.stack([part.weight for part in parts]).prod(0) * 3.0**29
    torch.testing.assert_close(whole(torch.ones(2, dtype=torch.float64)), product)


def test_chains_of_one_chain_keep_their_numbers_apart() -> None:
    def chain() -> NamedLinop:
        return 2 * Diagonal(torch.ones(3), ("N",)) @ (3 * Diagonal(torch.ones(3), ("N",)))

    assert numbers_in(Chain(chain(), chain())) == [6, 6]
    assert numbers_in(chain() @ chain()) == [36]


def test_tensors_are_not_collected_because_they_may_change() -> None:
    gain = torch.tensor(2.0)
    whole = gain * (gain * matrix())
    assert [type(part) for part in whole.flatten()] == [Dense, Scalar, Scalar]


def test_zeros_take_the_whole_chain_with_them() -> None:
    A, zero = matrix(3, 4), Zero(("K",), ("N",), sizes={"K": 2, "N": 4})
    whole = A @ zero
    assert isinstance(whole, Zero) and (whole.size("K"), whole.size("M")) == (2, 3)
    assert torch.equal(whole.to_dense(), torch.zeros(3, 2, dtype=torch.complex128))
    real, x = RealPart(("N",)) @ zero, torch.ones(2, dtype=torch.complex128)
    assert real(x).dtype is Chain(zero, RealPart(("N",)))(x).dtype is torch.float64
    unknown = FFT(1, (), (("N",), ("M",))) @ Zero(("K",), ("N",), sizes={"K": 2})
    assert isinstance(unknown, Chain)
    assert isinstance(Diagonal(torch.ones(4), ("M",)) @ unknown, Zero)


def test_sums_lose_their_zeros_but_no_size_that_only_they_know() -> None:
    loose = Scalar(2.0, ("N",))
    zero = Zero(("N",), sizes={"N": 3})
    assert (loose + Zero(("N",))) is loose
    with pytest.raises(ValueError, match=r"Zero: N must have size 3, got 2"):
        (loose + zero)(torch.ones(2))
    known = Diagonal(torch.ones(3), ("N",))
    assert zero + known is known and add(known, zero, zero) is known
    assert isinstance(zero + zero, Zero)


def test_a_number_hides_no_closed_form_from_a_normal() -> None:
    D = Diagonal(torch.tensor([1j, 2.0]), ("N",))
    normal = (3j * D).N
    assert [type(part) for part in normal.flatten()] == [Normal, Scalar]
    assert torch.equal(normal(torch.ones(2)), torch.tensor([9.0 + 0j, 36.0]))
    F = FFT(1, (), (("N",), ("M",)))
    assert isinstance((2 * F).N, Scalar)
    gain = torch.tensor(2.0, requires_grad=True)
    learned = (gain * F).N
    assert learned.is_endomorphism
    (gradient,) = torch.autograd.grad(learned(torch.ones(2)).real.sum(), gain)
    assert float(gradient) == 8.0


def test_the_inner_operator_of_a_multiple_must_fit() -> None:
    with pytest.raises(ValueError, match=r"the inner operator of a normal must act on the output"):
        Chain(Scalar(2.0, ("N",))).normal(Identity(("K",)))
    inner = Diagonal(torch.ones(2), ("N",))
    assert Chain(Scalar(2.0, ("N",))).normal(inner)(torch.ones(2)).tolist() == [4, 4]


def test_powers_apply_again_and_again() -> None:
    B = matrix(3, 3)
    square = B.to_dense().mH @ B.to_dense()
    for exponent in range(4):
        power = B.N**exponent
        assert power.ishape == ("N",) and power.is_endomorphism
        result = power.to_dense({"N": 3}, torch.complex128)
        torch.testing.assert_close(result, torch.linalg.matrix_power(square, exponent))
    assert (B.N ** np.int64(2)).oshape == (B.N**2).oshape
    with pytest.raises(ValueError, match=r"Dense .*: an operator must map a space to itself"):
        B**2
    valid = Convolution(torch.ones(3), mode="valid", grid_size=[5], dims="N")
    with pytest.raises(ValueError, match=r"input sizes \(None, 5\) and output sizes \(None, 3\)"):
        valid**2
    with pytest.raises(ValueError, match=r"the exponent of a power must not be negative, got -1"):
        B.N**-1
    with pytest.raises(TypeError, match=r"the operand of \*\* must be an integer, got 0.5"):
        B.N**0.5


NUMBERS: tuple[Any, ...] = (0.5, 2, 1j, np.float32(2), torch.tensor(2.0))
ARRAYS: tuple[Any, ...] = (torch.ones(3), np.ones(3), np.ones((3, 3)), [1.0, 2.0, 3.0])


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_not_added_and_the_error_says_what_to_add(number: Any) -> None:
    A: Any = matrix()
    for wrong_sum in (
        lambda: A + number,
        lambda: number + A,
        lambda: A - number,
        lambda: number - A,
        lambda: sum([A, A], start=number),
    ):
        with pytest.raises(
            TypeError,
            match=r"Dense \(N\) -> \(M\): the operand of [+-] must be an operator, got .*; if A "
            r"maps a space to itself, add a multiple of the identity, "
            r"A \+ c \* Identity\(\('N',\)\)",
        ):
            wrong_sum()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_not_composed_or_divided(number: Any) -> None:
    A: Any = matrix()
    if not isinstance(number, Tensor):  # which is an input of the wrong shape
        with pytest.raises(TypeError, match=r"operand of @ must be .*; multiply with a number as"):
            A @ number
    with pytest.raises(TypeError, match=r"must stand before what it acts on, got .* @ A; write A"):
        number @ A
    with pytest.raises(TypeError, match=r"an operator must not be a divisor, got .* / A; solve"):
        number / A


@pytest.mark.parametrize("array", ARRAYS)
def test_arrays_are_no_numbers_and_no_operators(array: Any) -> None:
    A: Any = matrix(3, 3)
    for combine, message in (
        (lambda: A * array, r"operand of \* must be a number, got .*; apply the operator with A\("),
        (lambda: array * A, r"operand of \* must be a number, got .*; apply the operator with A\("),
        (lambda: A / array, r"operand of / must be a number, got .*; multiply entry by entry with"),
        (lambda: array / A, r"an operator must not be a divisor, got .* / A; solve"),
        (
            lambda: A + array,
            r"operand of \+ must be an operator, got .*; add tensors to the result",
        ),
        (lambda: array + A, r"must be an operator, got .*; add tensors|can only concatenate list"),
        (lambda: A - array, r"operand of - must be an operator, got .*; add tensors to the result"),
        (lambda: array - A, r"operand of - must be an operator, got .*; add tensors to the result"),
        (lambda: array @ A, r"must stand before what it acts on, got .* @ A; write A\(x\)"),
    ):
        with pytest.raises(TypeError, match=message):
            combine()  # type: ignore[no-untyped-call]
    if not isinstance(array, Tensor):
        with pytest.raises(
            TypeError, match=r"operand of @ must be an operator or a tensor, got .*; "
        ):
            A @ array


def test_operators_are_composed_and_not_multiplied() -> None:
    A: Any = matrix()
    with pytest.raises(
        TypeError, match=r"must be a number, got Dense \(N\) -> \(M\); compose opera"
    ):
        A * A
    with pytest.raises(
        TypeError, match=r"operand of / must be a number, got Dense .*; solve with A"
    ):
        A / A
    for exponent in (A, 0.5, torch.ones(2)):
        with pytest.raises(TypeError, match=r"the operand of \*\* must be an integer, got"):
            A**exponent


def test_what_is_no_operator_is_left_to_python() -> None:
    A: Any = matrix()
    expressions: list[Callable[[], object]] = [
        lambda: A + object(),
        lambda: A - object(),
        lambda: object() @ A,
        lambda: A * object(),
        lambda: object() / A,
    ]
    for expression in expressions:
        with pytest.raises(TypeError, match="unsupported operand"):
            expression()
    assert +A is A and sum([A]) is A


@given(trees(1), st.data())
def test_any_expression_is_its_matrix(known: Known, data: st.DataObject) -> None:
    A, a = known.linop, known.matrix
    number = data.draw(st.sampled_from([2, -1.5, 1j, 2j]))
    in_tensor = torch.tensor(number, dtype=torch.complex128)
    multiple = scaled(number, torch.eye(a.shape[1], dtype=a.dtype))
    two: complex | Tensor = in_tensor if data.draw(st.booleans()) else number
    for linop, expected in (
        (two * A - A, scaled(number - 1, a)),
        (A.N + two * Identity(), a.mH @ a + multiple),
        (two * Identity() + A.N, a.mH @ a + multiple),
        ((A.N + Identity()) @ A.N, a.mH @ a @ a.mH @ a + a.mH @ a),
        (A.N**2, torch.linalg.matrix_power(a.mH @ a, 2)),
        (A @ A.N, a @ a.mH @ a),
        ((two * A).N, abs(number) ** 2 * a.mH @ a),
    ):
        torch.testing.assert_close(known.dense(linop), expected)


@pytest.mark.parametrize("other", ["2", b"2", None, {"N": 2}, {2}])
def test_text_none_and_collections_are_refused_in_words(other: Any) -> None:
    A: Any = matrix()
    for combine, message in (
        (lambda: A * other, r"the operand of \* must be a number, got <class"),
        (lambda: other * A, r"the operand of \* must be a number, got <class"),
        (lambda: A / other, r"the operand of / must be a number, got <class"),
        (lambda: A + other, r"the operand of \+ must be an operator, got <class"),
        (lambda: A - other, r"the operand of - must be an operator, got <class"),
        (lambda: A @ other, r"the operand of @ must be an operator or a tensor, got <class"),
        (lambda: A**other, r"the operand of \*\* must be an integer, got <class"),
        (lambda: other @ A, r"must stand before what it acts on, got <class .* @ A"),
        (lambda: other / A, r"must not be a divisor, got <class .* / A"),
    ):
        with pytest.raises(TypeError, match=rf"Dense \(N\) -> \(M\): .*{message}"):
            combine()  # type: ignore[no-untyped-call]
