from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import ArrayToBlocks, BlocksToArray, NamedLinop, SplitError
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND, NamedDimension

WindowsIn = Callable[[NamedLinop], st.SearchStrategy[dict[NamedDimension, slice]]]

CROSS = torch.tensor([[False, True], [True, True]])
KEPT = torch.tensor([[True, False], [True, True], [False, True]])
ALL = slice(None)


class TestArrayToBlocks(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return ArrayToBlocks([5, 3], [3, 2], [1, 2], batch_shape=("C",))

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@pytest.mark.variant
class TestTileOfAnArray(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        A = ArrayToBlocks([6, 4], [3, 2], [1, 2], None, ())
        return A.split_forward([slice(2, 4), slice(1, 4)], [slice(0, 3), slice(0, 2), ALL, ALL])


@pytest.mark.variant
class TestTileOfKeptElements(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        A = BlocksToArray([6, 3], [3, 2], [2, 1], KEPT, ())
        return A.split_forward([ALL, ALL, slice(1, 3)], [slice(1, 4), slice(0, 2)])


@pytest.mark.variant
class TestTileOfKeptBlocks(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        A = ArrayToBlocks([4, 3], [2, 2], [2, 1], CROSS, (), mask_of="blocks")
        return A.split_forward([slice(1, 3), slice(1, 3)], [slice(1, 3), ALL, ALL])


class TestBlocksToArray(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return BlocksToArray([6], [2], [3])


class TestKeptBlocks(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return ArrayToBlocks([4, 3], [2, 2], [2, 1], CROSS, mask_of="blocks")


@pytest.mark.variant
class TestKeptElements(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return BlocksToArray([4, 3], [2, 2], [1, 1], CROSS, ("C",), ("B", "D", "E"), ("X", "Y"))

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


def test_blocks_of_a_line() -> None:
    A = ArrayToBlocks([6], [3], [2])
    x = torch.arange(6.0)
    assert A(x).tolist() == [[0, 1, 2], [2, 3, 4]]  # element 5 is in no whole block
    assert A.H(torch.ones(2, 3)).tolist() == [1, 1, 2, 1, 1, 0]
    assert A.N(x).tolist() == [0, 1, 4, 3, 4, 0]
    B = BlocksToArray([6], [3], [2])
    assert B(torch.ones(2, 3)).tolist() == [1, 1, 2, 1, 1, 0]
    assert torch.equal(B.to_dense({"...": 2}), A.to_dense({"...": 2}).mH)


def test_a_mean_over_blocks_is_a_moving_average() -> None:
    x = torch.randn(20, dtype=torch.float64)
    means = ArrayToBlocks([20], [4], [1])(x).mean(-1)
    sums = torch.cat([torch.zeros(1, dtype=torch.float64), x.cumsum(0)])
    torch.testing.assert_close(means, (sums[4:] - sums[:-4]) / 4)


def test_blocks_of_five_dimensions_have_names_and_views() -> None:
    A = ArrayToBlocks([2, 3, 2, 3, 2], [1, 2, 2, 1, 2], [1] * 5)
    assert A.ishape == ("...", "N", "N1", "N2", "N3", "N4")
    assert A.oshape[1:6] == ("B", "B1", "B2", "B3", "B4") and A.oshape[6] == "E"
    x = torch.randn(2, 3, 2, 3, 2)
    assert torch.equal(A(x)[1, 0, 0, 2, 0, 0, :, :, 0], x[1, 0:2, :, 2])


def test_a_mask_of_the_shape_of_the_blocks_keeps_blocks() -> None:
    x = torch.arange(5.0)
    A = ArrayToBlocks([5], [2], [1], torch.tensor([True, False, False, True]))
    assert A.oshape == ("...", "B", "Ex")
    assert A(x).tolist() == [[0, 1], [3, 4]]
    assert A.N(x).tolist() == [0, 1, 0, 3, 4]


def test_a_mask_of_the_shape_of_a_block_keeps_elements_of_every_block() -> None:
    x = torch.arange(5.0)
    A = ArrayToBlocks([5], [3], [2], torch.tensor([True, False, True]))
    assert A.oshape == ("...", "Bx", "E")
    assert A(x).tolist() == [[0, 2], [2, 4]]
    assert A.N(x).tolist() == [0, 0, 4, 0, 4]


def test_a_mask_that_may_mean_both_needs_a_word() -> None:
    with pytest.raises(ValueError, match=r"mask_of must say which if both shapes are equal, got"):
        ArrayToBlocks([4, 3], [2, 2], [2, 1], CROSS)
    x = torch.arange(12.0).reshape(4, 3)
    of_blocks = ArrayToBlocks([4, 3], [2, 2], [2, 1], CROSS, mask_of="blocks")
    of_elements = ArrayToBlocks([4, 3], [2, 2], [2, 1], CROSS, mask_of="elements")
    everything = ArrayToBlocks([4, 3], [2, 2], [2, 1])(x)
    assert torch.equal(of_blocks(x), everything[CROSS])
    assert torch.equal(of_elements(x), everything[..., CROSS])


def test_the_result_is_a_view_unless_there_is_a_mask() -> None:
    x = torch.randn(4)
    both = torch.tensor([True, True])
    for A, shares in (
        (ArrayToBlocks([4], [2], [2]), True),
        (ArrayToBlocks([4], [2], [2], both, mask_of="blocks"), False),
    ):
        y = A(x)
        assert (y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == shares


def test_windows_their_elements_and_the_array_can_be_sliced() -> None:
    A = ArrayToBlocks([8], [3], [2])
    assert [str(A.role(dim)) for dim in ("Nx", "Bx", "Ex")] == ["input", "output", "output"]
    assert [A.size(dim) for dim in ("Nx", "Bx", "Ex", "Q")] == [8, 3, 3, None]
    tile = A.split(A, {ND("Bx"): slice(1, 3), ND("Ex"): slice(2, 3)})
    assert tile(torch.arange(8.0)).tolist() == [[4], [6]]
    again = tile.split(tile, {ND("Bx"): slice(1, 2)})
    assert again.H(torch.ones(1, 1)).tolist() == [0, 0, 0, 0, 0, 0, 1, 0]
    assert str(A.N.role("Bx")) == "inner"
    assert A.N.split(A.N, {ND("Bx"): slice(2, 3)})(torch.ones(8)).tolist() == [
        0,
        0,
        0,
        0,
        1,
        1,
        1,
        0,
    ]


@st.composite
def blocks_of_arrays(draw: st.DrawFn) -> NamedLinop:
    ndim = draw(st.integers(1, 2))
    grid = [draw(st.integers(1, 6 if ndim == 1 else 4)) for _ in range(ndim)]
    lengths = [draw(st.integers(1, n)) for n in grid]
    strides = [draw(st.integers(1, 4)) for _ in grid]
    return draw(st.sampled_from([ArrayToBlocks, BlocksToArray]))(grid, lengths, strides, None, ())


@given(data=st.data())
def test_a_tile_of_a_tile_is_that_block_of_the_matrix(
    data: st.DataObject, windows_in: WindowsIn
) -> None:
    A = data.draw(blocks_of_arrays())
    dims = (*A.oshape, *A.ishape)
    parts = A.to_dense().reshape([A.size(dim) or 0 for dim in dims])
    tile: NamedLinop = A
    for _ in range(2):
        window = data.draw(windows_in(tile))
        tile = tile.split(tile, window)
        parts = parts[tuple(window.get(dim, ALL) for dim in dims)]
        assert type(tile) is type(A)
        matrix = tile.to_dense()
        assert torch.equal(matrix, parts.reshape(matrix.shape))
        assert torch.equal(tile.H.to_dense(), matrix.mH)
        assert torch.equal(tile.N.to_dense(), matrix.mH @ matrix)
        assert torch.equal(tile.H.N.to_dense(), matrix @ matrix.mH)


@given(data=st.data())
def test_the_support_of_a_tile_is_what_it_touches(
    data: st.DataObject, windows_in: WindowsIn
) -> None:
    A = data.draw(blocks_of_arrays())
    tile = A.split(A, data.draw(windows_in(A)))
    dims = (*A.oshape, *A.ishape)
    results = [tile.support(dim) for dim in dims]
    assert results == [tile.H.support(dim) for dim in dims]
    touching = tile.to_dense().reshape([tile.size(dim) or 0 for dim in dims]).nonzero()
    if len(touching):
        ends = zip(touching.amin(0).tolist(), touching.amax(0).tolist(), strict=True)
        assert results == [slice(first, last + 1) for first, last in ends]
    else:  # along one axis nothing touches
        assert any(piece is not None and piece.start == piece.stop for piece in results)


def test_a_name_that_array_and_blocks_share_cannot_be_sliced() -> None:
    A = ArrayToBlocks([4], [2], [2], None, (), ("N",), ("N", "E"))
    assert [str(A.role(dim)) for dim in "NE"] == ["opaque", "output"]
    assert A.support("N") is None
    with pytest.raises(SplitError, match=r"N cannot be split: .* or rename one of them$"):
        A.split(A, {ND("N"): slice(0, 1)})


def test_a_tile_of_the_array_sums_the_blocks_that_reach_into_it() -> None:
    A = BlocksToArray([1000], [4], [2], None, ())
    tile = A.split(A, {ND("Nx"): slice(500, 510)})
    assert tile.support("Bx") == slice(249, 255)
    with_blocks = torch.ones(499, 4)
    assert tile(with_blocks).tolist() == [2] * 10
    assert tile(with_blocks).untyped_storage().nbytes() <= 16 * 4


def test_a_tile_of_kept_blocks_reads_its_part_of_them() -> None:
    A = ArrayToBlocks([5], [2], [1], torch.tensor([True, False, True, True]))
    tile = A.split(A, {ND("B"): slice(1, 3)})
    assert tile(torch.arange(5.0)).tolist() == [[2, 3], [3, 4]]


@pytest.mark.parametrize("kind", [ArrayToBlocks, BlocksToArray])
@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([4], [2, 2], [1]), {}, ValueError, r"one number per dimension, got \(\(4,\), \(2, 2\)"),
        (([], [], []), {}, ValueError, r"one number per dimension, got"),
        (([4], [5], [1]), {}, ValueError, r"fit into the array, got block_size \(5,\)"),
        (([4], [0], [1]), {}, ValueError, r"sizes and strides must be positive integers"),
        (([4], [2.0], [1]), {}, ValueError, r"positive integers, .* got block_size \(2\.0,\)"),
        (([4], [torch.ones(2)], [1]), {}, ValueError, r"must be positive integers"),
        (([4], [2], [0]), {}, ValueError, r"strides must be positive integers, .* stride \(0,\)"),
        (([4], [2], [1], [True]), {}, TypeError, r"a tensor of booleans, got <class 'list'>"),
        (([4], [2], [1], torch.ones(2)), {}, TypeError, r"booleans, got torch.float32"),
        (
            ([4], [2], [1], torch.ones(4).bool()),
            {},
            ValueError,
            r"the shape \(3,\) \(of blocks\) or \(2,\) \(of elements\), .* got shape \(4,\)",
        ),
        (
            ([4], [2], [1], torch.ones(2).bool()),
            {"mask_of": "blocks"},
            ValueError,
            r"the shape \(3,\) \(of blocks\), .* got shape \(2,\)",
        ),
        (
            ([4], [2], [1], torch.ones(2).bool()),
            {"mask_of": "rows"},
            ValueError,
            r"mask_of must be one of \['blocks', 'elements'\], got 'rows'",
        ),
        (([4], [2], [1]), {"mask_of": "blocks"}, ValueError, r"mask_of must come with a mask"),
        (
            ([4], [2], [1]),
            {"array_shape": ("A", "B")},
            ValueError,
            r"array_shape must have 1 dimensions for blocks of \(2,\), got \('A', 'B'\)",
        ),
        (
            ([4], [2], [1]),
            {"blocks_shape": ("B", "...")},
            ValueError,
            r"blocks_shape must have 2 dimensions",
        ),
    ],
)
def test_what_makes_no_blocks_is_refused(
    kind: type[NamedLinop],
    arguments: Any,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=rf"{kind.__name__}: .*{message}"):
        kind(*arguments, **options)
