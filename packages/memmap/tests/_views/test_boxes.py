"""Sets of bytes as boxes of a grid."""

from itertools import product

import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import view_of
from memmap._views._boxes import boxes_of
from memmap._views._layout import Layout


@st.composite
def blocks(draw: st.DrawFn) -> tuple[int, list[Layout]]:
    """Address of a tensor, and blocks of it, many of which fill whole rows or planes."""
    shape = draw(st.lists(st.integers(1, 4), min_size=2, max_size=3))
    whole = torch.zeros(shape, dtype=torch.int16)
    layouts = []
    for _ in range(draw(st.integers(1, 5))):
        block = whole
        for axis, size in enumerate(shape):
            start = draw(st.sampled_from([0, 0, draw(st.integers(0, size - 1))]))
            length = draw(st.sampled_from([size - start, draw(st.integers(1, size - start))]))
            block = block.narrow(axis, start, length)
        layout = view_of(block).layout()
        assert layout is not None
        layouts.append(layout)
    return view_of(whole).address, layouts


@given(blocks())
def test_a_box_is_the_bytes_of_its_layout(drawn: tuple[int, list[Layout]]) -> None:
    origin, layouts = drawn
    boxes = boxes_of(layouts, origin)
    assert boxes is not None
    strides = sorted({1}.union(*[[stride for stride, _ in layout.dims] for layout in layouts]))
    for layout, low, high, is_box in zip(layouts, *boxes, strict=True):
        digits = product(*[range(first, past) for first, past in zip(low, high, strict=True)])
        inside = sorted(
            origin + sum(d * s for d, s in zip(ds, strides, strict=True)) for ds in digits
        )
        steps = product(*[range(0, stride * count, stride) for stride, count in layout.dims])
        touched = sorted(layout.start + sum(step) for step in steps)
        if is_box:
            assert inside == touched


def test_whole_rows_are_boxes_with_columns() -> None:
    whole = torch.zeros(4, 6, dtype=torch.uint8)
    layouts = [layout for part in (whole[1:3], whole[:, 2:4]) if (layout := view_of(part).layout())]
    boxes = boxes_of(layouts, view_of(whole).address)
    assert boxes is not None and boxes.is_box.all()
    assert boxes.low.tolist() == [[0, 1], [2, 0]]
    assert boxes.high.tolist() == [[6, 3], [4, 4]]


def test_strides_that_do_not_divide_one_another_span_no_grid() -> None:
    assert boxes_of([Layout(0, 7, ((2, 4),)), Layout(0, 7, ((3, 3),))], 0) is None
