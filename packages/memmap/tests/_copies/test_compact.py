"""Views that are moved closer together, by what becomes of every byte."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import ModuleMemoryMap, view_of


def addresses(tensor: torch.Tensor) -> list[int]:
    """Address of each byte, in the order of the elements."""
    view = view_of(tensor)
    steps = [range(0, n * s, s) if s else [0] * n for n, s in zip(view.sizes, view.strides)]  # noqa: B905
    elements = [view.address + sum(indices) for indices in product(*steps)]
    return [element + byte for element in elements for byte in range(view.itemsize)]


@st.composite
def tiles(draw: st.DrawFn) -> list[torch.Tensor]:
    """Blocks of one matrix, with steps, that may wrap around the ends of its rows."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    skipped = draw(st.integers(0, 3))
    matrix = torch.arange(float(skipped + rows * columns))[skipped:].view(rows, columns)
    results = []
    for _ in range(draw(st.integers(1, 4))):
        tile = matrix
        for axis, size in enumerate(matrix.shape):
            start = draw(st.integers(0, size - 1))
            stop = draw(st.integers(start + 1, size))
            step = draw(st.sampled_from([1, 1, 2, 3]))
            tile = tile[start:stop:step] if axis == 0 else tile[:, start:stop:step]
        results.append(tile.flatten() if tile.is_contiguous() and draw(st.booleans()) else tile)
    return results


def copied(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    module = torch.nn.Module()
    for number, tensor in enumerate(tensors):
        module.register_buffer(f"b{number}", tensor)
    return list(ModuleMemoryMap().copy_to(module, "cpu").buffers())


def check(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Copies, of which bytes are the same exactly where they were the same."""
    made = copied(tensors)
    new_of: dict[int, int] = {}
    for old, new in zip(tensors, made, strict=True):
        assert torch.equal(old, new)
        for source, target in zip(addresses(old), addresses(new), strict=True):
            assert new_of.setdefault(source, target) == target
    assert len(set(new_of.values())) == len(new_of)
    return made


@given(tiles())
def test_bytes_meet_where_they_met_and_nowhere_else(tensors: list[torch.Tensor]) -> None:
    check(tensors)


@given(tiles())
def test_a_single_tile_takes_what_it_touches_and_what_aligns_it(
    tensors: list[torch.Tensor],
) -> None:
    (tile,) = copied(tensors[:1])
    touched = tile.numel() * tile.itemsize
    # The start of a buffer is rounded down to a multiple of 64 bytes.
    assert touched <= tile.untyped_storage().nbytes() < touched + 64


@pytest.mark.parametrize("first", [0, 5])
def test_overlapping_columns_lose_the_columns_around_them(first: int) -> None:
    matrix = torch.arange(1000.0).view(10, 100)
    left, right = copied([matrix[:, first : first + 4], matrix[:, first + 2 : first + 8]])
    assert left.stride() == right.stride() == (8, 1)
    assert left.untyped_storage().nbytes() == 10 * 8 * 4
    right[:, 0] = -1
    assert (left[:, 2] == -1).all()


def test_columns_without_a_gap_keep_their_strides() -> None:
    matrix = torch.arange(12.0).view(3, 4)
    left, right = copied([matrix[:, :2], matrix[:, 2:]])
    assert left.stride() == right.stride() == (4, 1)
    assert left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()


def test_a_view_that_wraps_around_rows_is_no_box() -> None:
    flat = torch.arange(80.0)
    columns, _ = check([flat.view(4, 20)[:, :3], flat[17:23]])
    assert columns.stride() == (20, 1)


def test_a_box_that_sticks_out_of_the_bytes_between_its_tiles_is_not_used() -> None:
    matrix = torch.arange(192.0).view(3, 64)
    right, left = check([matrix[:2, 20:24], matrix[1:, :21]])
    assert right.stride() == left.stride() == (64, 1)


def test_windows_that_overlap_are_moved_as_they_are() -> None:
    matrix = torch.arange(60.0).view(3, 20)
    windows, _ = check([matrix[:, :8].unfold(1, 3, 1), matrix[:, 5:9]])
    assert windows.stride() == (9, 1, 1)
    (alone,) = check([matrix[:, :8].unfold(1, 3, 1)])
    assert alone.stride() == (8, 1, 1)
    assert alone.untyped_storage().nbytes() == 3 * 8 * 4


def test_windows_that_step_carry_from_digit_to_digit_and_stay() -> None:
    matrix = torch.arange(60.0).view(3, 20)
    windows, _ = check([matrix[:, :8].unfold(1, 3, 2), matrix[:, 5:9]])
    assert windows.stride() == (20, 2, 1)
