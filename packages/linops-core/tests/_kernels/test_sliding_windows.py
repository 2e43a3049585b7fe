"""Sliding windows on an axis and on grids, against explicit loops."""

from collections.abc import Sequence
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core._kernels._sliding_windows import (
    SlidingWindows,
    coverage,
    flat_positions,
    folded,
    unfolded,
)


@st.composite
def grids_with_windows(draw: st.DrawFn) -> tuple[list[int], list[SlidingWindows]]:
    ndim = draw(st.integers(1, 4))
    grid = [draw(st.integers(1, 6 if ndim < 3 else 3)) for _ in range(ndim)]
    windows = []
    for size in grid:
        length, stride = draw(st.integers(1, size)), draw(st.integers(1, 4))
        offset = draw(st.integers(0, size - length))
        count = draw(st.integers(1, (size - offset - length) // stride + 1))
        if draw(st.booleans()):  # windows on a longer axis, of which the grid is a part
            offset, count = draw(st.integers(-9, size + 2)), draw(st.integers(1, 4))
        windows.append(SlidingWindows(size, offset, count, stride, length))
    return grid, windows


def places(windows: list[SlidingWindows]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the index into the blocks, and the one into the array, of every element."""
    results = []
    for which in product(*(range(axis.n_windows) for axis in windows)):
        for inside in product(*(range(axis.length) for axis in windows)):
            at = (
                axis.offset + w * axis.stride + e
                for axis, w, e in zip(windows, which, inside, strict=True)
            )
            results.append(((*which, *inside), tuple(at)))
    return results


def on_the_grid(at: Sequence[int], grid: Sequence[int]) -> bool:
    return all(0 <= i < size for i, size in zip(at, grid, strict=True))


def batch(at: Sequence[int]) -> tuple[slice | int, ...]:
    return (slice(None), *at)


def integers(*lengths: int) -> Tensor:
    return torch.arange(1, 1 + torch.Size(lengths).numel(), dtype=torch.float64).reshape(lengths)


@given(grids_with_windows())
def test_every_element_of_every_window_is_the_one_of_the_array(
    drawn: tuple[list[int], list[SlidingWindows]],
) -> None:
    grid, windows = drawn
    x = integers(2, *grid)
    blocks = unfolded(x, windows)
    for in_blocks, at in places(windows):
        expected = x[batch(at)] if on_the_grid(at, grid) else torch.zeros(2, dtype=x.dtype)
        assert torch.equal(blocks[batch(in_blocks)], expected)
    assert blocks[0].numel() == len(places(windows))


@given(grids_with_windows())
def test_folding_adds_what_falls_on_one_element(
    drawn: tuple[list[int], list[SlidingWindows]],
) -> None:
    grid, windows = drawn
    counts, lengths = ([axis[i] for axis in windows] for i in (2, 4))
    blocks = integers(2, *counts, *lengths)
    kept = blocks.clone()
    expected = torch.zeros(2, *grid, dtype=torch.float64)
    for in_blocks, at in places(windows):
        if on_the_grid(at, grid):
            expected[batch(at)] += blocks[batch(in_blocks)]
    assert torch.equal(folded(blocks, windows), expected)
    assert torch.equal(blocks, kept)


@given(grids_with_windows())
def test_coverage_counts_the_windows_at_each_element(
    drawn: tuple[list[int], list[SlidingWindows]],
) -> None:
    grid, windows = drawn
    expected = torch.zeros(grid, dtype=torch.float32)
    for _, at in places(windows):
        if on_the_grid(at, grid):
            expected[at] += 1
    result = torch.ones(())
    for axis in windows:
        result = result.unsqueeze(-1) * coverage(axis, torch.ones((), dtype=torch.complex64))
    assert result.dtype == torch.float32
    assert torch.equal(result, expected)


def test_what_is_unfolded_is_a_view() -> None:
    x = torch.zeros(5, 6)
    blocks = unfolded(x, [SlidingWindows(5, 0, 2, 2, 3), SlidingWindows(6, 1, 2, 1, 2)])
    assert blocks.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_windows_side_by_side_are_put_together_in_one_copy() -> None:
    blocks = torch.arange(6.0).reshape(3, 2)
    whole = folded(blocks, [SlidingWindows(6, 0, 3, 2, 2)])
    assert whole.untyped_storage().data_ptr() == blocks.untyped_storage().data_ptr()
    assert whole.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_each_is_the_gradient_of_the_other_in_every_order(dtype: torch.dtype) -> None:
    windows = [SlidingWindows(5, 0, 2, 2, 3), SlidingWindows(4, 1, 3, 1, 1)]
    x = torch.randn(5, 4, dtype=dtype, requires_grad=True)
    blocks = torch.randn(2, 3, 3, 1, dtype=dtype, requires_grad=True)
    for function, at in (
        (lambda x: unfolded(x, windows), x),
        (lambda y: folded(y, windows), blocks),
    ):
        assert torch.autograd.gradcheck(function, at, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(function, at)


def test_what_is_written_in_place_survives_the_compiler() -> None:
    # When it makes a graph without writes, torch forgets what is in the gaps of a view by unfold.
    windows = [SlidingWindows(10, 0, 4, 2, 3)]
    torch._dynamo.reset()
    run = torch.compile(lambda blocks: folded(blocks, windows), backend="aot_eager", fullgraph=True)
    assert run(torch.ones(2, 4, 3))[0].tolist() == [1, 1, 2, 1, 2, 1, 2, 1, 1, 0]


def test_flat_positions_are_those_of_a_flattened_grid() -> None:
    grid = [3, 4, 5]
    axes = [torch.tensor([2, 0]), torch.tensor([1]), torch.tensor([4, 3, 0])]
    result = flat_positions(axes, grid)
    points = torch.arange(60).reshape(grid)
    expected = points[axes[0]][:, axes[1]][:, :, axes[2]]
    assert torch.equal(result, expected)
