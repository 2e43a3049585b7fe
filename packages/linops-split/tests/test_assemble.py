from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from linops_core import Dense, Diagonal, NamedLinop, SplitError
from linops_split import Tiled, assemble, split_linop


def tiles_of(A: NamedLinop, batch_sizes: dict[str, int]) -> NDArray[np.object_]:
    return split_linop(A, batch_sizes)[0]


def matrix() -> Dense:
    return Dense(torch.rand(4, 5), ("M", "N"))


def windows_of(whole: NamedLinop) -> list[tuple[dict[str, slice], dict[str, slice]]]:
    assert isinstance(whole, Tiled)
    return [
        ({str(d): p for d, p in part.reads.items()}, {str(d): p for d, p in part.writes.items()})
        for part in whole.tiles.parts
    ]


def test_a_dimension_of_both_sides_is_concatenated_on_both() -> None:
    whole = assemble(tiles_of(Diagonal(torch.rand(3), ("N",)), {"N": 2}), ("N",))
    first, last = {"N": slice(0, 2)}, {"N": slice(2, 3)}
    assert windows_of(whole) == [(first, first), (last, last)]


def test_a_dimension_of_the_output_is_concatenated_there() -> None:
    whole = assemble(tiles_of(matrix(), {"M": 2}), ("M",))
    assert windows_of(whole) == [({}, {"M": slice(0, 2)}), ({}, {"M": slice(2, 4)})]


def test_a_dimension_of_the_input_is_summed_over() -> None:
    whole = assemble(tiles_of(matrix(), {"N": 4}), ("N",))
    assert windows_of(whole) == [({"N": slice(0, 4)}, {}), ({"N": slice(4, 5)}, {})]


def test_an_inner_dimension_is_summed_over() -> None:
    A = matrix() @ Dense(torch.rand(5, 3), ("N", "K"))
    whole = assemble(tiles_of(A, {"N": 2}), ("N",))
    assert windows_of(whole) == [({}, {})] * 3
    torch.testing.assert_close(whole.to_dense(), A.to_dense())


def test_a_single_tile_is_itself() -> None:
    A = matrix()
    assert assemble(tiles_of(A, {"M": 4, "N": 5}), ("M", "N")) is A
    assert assemble(tiles_of(A, {}), ()) is A


def test_results_are_summed_in_the_order_of_the_array() -> None:
    A = matrix()
    whole = assemble(tiles_of(A, {"M": 2, "N": 3}), ("M", "N"))
    reads = [read["N"].start for read, _ in windows_of(whole)]
    assert reads == [0, 3, 0, 3]
    torch.testing.assert_close(whole.to_dense(), A.to_dense())


def test_sizes_that_do_not_fit_are_refused() -> None:
    tiles = np.empty(2, dtype=object)
    tiles[:] = [matrix(), Dense(torch.rand(4, 6), ("M", "N"))]
    with pytest.raises(ValueError, match=r"assemble: .*N.*(5 and 6|6 and 5|5.*6)"):
        assemble(tiles, ("M",))
    with pytest.raises(ValueError, match=r"assemble: N must have one size .* got \[5, 7\]"):
        assemble(tiles, ("N",), lengths={"N": [7, 6]})


def test_lengths_are_for_tiles_that_do_not_know_them() -> None:
    tiles = np.array([Diagonal(torch.tensor([2.0]), ("N",), ("N",)) for _ in range(2)])
    with pytest.raises(ValueError, match="the size of N in each tile must be known"):
        assemble(tiles, ("N",))
    whole = assemble(tiles, ("N",), lengths={whole_dim: [1, 3] for whole_dim in tiles[0].ishape})
    assert torch.equal(whole(torch.ones(4)), torch.full((4,), 2.0))


@pytest.mark.parametrize("given", [[4], [4, 4, 4], [4, -4], [4.0, 4.0], 8, [[4, 4]], ["4", "4"]])
def test_lengths_must_be_one_positive_integer_for_each_tile(given: Any) -> None:
    tiles = tiles_of(matrix(), {"M": 2})
    with pytest.raises(SplitError, match=r"lengths of M must be positive .* each of 2 tiles"):
        assemble(tiles, ("M",), lengths={"M": given})
    with pytest.raises(SplitError, match=r"lengths of N must be .* each of no tiles along it"):
        assemble(tiles, ("M",), lengths={"N": given})
    with pytest.raises(TypeError, match=r"assemble: lengths must be a mapping"):
        assemble(tiles, ("M",), lengths=[given])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "dims", "message"),
    [
        ((2,), (), r"one axis of tiles per dimension of \(\), got tiles of shape \(2,\)"),
        ((2,), ("M", "N"), r"one axis of tiles per dimension of \(M, N\), got .* \(2,\)"),
        ((0,), ("N",), r"got tiles of shape \(0,\)"),
        ((2, 2), ("N", "N"), r"one axis of tiles per dimension of \(N, N\), got .* \(2, 2\)"),
    ],
)
def test_names_and_axes_that_do_not_fit_are_refused(
    shape: tuple[int, ...], dims: tuple[str, ...], message: str
) -> None:
    tiles = np.full(shape, matrix(), dtype=object)
    with pytest.raises(SplitError, match=message):
        assemble(tiles, dims)


def test_tiles_must_be_in_an_array() -> None:
    with pytest.raises(TypeError, match="assemble: linops must be an array of tiles, got"):
        assemble([matrix()], ("N",))  # type: ignore[arg-type]


@pytest.mark.parametrize("dims", [(), ("N",)])
def test_what_is_no_operator_is_refused(dims: tuple[str, ...]) -> None:
    tiles = np.full((1,) * len(dims), "A", dtype=object)
    with pytest.raises(TypeError, match="assemble: operands must be NamedLinops, got"):
        assemble(tiles, dims)
