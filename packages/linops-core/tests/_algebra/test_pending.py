"""Chains that are made in a loop: operands are renamed when they are listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import matmul
from typing import TypeAlias, cast

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Chain, Composite, Dense, Diagonal, Identity, NamedLinop, Role, Scalar
from linops_core._algebra._pending import PendingOperands
from linops_core.testing._tiles import check_cuts, sizes_of
from nameddim import ND, NamedDimension, NamedShape

N = 3


def noise(seed: int, *lengths: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, generator=generator, dtype=torch.complex128) / N


def normal(seed: int, name: str = "M", *front: str) -> NamedLinop:
    return Dense(noise(seed, 2, N), (name, "N"), (*front, "N"), (*front, name)).N


# Operators of a space N to itself, for the number of a step.
KINDS: dict[str, Callable[[int], NamedLinop]] = {
    "diagonal": lambda i: Diagonal(noise(i, N), ("N",)),
    "diagonal with a run": lambda i: Diagonal(noise(i, N), ("...", "N")),
    "normal": normal,
    "normal with an inner dimension named as by a renaming": lambda i: normal(i, "M1"),
    "normal with an inner dimension named as an output": lambda i: normal(i, "N2"),
    "normal with a run": lambda i: normal(i, "M", "..."),
    "multiple": lambda i: 2 * normal(i),
    "complex multiple": lambda i: 0.5j * normal(i),
    "tensor multiple": lambda i: noise(i) * normal(i, "K"),
    "sum": lambda i: normal(i) + Diagonal(noise(-i, N), ("N",)),
    "sum with an identity": lambda i: normal(i, "K") + 2 * Identity(),
    "product": lambda i: normal(i) @ normal(-i, "K"),
    "chain": lambda i: Chain(normal(i), Diagonal(noise(-i, N), ("N",)), normal(i, "K")),
}
# These do not fit all others.
FURTHER: dict[str, Callable[[int], NamedLinop]] = {
    "adjoint of a normal": lambda i: normal(i).H,
    "number": lambda i: Scalar(2.0),
    "batch": lambda i: Diagonal(noise(i, 2, N), ("C", "N")),
    "normal in a batch": lambda i: Dense(noise(i, 2, 2, N), ("C", "M", "N")).N,
    "row": lambda i: Dense(noise(i, 1, N), ("M", "N")),
    "column of another name": lambda i: Dense(noise(i, N, 2), ("N1", "N")),
}
side = st.booleans()


def parts_of(kinds: Sequence[str]) -> list[NamedLinop]:
    return [(KINDS | FURTHER)[kind](i + 1) for i, kind in enumerate(kinds)]


def names_in(A: NamedLinop) -> object:
    """Return the names in an operator and in its operands."""
    inside = [names_in(part) for part in A.linops] if isinstance(A, Composite) else []
    return type(A), A.shape, sorted(A.dims), inside


def facts(A: NamedLinop) -> object:
    return names_in(A), A.sizes("input"), sorted(A.linked_positions()), names_in(A.N)


def matrix_of(A: NamedLinop) -> Tensor:
    return Chain(Diagonal(torch.ones(N, dtype=torch.complex128), ("N",)), A).to_dense()


@example([("normal", True)] * 3)
@example([("normal", False)] * 3)
@example([("diagonal", False), ("multiple", True), ("normal", False)])
@given(st.lists(st.tuples(st.sampled_from([*KINDS]), side), max_size=3))
def test_a_chain_made_in_a_loop_is_the_product_whole_and_in_tiles(
    steps: list[tuple[str, bool]],
) -> None:
    A, *others = parts_of(["normal", *(kind for kind, _ in steps)])
    in_order = [A]
    for B, (_, is_left) in zip(others, steps, strict=True):
        A = B @ A if is_left else A @ B
        in_order.insert(len(in_order) if is_left else 0, B)
    whole = Chain(*in_order)
    matrix = reduce(lambda done, part: part @ done, map(matrix_of, in_order))
    assert A.ishape == whole.ishape == ("N",) and len(A.dims) == len(whole.dims)
    for linop in (A, whole):
        torch.testing.assert_close(linop.to_dense(), matrix)
    torch.testing.assert_close(A.H.to_dense(), matrix.mH)
    torch.testing.assert_close(A.N.to_dense(), matrix.mH @ matrix)
    check_cuts(A, matrix, sizes_of(A, {}), torch.allclose, lambda dim, reason: bool(reason))


@given(st.lists(st.sampled_from([kind for kind in KINDS if "multiple" not in kind])))
def test_a_loop_to_the_left_gives_the_names_of_all_at_once(kinds: list[str]) -> None:
    parts = parts_of(["normal", "normal", *kinds])
    assert names_in(reduce(lambda A, B: B @ A, parts)) == names_in(Chain(*parts))


Steps: TypeAlias = Sequence[tuple[str, bool, int]]
"""For each step: a kind of operator, its side, and which of the last products it multiplies."""


def made(steps: Steps, are_listed: bool) -> tuple[list[NamedLinop], list[str]]:
    """Return all products and the errors; operands are listed after each step or never."""
    products, errors = [normal(0)], list[str]()
    for (_, is_left, back), B in zip(steps, parts_of([kind for kind, *_ in steps]), strict=True):
        A = products[-1 - back % len(products)]
        try:
            products.append(B @ A if is_left else A @ B)
        except ValueError as error:
            errors.append(str(error))
        if are_listed:
            names_in(products[-1])
    return products, errors


@example([("normal", False, 0)] * 3 + [("normal", False, 1), ("normal", True, 2)])
@example([("normal", True, 0)] * 3 + [("normal", True, 1), ("normal", False, 2)])
@example([("normal", False, 0)] * 2 + [("row", True, 0), ("normal", False, 0), ("row", True, 0)])
@example([("normal with a run", False, 0), ("normal", False, 0), ("batch", True, 0)])
@given(
    st.lists(st.tuples(st.sampled_from([*KINDS, *FURTHER]), side, st.integers(0, 3)), max_size=7)
)
def test_names_and_errors_are_those_of_operands_that_are_listed_at_each_step(steps: Steps) -> None:
    (late, late_errors), (early, early_errors) = (made(steps, listed) for listed in (False, True))
    assert late_errors == early_errors
    for one, other in zip(late[::-1], early[::-1], strict=True):
        assert facts(one) == facts(other)
        torch.testing.assert_close(one.to_dense(), other.to_dense())


def test_operands_that_are_renamed_later_share_the_weights() -> None:
    parts = [Dense(noise(i, 2, N)) for i in range(4)]
    A = reduce(lambda A, B: A @ B.N, parts, normal(9))
    before = A.to_dense()
    for part in parts:
        part.weight *= 2
    torch.testing.assert_close(A.to_dense(), 4**4 * before)
    used = {tensor.data_ptr() for tensor in A.buffers()}
    assert used > {part.weight.data_ptr() for part in parts}


class SameSpace(NamedLinop):
    """The identity from N to another name of N."""

    def __init__(self) -> None:
        super().__init__(NamedShape(("N",), ("N1",)))
        self._is_endomorphism = True

    @staticmethod
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        return x


@pytest.mark.parametrize("make", [normal, lambda _: SameSpace()], ids=["chains", "no chains"])
def test_an_operand_that_is_replaced_later_brings_its_names(
    make: Callable[[int], NamedLinop],
) -> None:
    A = cast(Chain, make(1) @ make(2))
    (end,) = A[1].oshape
    setattr(A, "0", Dense(noise(1, 2, N), ("K", "N"), ("N",), ("K",)))
    setattr(A, "1", Dense(noise(1, N, 2), (end, "K"), ("K",), (end,)))
    product = A @ normal(5, "K")
    assert product.role("K") is Role.INNER and product.role("K1") is Role.INNER


def test_operators_that_are_linked_list_their_operands_together() -> None:
    A = reduce(lambda A, B: B @ A, parts_of(["normal", "normal", "row"]))
    linked = A.as_endomorphism()
    assert linked is not A and linked._modules is A._modules


def test_a_composition_of_other_operands_never_lists_the_former() -> None:
    A = cast(Chain, reduce(matmul, map(normal, range(3))))
    other = A.with_operands([normal(4)])
    assert not hasattr(other, "no_such_attribute")
    assert len(other) == 1


def test_an_operator_that_is_renamed_in_its_own_way_is_so_at_once() -> None:
    class Own(Chain):
        def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
            return Diagonal(torch.ones(N), tuple(names.get(dim, dim) for dim in self.ishape))

    A = Own(normal(1) @ normal(2), Diagonal(noise(3, N), ("N",)))
    assert [part.name for part in (A @ normal(4)).flatten()] == ["Dense", "Dense", "Diagonal"]


@given(st.lists(st.dictionaries(st.sampled_from("ABCD"), st.sampled_from("ABCDE"), max_size=3)))
def test_names_of_operands_in_a_nest_are_changed_from_the_inside_to_the_outside(
    renamings: list[dict[str, str]],
) -> None:
    first, last = (Identity((name,)) for name in "AB")
    nest, expected = PendingOperands((first,)), list[NamedLinop]([first])
    for names in renamings:
        known = {ND(old): ND(new) for old, new in names.items()}
        nest = PendingOperands((PendingOperands((nest,), known), last))
        expected = [*(linop.renamed(known) for linop in expected), last]
    found = [*nest.flat()]
    assert [linop.shape for linop in found] == [linop.shape for linop in expected]
    assert found[-1] is expected[-1]


def test_a_deep_nest_is_listed_and_freed_without_recursion() -> None:
    one, n = Identity(("A",)), 20_000
    nest = reduce(
        lambda inside, _: PendingOperands((one, inside), {ND("A"): ND("A")}),
        range(n),
        PendingOperands(()),
    )
    assert sum(1 for _ in nest.flat()) == n
    del nest
