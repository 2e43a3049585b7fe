"""Sliding blocks of an axis and of grids, against explicit loops."""

from collections.abc import Sequence
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core._kernels._sliding_blocks import (
    AxisBlocks,
    coverage,
    flat_positions,
    folded,
    unfolded,
)


@st.composite
def grids_with_blocks(draw: st.DrawFn) -> tuple[list[int], list[AxisBlocks]]:
    ndim = draw(st.integers(1, 4))
    grid = [draw(st.integers(1, 6 if ndim < 3 else 3)) for _ in range(ndim)]
    axes = []
    for size in grid:
        length, stride = draw(st.integers(1, size)), draw(st.integers(1, 4))
        offset = draw(st.integers(0, size - length))
        count = draw(st.integers(1, (size - offset - length) // stride + 1))
        if draw(st.booleans()):  # blocks of a longer axis, of which the grid is a part
            offset, count = draw(st.integers(-9, size + 2)), draw(st.integers(1, 4))
        axes.append(AxisBlocks(size, offset, count, stride, length))
    return grid, axes


def indices(axes: list[AxisBlocks]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the index into the blocks, and the one into the array, of every element."""
    results = []
    for which in product(*(range(axis.n_blocks) for axis in axes)):
        for inside in product(*(range(axis.length) for axis in axes)):
            at = (
                axis.offset + w * axis.stride + e
                for axis, w, e in zip(axes, which, inside, strict=True)
            )
            results.append(((*which, *inside), tuple(at)))
    return results


def on_the_grid(at: Sequence[int], grid: Sequence[int]) -> bool:
    return all(0 <= i < size for i, size in zip(at, grid, strict=True))


def batch(at: Sequence[int]) -> tuple[slice | int, ...]:
    return (slice(None), *at)


def integers(*lengths: int) -> Tensor:
    return torch.arange(1, 1 + torch.Size(lengths).numel(), dtype=torch.float64).reshape(lengths)


@given(grids_with_blocks())
def test_every_element_of_every_block_is_the_one_of_the_array(
    drawn: tuple[list[int], list[AxisBlocks]],
) -> None:
    grid, axes = drawn
    x = integers(2, *grid)
    blocks = unfolded(x, axes)
    for in_blocks, at in indices(axes):
        expected = x[batch(at)] if on_the_grid(at, grid) else torch.zeros(2, dtype=x.dtype)
        assert torch.equal(blocks[batch(in_blocks)], expected)
    assert blocks[0].numel() == len(indices(axes))


@given(grids_with_blocks())
def test_folding_adds_what_falls_on_one_element(
    drawn: tuple[list[int], list[AxisBlocks]],
) -> None:
    grid, axes = drawn
    counts, lengths = ([axis[i] for axis in axes] for i in (2, 4))
    blocks = integers(2, *counts, *lengths)
    kept = blocks.clone()
    expected = torch.zeros(2, *grid, dtype=torch.float64)
    for in_blocks, at in indices(axes):
        if on_the_grid(at, grid):
            expected[batch(at)] += blocks[batch(in_blocks)]
    assert torch.equal(folded(blocks, axes), expected)
    assert torch.equal(blocks, kept)


@given(grids_with_blocks())
def test_coverage_counts_the_blocks_at_each_element(
    drawn: tuple[list[int], list[AxisBlocks]],
) -> None:
    grid, axes = drawn
    expected = torch.zeros(grid, dtype=torch.float32)
    for _, at in indices(axes):
        if on_the_grid(at, grid):
            expected[at] += 1
    result = torch.ones(())
    for axis in axes:
        result = result.unsqueeze(-1) * coverage(axis, torch.ones((), dtype=torch.complex64))
    assert result.dtype == torch.float32
    assert torch.equal(result, expected)


def test_what_is_unfolded_is_a_view() -> None:
    x = torch.zeros(5, 6)
    blocks = unfolded(x, [AxisBlocks(5, 0, 2, 2, 3), AxisBlocks(6, 1, 2, 1, 2)])
    assert blocks.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_blocks_side_by_side_are_put_together_in_one_copy() -> None:
    blocks = torch.arange(6.0).reshape(3, 2)
    whole = folded(blocks, [AxisBlocks(6, 0, 3, 2, 2)])
    assert whole.untyped_storage().data_ptr() == blocks.untyped_storage().data_ptr()
    assert whole.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_each_is_the_gradient_of_the_other_in_every_order(dtype: torch.dtype) -> None:
    axes = [AxisBlocks(5, 0, 2, 2, 3), AxisBlocks(4, 1, 3, 1, 1)]
    x = torch.randn(5, 4, dtype=dtype, requires_grad=True)
    blocks = torch.randn(2, 3, 3, 1, dtype=dtype, requires_grad=True)
    for function, at in (
        (lambda x: unfolded(x, axes), x),
        (lambda y: folded(y, axes), blocks),
    ):
        assert torch.autograd.gradcheck(function, at, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(function, at)


def test_what_is_written_in_place_survives_the_compiler() -> None:
    # When it makes a graph without writes, torch forgets what is in the gaps of a view by unfold.
    axes = [AxisBlocks(10, 0, 4, 2, 3)]
    torch._dynamo.reset()
    run = torch.compile(lambda blocks: folded(blocks, axes), backend="aot_eager", fullgraph=True)
    assert run(torch.ones(2, 4, 3))[0].tolist() == [1, 1, 2, 1, 2, 1, 2, 1, 1, 0]


def test_flat_positions_are_those_of_a_flattened_grid() -> None:
    grid = [3, 4, 5]
    axes = [torch.tensor([2, 0]), torch.tensor([1]), torch.tensor([4, 3, 0])]
    result = flat_positions(axes, grid)
    points = torch.arange(60).reshape(grid)
    expected = points[axes[0]][:, axes[1]][:, :, axes[2]]
    assert torch.equal(result, expected)
