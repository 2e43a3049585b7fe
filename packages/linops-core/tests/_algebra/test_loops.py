"""Chains that are made in a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias, cast

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Chain, Composite, Dense, Diagonal, Identity, NamedLinop, Role
from linops_core.testing._tiles import check_cuts, sizes_of
from nameddim import NamedDimension, NamedShape

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


@example([("normal", False, 0)] * 3 + [("normal", False, 1), ("normal", True, 2)])
@example([("normal", True, 0)] * 3 + [("normal", True, 1), ("normal", False, 2)])
@example([("normal", False, 0)] * 2 + [("row", True, 0), ("normal", False, 0), ("row", True, 0)])
@given(
    st.lists(st.tuples(st.sampled_from([*KINDS, *FURTHER]), side, st.integers(0, 3)), max_size=7)
)
def test_products_of_earlier_products_are_refused_or_right(steps: Steps) -> None:
    products = [(normal(0), normal(0).to_dense())]
    for (kind, is_left, back), B in zip(steps, parts_of([kind for kind, *_ in steps]), strict=True):
        A, matrix = products[-1 - back % len(products)]
        own = B.to_dense() if kind in FURTHER else matrix_of(B)
        try:
            product = B @ A if is_left else A @ B
        except ValueError:
            continue
        products.append((product, own @ matrix if is_left else matrix @ own))
    for product, matrix in products:
        torch.testing.assert_close(product.to_dense(), matrix)


def test_operands_that_are_renamed_share_the_weights() -> None:
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


def test_an_operator_may_be_renamed_in_its_own_way() -> None:
    class Own(Chain):
        def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
            return Diagonal(torch.ones(N), tuple(names.get(dim, dim) for dim in self.ishape))

    A = Own(normal(1) @ normal(2), Diagonal(noise(3, N), ("N",)))
    assert [part.name for part in (A @ normal(4)).flatten()] == ["Dense", "Dense", "Diagonal"]
