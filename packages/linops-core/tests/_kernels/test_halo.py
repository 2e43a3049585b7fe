"""What touches in a correlation, against every pair of elements."""

from hypothesis import given
from hypothesis import strategies as st

from linops_core._kernels._halo import Axis


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    period = draw(st.none() | st.integers(1, 6))
    n_input, n_output = (draw(st.integers(1, period or 5)) for _ in range(2))
    return Axis(n_input, n_output, draw(st.integers(1, 7)), draw(st.integers(-9, 9)), period)


def pairs(axis: Axis) -> list[tuple[int, int]]:
    """Return (input, output) of all that touch."""
    rounds = [0] if axis.period is None else [k * axis.period for k in range(-30, 31)]
    return [
        (i, p)
        for i in range(axis.n_input)
        for p in range(axis.n_output)
        if any(0 <= i + around - p + axis.before < axis.taps for around in rounds)
    ]


@given(axes())
def test_what_is_read_and_written_is_what_touches(axis: Axis) -> None:
    touching = pairs(axis)
    assert bool(axis.images) == bool(touching)
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


@given(axes())
def test_an_image_is_a_repetition_that_touches(axis: Axis) -> None:
    for shift in axis.images:
        assert (shift - axis.before) % (axis.period or 1) == 0
        assert pairs(Axis(axis.n_input, axis.n_output, axis.taps, shift))
