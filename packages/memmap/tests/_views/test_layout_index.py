"""The indexes that keep the analysis from comparing all with all."""

from hypothesis import example, given
from hypothesis import strategies as st

from memmap._views._layout import Layout, normalise, run_layout
from memmap._views._layout_index import LayoutIndex

SPACE = "RAM"
SPANS = st.builds(
    lambda start, length: (start, start + length), st.integers(0, 60), st.integers(1, 40)
)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    sizes = draw(st.lists(st.integers(1, 4), max_size=3))
    strides = tuple(draw(st.integers(-12, 12)) for _ in sizes)
    layout = normalise(
        draw(st.integers(-40, 60)), tuple(sizes), strides, draw(st.sampled_from([1, 2, 4]))
    )
    assert layout is not None
    return layout


def bytes_of(layout: Layout) -> set[int]:
    result = {layout.start}
    for stride, count in layout.dims:
        result = {start + stride * i for start in result for i in range(count)}
    return result


@given(st.lists(SPANS, max_size=20), SPANS, st.sets(st.integers(0, 19)))
def test_the_spans_found_are_exactly_those_that_meet(
    spans: list[tuple[int, int]], query: tuple[int, int], removed: set[int]
) -> None:
    index: LayoutIndex[int] = LayoutIndex()
    for item, span in enumerate(spans):
        index.add(SPACE, run_layout(*span), item)
    removed &= set(range(len(spans)))
    for item in removed:
        index.discard(SPACE, run_layout(*spans[item]), item)
        index.discard(SPACE, run_layout(*spans[item]), item)  # a second time does nothing
    expected = [
        item
        for item, (start, stop) in enumerate(spans)
        if item not in removed and max(start, query[0]) < min(stop, query[1])
    ]
    assert sorted(index.may_meet(SPACE, run_layout(*query))) == expected


@given(st.lists(layouts(), max_size=12), layouts(), st.sets(st.integers(0, 11)))
@example([Layout(1, 10, ((1, 4), (5, 2)))], Layout(-1, 3, ((1, 4),)), set())
def test_no_layout_that_shares_a_byte_is_left_out(
    items: list[Layout], query: Layout, removed: set[int]
) -> None:
    index: LayoutIndex[int] = LayoutIndex()
    for item, layout in enumerate(items):
        index.add(SPACE, layout, item)
    removed &= set(range(len(items)))
    for item in removed:
        index.discard(SPACE, items[item], item)
    result = index.may_meet(SPACE, query)
    assert len(result) == len(set(result))
    expected = {i for i, layout in enumerate(items) if bytes_of(layout) & bytes_of(query)}
    assert expected - removed <= set(result)
    assert not removed & set(result)


def test_columns_of_a_matrix_are_told_apart() -> None:
    index: LayoutIndex[int] = LayoutIndex()
    columns = [Layout(4 * i, 4 * i + 4 + 400 * 9, ((1, 4), (400, 10))) for i in range(100)]
    for i, column in enumerate(columns):
        index.add(SPACE, column, i)
    assert all(index.may_meet(SPACE, column) == [i] for i, column in enumerate(columns))
    assert sorted(index.may_meet(SPACE, Layout(396, 408, ((1, 12),)))) == [0, 1, 99]


def test_short_spans_are_found_beside_long_ones_without_a_scan() -> None:
    index: LayoutIndex[str] = LayoutIndex()
    index.add(SPACE, run_layout(0, 10**9), "long")
    for start in range(0, 10_000, 2):
        index.add(SPACE, run_layout(start, start + 2), f"short {start}")
    assert sorted(index.may_meet(SPACE, run_layout(5000, 5001))) == ["long", "short 5000"]


def test_items_in_other_spaces_are_not_found() -> None:
    index: LayoutIndex[str] = LayoutIndex()
    index.add("here", run_layout(0, 9), "item")
    index.discard("there", run_layout(0, 9), "item")
    assert index.may_meet("here", run_layout(1, 2)) == ["item"]
    assert index.may_meet("there", run_layout(1, 2)) == []
