"""Compositions of many operators are made in a time that grows with their number."""

import tracemalloc
from collections.abc import Callable
from functools import partial, reduce
from operator import add, matmul
from typing import Any

import pytest
import torch

from linops_core import (
    FFT,
    Add,
    Chain,
    Concat,
    Convolution,
    Dense,
    Diagonal,
    NamedLinop,
    Scalar,
    Stack,
    Zero,
)
from linops_core.testing._calls import n_calls

MANY = 1000


def diagonals(n: int) -> list[NamedLinop]:
    return [Diagonal(torch.ones(2, dtype=torch.float64), ("Nx",)) for _ in range(n)]


def layers(n: int) -> Chain:
    """Return what an image becomes in n layers of a diagonal, a transform and a number."""
    F = FFT(1, ())
    there = [Chain(D, F, Scalar(2.0), F.H) for D in diagonals(n)]
    return Chain(*there)


def matrices(n: int) -> list[NamedLinop]:
    return [Dense(torch.ones(1, 1), (f"N{i + 1}", f"N{i}")) for i in range(n)]


def normals(n: int, *front: str) -> list[NamedLinop]:
    weight = torch.ones(1, 2, dtype=torch.float64)
    sides = (*front, "Nx"), (*front, "M")
    return [Dense(weight, ("M", "Nx"), *sides).N for _ in range(n)]


def chain(n: int) -> Chain:
    return Chain(*diagonals(n))


def blurs(n: int) -> Chain:
    kernel = torch.ones(3)
    grids = [(f"N{i}", f"N{i + 1}") for i in range(n)]
    A = Chain(*(Convolution(kernel, (), (i,), (o,), grid_size=[9]) for i, o in grids))
    tile = A.split(A, {A.oshape[0]: slice(4, 5)})
    assert isinstance(tile, Chain)
    return tile


def total(n: int) -> Add:
    return Add(*diagonals(n))


def stack(n: int) -> Stack:
    return Stack(*diagonals(n), odim_and_idx=("K", 0))


def concat(n: int) -> Concat:
    return Concat(*diagonals(n), idim="Nx", odim="Nx")


def nested(n: int) -> NamedLinop:
    """Return sums in chains in sums, n deep."""
    A, D, E = diagonals(3)
    for _ in range(n):
        A = Chain(Add(A, D), E)
    return A


def nested_matrices(n: int) -> NamedLinop:
    """Return sums in chains in sums, n deep, each of which has dimensions inside."""
    there, back = (Dense(torch.ones(1, 1), names) for names in (("M", "N"), ("N", "M")))
    A: NamedLinop = Chain(there, back)
    for _ in range(n):
        A = Chain(Add(A, A), there, back)
    return A


def lengths_and_roles(A: NamedLinop) -> object:
    return [(A.size(dim), A.role(dim)) for dim in A.dims], A.sizes("input"), A.sizes("output")


WORK: dict[str, tuple[Callable[[int], Any], Callable[[Any], object]]] = {
    "a chain": (diagonals, lambda parts: Chain(*parts)),
    "a chain, one before the other": (diagonals, lambda parts: reduce(matmul, parts)),
    "a chain, one after the other": (matrices, lambda parts: reduce(matmul, parts[::-1])),
    "a chain of chains": (diagonals, lambda parts: reduce(Chain, parts)),
    "a chain with a number": (diagonals, lambda parts: reduce(matmul, [2 * parts[0], *parts])),
    "a chain of chains, one before the other": (
        lambda n: [Chain(D, D) for D in diagonals(n)],
        lambda parts: reduce(matmul, parts),
    ),
    "a chain of normals": (normals, lambda parts: Chain(*parts)),
    "normals, one before the other": (normals, lambda parts: len(reduce(matmul, parts))),
    "normals, one after the other": (
        normals,
        lambda parts: len(reduce(lambda A, B: B @ A, parts)),
    ),
    "chains of normals": (normals, lambda parts: len(reduce(Chain, parts))),
    "normals on both sides": (normals, lambda parts: len(reduce(lambda A, B: B @ A @ B, parts))),
    "normals and diagonals": (
        lambda n: [part for pair in zip(normals(n), diagonals(n), strict=True) for part in pair],
        lambda parts: len(reduce(matmul, parts)),
    ),
    "multiples of a chain of normals": (
        normals,
        lambda parts: len(reduce(lambda A, B: 2 * A @ B, parts)),
    ),
    "normals in a batch": (
        lambda n: [Diagonal(torch.ones(2, 2), ("C", "Nx")), *normals(n, "...")],
        lambda parts: len(reduce(matmul, parts)),
    ),
    "a power of a normal": (
        lambda n: (Dense(torch.ones(1, 2), ("M", "Nx")).N, n),
        lambda base_and_n: base_and_n[0] ** base_and_n[1],
    ),
    "a chain of multiples": (diagonals, lambda parts: len(reduce(matmul, [2 * D for D in parts]))),
    "a chain of complex multiples": (
        diagonals,
        lambda parts: len(reduce(lambda A, D: (1j * D) @ A, parts)),
    ),
    "multiples of a chain": (diagonals, lambda parts: len(reduce(lambda A, D: 2 * A @ D, parts))),
    "its adjoint": (chain, lambda A: A.H),
    "its transpose": (chain, lambda A: A.T),
    "its normal": (chain, lambda A: A.N),
    "the normal of matrices": (lambda n: Chain(*matrices(n)), lambda A: A.N),
    "the normal of transforms": (layers, lambda A: A.N),
    "the normal of transforms around an operator": (layers, lambda A: A.normal(diagonals(1)[0])),
    "the normal of a normal": (chain, lambda A: A.N.N),
    "its product": (chain, lambda A: A @ A),
    "its tree": (chain, repr),
    "its role": (chain, lambda A: A.role("Nx")),
    "its support": (blurs, lambda A: A.support("N0")),
    "lengths and roles of what is inside": (lambda n: Chain(*matrices(n)), lengths_and_roles),
    "lengths and roles of its normal": (lambda n: Chain(*matrices(n)).N, lengths_and_roles),
    "sums in chains": (lambda n: n, nested),
    "sums of chains with dimensions inside": (lambda n: n, nested_matrices),
    "lengths and roles of sums in chains": (nested, lengths_and_roles),
    "the sum, one after the other": (diagonals, sum),
    "a sum": (diagonals, lambda parts: Add(*parts)),
    "the adjoint of a sum": (total, lambda A: A.H),
    "the normal of a sum": (total, lambda A: A.N),
    "a sum of sums": (total, lambda A: A + A),
    "a stack": (diagonals, lambda parts: Stack(*parts, odim_and_idx=("K", 0))),
    "the normal of a stack": (stack, lambda A: A.N),
    "a block diagonal": (diagonals, lambda parts: Concat(*parts, idim="Nx", odim="Nx")),
    "the normal of a block diagonal": (concat, lambda A: A.N),
}


# Each step lists all operands again, with few calls for each.
LISTED = {
    "normals on both sides",
    "multiples of a chain of normals",
    "multiples of a chain",
    "a chain with a number",
    "the normal of transforms",
    "the normal of transforms around an operator",
    "the normal of a normal",
}


@pytest.mark.parametrize("name", WORK)
def test_twice_as_many_operators_take_twice_as_many_steps(name: str) -> None:
    make, work = WORK[name]
    few, many = (n_calls(partial(work, make(n))) for n in (40, 80))
    assert many <= (2.8 if name in LISTED else 2.5) * few  # of squares it would be four times


def test_a_thousand_operators_are_no_more_than_many() -> None:
    A = Chain(*diagonals(MANY))
    x = torch.randn(2, dtype=torch.float64)
    for linop in (A, A.H, A.N, A.T, A @ A, A.N.H, A.N.N):
        assert torch.equal(linop(x), x)
        assert repr(linop)
    assert len(Chain(*matrices(MANY)).N.dims) == 2 * MANY + 1
    S = Add(*diagonals(MANY))
    for linop, number in ((S, MANY), (S.H, MANY), (S + S, 2 * MANY), (S.T, MANY), (S.N, MANY**2)):
        torch.testing.assert_close(linop(x), number * x)
        assert repr(linop)
    torch.testing.assert_close(sum(diagonals(100), Zero(("Nx",)))(x), 100 * x)


@pytest.mark.parametrize("combine", [add, matmul, lambda A, B: B @ A])
def test_one_more_operand_takes_the_memory_of_one_and_of_a_list(
    combine: Callable[[Any, Any], Any],
) -> None:
    def peak_of_one_more(n: int) -> int:
        A = reduce(combine, diagonals(n))
        B = diagonals(1)[0]
        combine(A, B)  # what is found once
        tracemalloc.start()
        combine(A, B)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert peak_of_one_more(300) < peak_of_one_more(3) + 300 * 200  # bytes
