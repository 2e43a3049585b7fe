"""Cutting an operator: which tiles there are, where they belong, and what is refused.

Shapes: C coils, M rows, N columns, K samples.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from torch import Tensor, nn

from linops_core import FFT, Dense, Diagonal, Identity, NamedLinop, Sampling, SplitError
from linops_split import batch_linop, plan_batches, split_linop, tile_grid, tile_lengths
from nameddim import ND, NamedShape


def matrix() -> Dense:
    return Dense(nn.Parameter(torch.rand(4, 5, dtype=torch.complex128)), ("M", "N"))


def test_tiles_cover_a_dimension_in_order_and_the_last_is_what_is_left() -> None:
    grid = tile_grid(matrix(), {"N": 2})
    assert [tile[ND("N")] for tile in grid] == [
        (0, slice(0, 2)),
        (1, slice(2, 4)),
        (2, slice(4, 5)),
    ]
    assert tile_lengths(grid) == {"N": [2, 2, 1]}


def test_the_axes_of_the_grid_have_the_order_of_the_batch_sizes() -> None:
    assert tile_grid(matrix(), {"N": 2, "M": 3}).shape == (3, 2)
    grid = tile_grid(matrix(), {"M": 3, "N": 2})
    assert grid.shape == (2, 3)
    assert grid[1, 2] == {"M": (1, slice(3, 4)), "N": (2, slice(4, 5))}
    assert tile_lengths(grid) == {"M": [3, 1], "N": [2, 2, 1]}


@pytest.mark.parametrize(("size", "count"), [(1, 5), (4, 2), (5, 1), (6, 1), (10**9, 1)])
def test_there_are_as_many_tiles_as_are_needed(size: int, count: int) -> None:
    linops, ibatches, obatches = split_linop(matrix(), {"N": size})
    assert linops.shape == ibatches.shape == obatches.shape == (count,)


def test_an_empty_dimension_is_one_empty_tile() -> None:
    A = Dense(torch.rand(4, 0), ("M", "N"))
    linops, ibatches, _ = split_linop(A, {"N": 2, "M": 3})
    assert linops.shape == (1, 2) and ibatches[0, 0] == [slice(0, 0)]
    # It may be one whose size the operator does not know.
    F = FFT(1, batch_shape=("C", "B"))
    x = torch.zeros(2, 0, 4, dtype=torch.complex64)
    for batch_sizes in ({"B": 2}, {"B": 2, "C": 1}, {"C": 1}):
        cut = batch_linop(F, batch_sizes, sizes={"B": 0, "C": 2})
        assert cut(x).shape == cut.H(x).shape == cut.N(x).shape == x.shape
        with pytest.raises(ValueError, match="B must have size 0, got 1"):
            cut(torch.zeros(2, 1, 4, dtype=torch.complex64))
    assert plan_batches(F, 2**10, like=x).peak == 0


def test_no_batch_sizes_make_one_tile_the_operator_itself() -> None:
    A = matrix()
    linops, ibatches, obatches = split_linop(A, {})
    assert linops.shape == ibatches.shape == obatches.shape == ()
    assert linops.item() is A
    assert ibatches.item() == obatches.item() == [slice(None)]


def test_numpy_integers_are_integers() -> None:
    sizes = {"N": torch.arange(3).numpy()[2]}
    piece = split_linop(matrix(), sizes)[1][1][0]
    assert piece == slice(2, 4) and type(piece.start) is type(piece.stop) is int


def test_batches_say_where_a_tile_reads_and_writes() -> None:
    A = matrix()
    x = torch.rand(5, dtype=torch.complex128)
    y = torch.zeros(4, dtype=torch.complex128)
    grids = (grid.ravel().tolist() for grid in split_linop(A, {"M": 3, "N": 2}))
    for tile, ibatch, obatch in zip(*grids, strict=True):
        y[tuple(obatch)] += tile(x[tuple(ibatch)])
    torch.testing.assert_close(y, A(x))


def test_a_dimension_that_is_not_cut_is_whole() -> None:
    A = Diagonal(torch.rand(2, 3), ("C", "N"))
    _, ibatches, obatches = split_linop(A, {"N": 2})
    assert ibatches[1] == obatches[1] == [slice(None), slice(2, 3)]


def test_an_inner_dimension_is_in_no_batch() -> None:
    A = Dense(torch.rand(3, 4), ("K", "M")) @ Dense(torch.rand(4, 5), ("M", "N"))
    linops, ibatches, obatches = split_linop(A, {"M": 2})
    x = torch.rand(5)
    assert [*ibatches] == [*obatches] == [[slice(None)]] * 2
    torch.testing.assert_close(linops[0](x) + linops[1](x), A(x))


def test_tiles_are_views_of_the_weights_and_hold_the_parameters(
    no_allocation: Callable[[], AbstractContextManager[object]],
) -> None:
    A = Sampling([torch.tensor([0, 2, 1])], [5], ("K",), ("M",)) @ Dense(
        nn.Parameter(torch.rand(2, 5, 5)), ("C", "M", "N"), ("N",), ("C", "M")
    )
    with no_allocation():
        tiles, _, _ = split_linop(A, {"C": 1, "K": 2, "N": 3})
    assert tiles.shape == (2, 2, 2)
    tensors = [*A.parameters(), *A.buffers()]
    for tile in tiles.ravel().tolist():
        results = [*tile.parameters(), *tile.buffers()]
        assert all(here is there for here, there in zip(results, tensors, strict=True))


def test_the_check_of_allocations_sees_one(
    no_allocation: Callable[[], AbstractContextManager[object]],
) -> None:
    with pytest.raises(AssertionError, match="allocates"), no_allocation():
        torch.ones(3).clone()


def test_gradients_through_tiles_reach_the_weight() -> None:
    A = matrix()
    x = torch.rand(5, dtype=torch.complex128)
    tiles, ibatches, _ = (grid.ravel().tolist() for grid in split_linop(A, {"M": 3, "N": 2}))
    for tile, ibatch in zip(tiles, ibatches, strict=True):
        tile(x[tuple(ibatch)]).real.sum().backward()
    result = A.weight.grad
    A.zero_grad()
    torch.autograd.backward(A(x).real.sum())
    torch.testing.assert_close(result, A.weight.grad)


def test_tiles_follow_the_weight() -> None:
    A = matrix()
    linops, _, _ = split_linop(A, {"M": 3})
    A.weight = nn.Parameter(torch.ones(4, 5))
    assert torch.equal(linops[1](torch.ones(5)), torch.tensor([5.0]))


class Flip(NamedLinop):
    """An operator that a user wrote, without ``split``."""

    def __init__(self) -> None:
        super().__init__(NamedShape(("C", "N")))

    @staticmethod
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        return x.flip(-1)

    adj_fn = fn


TWICE = Dense(torch.rand(5, 4), ("N", "M")) @ Dense(torch.rand(4, 5), ("M", "N"))


@pytest.mark.parametrize(
    ("linop", "batch_sizes", "message"),
    [
        (matrix(), {"Q": 1}, r"Dense \(N\) -> \(M\): .* one of \['M', 'N'\], got Q$"),
        (FFT(1), {"C": 1}, r"FFT \(\.\.\., Nx\) -> .* got C, or it is hidden behind an ellipsis$"),
        (FFT(1), {"...": 1}, "got \\.\\.\\."),
        (FFT(1), {"Kx": 1}, "Kx cannot be split: a Fourier transform mixes all of its grid"),
        (Flip(), {"N": 1}, "N cannot be split: the operator does not define its slices"),
        (TWICE, {"N": 1}, "N cannot be split: 2 separate dimensions along the chain"),
        (matrix(), {"N": 0}, r"the batch size of N must be a positive integer, got 0"),
        (matrix(), {"N": -2}, "must be a positive integer, got -2"),
        (matrix(), {"N": 2.0}, r"must be a positive integer, got 2\.0"),
        (matrix(), {"N": True}, "must be a positive integer, got True"),
        (matrix(), {"N": None}, "must be a positive integer, got None"),
        (Identity(("N",)), {"N": 2}, r"Identity \(N\) -> \(N\): the size of N must be known"),
    ],
)
def test_what_cannot_be_cut_is_refused(
    linop: NamedLinop, batch_sizes: dict[str, int], message: str
) -> None:
    for cut in (tile_grid, split_linop):
        with pytest.raises(SplitError, match=message):
            cut(linop, batch_sizes)


@pytest.mark.parametrize("mistake", [{"Q": 1}, {"N": 0}])
def test_a_mistake_is_found_before_there_is_any_tile(
    mistake: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NamedLinop:
        raise AssertionError("a tile was made")

    monkeypatch.setattr(Dense, "split", staticmethod(fail))
    with pytest.raises(AssertionError, match="a tile was made"):
        split_linop(matrix(), {"M": 1})
    with pytest.raises(SplitError):
        split_linop(matrix(), {"M": 1, **mistake})
