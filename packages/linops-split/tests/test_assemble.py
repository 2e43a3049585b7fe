import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from linops_core import Add, Concat, Dense, Diagonal, NamedLinop, SplitError
from linops_split import assemble, split_linop


def tiles_of(A: NamedLinop, batch_sizes: dict[str, int]) -> NDArray[np.object_]:
    return split_linop(A, batch_sizes)[0]


def matrix() -> Dense:
    return Dense(torch.rand(4, 5), ("M", "N"))


def test_a_dimension_of_both_sides_is_concatenated_on_both() -> None:
    whole = assemble(tiles_of(Diagonal(torch.rand(5), ("N",)), {"N": 2}), ("N",))
    assert isinstance(whole, Concat) and (whole.idim, whole.odim) == ("N", "N")


def test_a_dimension_of_the_output_is_concatenated_there() -> None:
    whole = assemble(tiles_of(matrix(), {"M": 2}), ("M",))
    assert isinstance(whole, Concat) and (whole.idim, whole.odim) == (None, "M")


def test_a_dimension_of_the_input_is_summed_over() -> None:
    whole = assemble(tiles_of(matrix(), {"N": 2}), ("N",))
    assert isinstance(whole, Concat) and (whole.idim, whole.odim) == ("N", None)


def test_an_inner_dimension_is_summed_over() -> None:
    A = matrix() @ Dense(torch.rand(5, 3), ("N", "K"))
    whole = assemble(tiles_of(A, {"N": 2}), ("N",))
    assert isinstance(whole, Add) and len(whole.linops) == 3


def test_a_single_tile_is_itself() -> None:
    A = matrix()
    assert assemble(tiles_of(A, {"M": 4, "N": 5}), ("M", "N")) is A
    assert assemble(tiles_of(A, {}), ()) is A


def test_the_last_dimension_is_put_together_first() -> None:
    whole = assemble(tiles_of(matrix(), {"M": 2, "N": 3}), ("M", "N"))
    assert isinstance(whole, Concat) and whole.odim == "M"
    assert all(isinstance(row, Concat) and row.idim == "N" for row in whole.linops)


def test_lengths_are_for_tiles_that_do_not_know_them() -> None:
    tiles = np.array([Diagonal(torch.tensor([2.0]), ("N",), ("N",)) for _ in range(2)])
    with pytest.raises(ValueError, match="the size of N must be known"):
        assemble(tiles, ("N",))
    whole = assemble(tiles, ("N",), lengths={whole_dim: [1, 3] for whole_dim in tiles[0].ishape})
    assert torch.equal(whole(torch.ones(4)), torch.full((4,), 2.0))


@pytest.mark.parametrize(
    ("shape", "dims", "message"),
    [
        ((2,), (), r"one axis of tiles per dimension of \(\), got tiles of shape \(2,\)"),
        ((2,), ("M", "N"), r"one axis of tiles per dimension of \(M, N\), got .* \(2,\)"),
        ((0,), ("N",), r"got tiles of shape \(0,\)"),
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
    with pytest.raises(TypeError, match="assemble: tiles must be NamedLinops, got 'A'"):
        assemble(tiles, dims)
