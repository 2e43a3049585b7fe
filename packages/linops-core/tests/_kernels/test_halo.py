"""What touches in a correlation, against every pair of elements."""

from hypothesis import given
from hypothesis import strategies as st

from linops_core._kernels._halo import Axis


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    n_input, n_output = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    return Axis(n_input, n_output, draw(st.integers(1, 7)), draw(st.integers(-9, 9)))


def pairs(axis: Axis) -> list[tuple[int, int]]:
    """Return (input, output) of all that touch."""
    return [
        (i, p)
        for i in range(axis.n_input)
        for p in range(axis.n_output)
        if 0 <= i - p + axis.before < axis.taps
    ]


@given(axes())
def test_what_is_read_and_written_is_what_touches(axis: Axis) -> None:
    touching = pairs(axis)
    if touching:
        inputs, outputs = zip(*touching, strict=True)
        read, written = slice(min(inputs), max(inputs) + 1), slice(min(outputs), max(outputs) + 1)
        assert axis.supports == (read, written)
    else:
        assert axis.supports == (slice(0, 0), slice(0, 0))


@given(axes())
def test_the_way_back_touches_the_same(axis: Axis) -> None:
    assert axis.reverse.reverse == axis
    assert {(p, i) for i, p in pairs(axis)} == set(pairs(axis.reverse))
