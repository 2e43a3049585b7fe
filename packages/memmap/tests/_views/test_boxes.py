"""Sets of bytes as boxes of a grid."""

from itertools import product

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from memmap import View, view_of
from memmap._views._boxes import boxes_of
from memmap._views._layout import Layout
from memmap.testing import touched_bytes, views


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
    boxes = boxes_of(layouts, [origin])
    strides = boxes.strides
    assert {stride for layout in layouts for stride, _ in layout.dims} <= {*strides}
    for layout, low, high, is_box in zip(layouts, *boxes[2:], strict=True):
        digits = product(*[range(first, past) for first, past in zip(low, high, strict=True)])
        inside = sorted(
            origin + sum(d * s for d, s in zip(ds, strides, strict=True)) for ds in digits
        )
        steps = product(*[range(0, stride * count, stride) for stride, count in layout.dims])
        touched = sorted(layout.start + sum(step) for step in steps)
        assert {*touched} <= {*inside}
        if is_box:
            assert inside == touched


def test_whole_rows_are_boxes_with_columns() -> None:
    whole = torch.zeros(4, 6, dtype=torch.uint8)
    layouts = [layout for part in (whole[1:3], whole[:, 2:4]) if (layout := view_of(part).layout())]
    boxes = boxes_of(layouts, [view_of(whole).address])
    assert boxes.is_box.all()
    assert boxes.low.tolist() == [[0, 1], [2, 0]]
    assert boxes.high.tolist() == [[6, 3], [4, 4]]


def test_a_set_that_steps_beside_the_grid_is_in_a_box_of_its_bounds() -> None:
    layouts = [Layout(0, 7, ((2, 4),)), Layout(1, 8, ((2, 4),)), Layout(3, 10, ((3, 3),))]
    boxes = boxes_of(layouts, [0])
    assert boxes.strides == [1, 2]
    assert boxes.is_box.tolist() == [True, True, False]
    assert (boxes.low[2].tolist(), boxes.high[2].tolist()) == ([0, 1], [2, 5])


def test_the_origin_with_most_boxes_is_taken() -> None:
    columns = [Layout(start, start + 13, ((1, 4), (9, 2))) for start in (7, 7 + 2)]
    assert not boxes_of(columns, [0]).is_box.all()
    assert boxes_of(columns, [0, 7]).origin == 7
    assert boxes_of(columns, [0, 7]).is_box.all()


@given(st.lists(views().filter(lambda view: view.span is not None), min_size=1, max_size=4))
def test_every_byte_of_any_view_is_in_its_box(parts: list[View]) -> None:
    layouts = [layout for part in parts if (layout := part.layout())]
    boxes = boxes_of(layouts, [0, min(layout.start for layout in layouts)])
    for part, low, high, is_box in zip(parts, *boxes[2:], strict=True):
        digits = product(*[range(first, past) for first, past in zip(low, high, strict=True)])
        inside = {
            boxes.origin + sum(d * s for d, s in zip(ds, boxes.strides, strict=True))
            for ds in digits
        }
        assert {*touched_bytes(part)} <= inside
        assert not is_box or inside == {*touched_bytes(part)}


# The last byte is at 39, although the digit of 12 alone stays below 38.
@example([View("RAM", 0, 64, sizes=(4,), strides=(12,), itemsize=4)], {38}, 0)
@given(
    st.lists(views().filter(lambda view: view.span is not None), min_size=1, max_size=3),
    st.sets(st.integers(2, 12), max_size=2),
    st.integers(-9, 9),
)
def test_boxes_of_any_strides_are_the_bytes_of_their_views(
    parts: list[View], more: set[int], shift: int
) -> None:
    layouts = [layout for part in parts if (layout := part.layout())]
    strides = sorted({1, *more, *[stride for layout in layouts for stride, _ in layout.dims]})
    origin = min(layout.start for layout in layouts) + shift
    boxes = boxes_of(layouts, [origin], strides)
    for part, low, high, is_box in zip(parts, *boxes[2:], strict=True):
        results = []
        for digits in product(*map(range, low, high)) if is_box else ():
            rest = sum(d * s for d, s in zip(digits, strides, strict=True))
            results.append(origin + rest)
            for digit, stride in reversed([*zip(digits, strides, strict=True)]):
                assert digit == rest // stride  # so no byte has other digits in another box
                rest %= stride
        assert not is_box or sorted(results) == sorted({*touched_bytes(part)})
