"""A grid that goes on beyond its ends is what NumPy pads, whole and in parts."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core._kernels._extended_axis import ExtendedAxis, Extension, extended, extension_adjoint

MODES: dict[Extension, str] = {"reflect": "reflect", "replicate": "edge"}


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
    assert np.array_equal(extended(x, [axis]).numpy(), expected)
    assert axis.straight.lengths == (expected.shape[1], axis.n_output)


@given(parts_of_axes())
def test_a_part_is_the_whole_with_zeros_in_the_place_of_other_input(
    part: tuple[ExtendedAxis, slice, slice],
) -> None:
    axis, of_input, of_output = part
    x = torch.randn(axis.n_input, dtype=torch.float64)
    only = torch.zeros_like(x)
    only[of_input] = x[of_input]
    read = extended(only, [axis])[of_output.start : of_output.stop + axis.taps - 1]
    cut = axis.cut(of_input, of_output)
    found = extended(x[of_input], [cut])
    straight = cut.straight
    expected = read[straight.before : straight.before + straight.n_input]
    assert torch.equal(found, expected)
    assert torch.count_nonzero(read) == torch.count_nonzero(found)


@given(parts_of_axes())
def test_folding_is_the_adjoint(part: tuple[ExtendedAxis, slice, slice]) -> None:
    axis = part[0].cut(*part[1:])
    x = torch.randn(2, axis.n_input, dtype=torch.float64)
    there = extended(x, [axis])
    y = torch.randn_like(there)
    back = extension_adjoint(y, [axis])
    assert back.shape == x.shape
    torch.testing.assert_close((there * y).sum(), (x * back).sum())


@pytest.mark.parametrize("mode", MODES)
def test_along_several_axes_one_is_extended_after_another(mode: Extension) -> None:
    x = torch.randn(3, 4, 5)
    axes = [ExtendedAxis(4, 4, 3, 1, 4, mode), ExtendedAxis(5, 5, 4, 2, 5, mode)]
    expected = torch.nn.functional.pad(x, (2, 1, 1, 1), mode=mode)
    assert torch.equal(extended(x, axes), expected)
    assert extension_adjoint(expected, axes).shape == x.shape


def test_a_grid_without_points_has_nothing_to_go_on_with() -> None:
    axis = ExtendedAxis(0, 0, 3, 1, 0, "reflect")
    assert axis.runs == [] and axis.supports == (slice(0, 0), slice(0, 0))
    assert extension_adjoint(extended(torch.ones(2, 0), [axis]), [axis]).shape == (2, 0)
