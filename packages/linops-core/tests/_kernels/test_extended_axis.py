"""A grid that goes on beyond its ends is what NumPy pads, whole and in parts."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core._kernels._extended_axis import ExtendedAxis, Extension

MODES: dict[Extension, str] = {
    "zeros": "constant",
    "circular": "wrap",
    "reflect": "reflect",
    "replicate": "edge",
}


def extended(x: torch.Tensor, axis: ExtendedAxis) -> torch.Tensor:
    """Return x with all that outputs read, with zeros between the stretches."""
    y = x.new_zeros(*x.shape[:-1], axis.n_output + axis.taps - 1)
    for stretch in axis.stretches:
        part = stretch.taken(x, -1)
        assert part.shape[-1] == stretch.straight.n_input
        y.narrow(-1, stretch.straight.before, part.shape[-1]).add_(part)
    return y


@st.composite
def whole_axes(draw: st.DrawFn) -> ExtendedAxis:
    size, taps = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    before = draw(st.integers(0, taps - 1))
    mode = draw(st.sampled_from(list(MODES)))
    return ExtendedAxis(size, size, taps, before, size, mode)


@st.composite
def parts_of_axes(draw: st.DrawFn) -> tuple[ExtendedAxis, slice, slice]:
    axis = draw(whole_axes())
    pieces = []
    for length in axis.lengths:
        start = draw(st.integers(0, length - 1))
        pieces.append(slice(start, draw(st.integers(start + 1, length))))
    return axis, pieces[0], pieces[1]


@given(whole_axes())
def test_the_whole_is_what_numpy_pads(axis: ExtendedAxis) -> None:
    x = torch.randn(2, axis.n_input, dtype=torch.float64)
    margins = axis.before, axis.taps - 1 - axis.before
    expected = np.pad(x.numpy(), [(0, 0), margins], mode=MODES[axis.mode])  # type: ignore[call-overload]
    assert np.array_equal(extended(x, axis).numpy(), expected)
    assert len(axis.stretches) == 1


@given(parts_of_axes())
def test_a_part_is_the_whole_with_zeros_in_the_place_of_other_input(
    part: tuple[ExtendedAxis, slice, slice],
) -> None:
    axis, of_input, of_output = part
    x = torch.randn(axis.n_input, dtype=torch.float64)
    only = torch.zeros_like(x)
    only[of_input] = x[of_input]
    read = extended(only, axis)[of_output.start : of_output.stop + axis.taps - 1]
    assert torch.equal(extended(x[of_input], axis.cut(of_input, of_output)), read)


@given(parts_of_axes())
def test_elements_are_put_back_where_they_are_taken(
    part: tuple[ExtendedAxis, slice, slice],
) -> None:
    for stretch in part[0].cut(*part[1:]).stretches:
        x = torch.randn(2, stretch.n_input, dtype=torch.float64)
        there = stretch.taken(x, 1)
        y = torch.randn_like(there)
        back = stretch.put_back(y, 1)
        assert back.shape == x.shape
        torch.testing.assert_close((there * y).sum(), (x * back).sum())


@pytest.mark.parametrize("mode", MODES)
def test_a_grid_without_points_has_nothing_to_go_on_with(mode: Extension) -> None:
    axis = ExtendedAxis(0, 0, 3, 1, 0, mode)
    assert axis.stretches == [] and axis.supports == (slice(0, 0), slice(0, 0))
