"""Cutting takes a time that grows with the number of tiles, operands and factors."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from linops_core import Add, Chain, Concat, Convolution, Dense, Diagonal, NamedLinop, Stack
from linops_core.testing._calls import n_calls
from linops_split import batch_linop, tile_grid


def diagonals(n: int) -> list[NamedLinop]:
    return [Diagonal(torch.ones(1), ("Nx",)) for _ in range(n)]


def block_diagonal(n: int) -> NamedLinop:
    return Concat(*diagonals(n), idim="Nx", odim="Nx")


def block_column(n: int) -> NamedLinop:
    return Concat(*(Dense(torch.ones(1, 2), ("M", "N")) for _ in range(n)), odim="M")


def tiles(n: int) -> NamedLinop:
    return batch_linop(Diagonal(torch.ones(n), ("Nx",)), {"Nx": 1})


def tiles_that_overlap(n: int) -> NamedLinop:
    blur = Convolution(torch.ones(3), (), ("Nx",), ("Ny",), grid_size=[n])
    return batch_linop(blur, {"Ny": 1})


def grid(n: int) -> NamedLinop:
    return batch_linop(Dense(torch.ones(n, 2), ("M", "N")), {"M": 1, "N": 1})


def blurs(n: int) -> NamedLinop:
    kernel = torch.ones(3)
    names = [(f"N{i}", f"N{i + 1}") for i in range(n)]
    return Chain(*(Convolution(kernel, (), (i,), (o,), grid_size=[9]) for i, o in names))


def matrices(n: int) -> NamedLinop:
    return Chain(*(Dense(torch.ones(4, 4), (f"N{i + 1}", f"N{i}")) for i in range(n)))


WORK: dict[str, tuple[Callable[[int], NamedLinop], Callable[[NamedLinop], object]]] = {
    "a block diagonal into its blocks": (block_diagonal, lambda A: batch_linop(A, {"Nx": 1})),
    "a block diagonal across its blocks": (block_diagonal, lambda A: batch_linop(A, {"Nx": 3})),
    "a block column into its blocks": (block_column, lambda A: batch_linop(A, {"M": 1})),
    "a block column along its input": (block_column, lambda A: batch_linop(A, {"N": 1})),
    "a stack into its operands": (
        lambda n: Stack(*diagonals(n), odim_and_idx=("K", 0)),
        lambda A: batch_linop(A, {"K": 1}),
    ),
    "a stack of columns into its operands": (
        lambda n: Stack(*diagonals(n), idim_and_idx=("K", 0)),
        lambda A: batch_linop(A, {"K": 1}),
    ),
    "a sum into tiles": (
        lambda n: Add(*(Diagonal(torch.ones(4), ("Nx",)) for _ in range(n))),
        lambda A: batch_linop(A, {"Nx": 1}),
    ),
    "tiles again": (tiles, lambda A: batch_linop(A, {"Nx": 1})),
    "tiles across tiles": (tiles, lambda A: batch_linop(A, {"Nx": 3})),
    "tiles that overlap again": (tiles_that_overlap, lambda A: batch_linop(A, {"Ny": 3})),
    "a grid of tiles the other way": (grid, lambda A: batch_linop(A, {"N": 1, "M": 1})),
    "the adjoint of tiles": (tiles_that_overlap, lambda A: batch_linop(A.H, {"Ny": 2})),
    "convolutions into tiles": (blurs, lambda A: batch_linop(A, {A.oshape[0]: 3})),
    "matrices into tiles": (matrices, lambda A: batch_linop(A, {A.oshape[0]: 1})),
    "one name of a chain": (matrices, lambda A: batch_linop(A, {"N1": 2})),
    "the slices alone": (block_diagonal, lambda A: tile_grid(A, {"Nx": 1})),
    "groups of tiles": (tiles, lambda A: groups_of(A)),
    "the normal of tiles": (tiles, lambda A: A.N),
}


def groups_of(linop: Any) -> object:
    return linop.tiles.output.groups


@pytest.mark.parametrize("name", WORK)
def test_twice_as_much_is_cut_in_twice_as_many_steps(name: str) -> None:
    make, work = WORK[name]
    few, many = (n_calls(partial(work, make(n))) for n in (40, 80))
    assert many <= 2.5 * few  # of squares it would be four times


def test_thousands_of_blocks_are_cut() -> None:
    A = block_diagonal(2000)
    x = torch.rand(2000)
    tiles = batch_linop(A, {"Nx": 1})
    assert torch.equal(tiles(x), x)
    assert torch.equal(batch_linop(tiles, {"Nx": 2})(x), x)
