import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core._kernels._picked_axis import PickedAxis, picked, put_back

AXES = st.builds(
    PickedAxis,
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(-6, 8),
    st.sampled_from([-3, -2, -1, 1, 2, 3]),
)


def matrix(axis: PickedAxis) -> torch.Tensor:
    return torch.stack([picked(row, [axis]) for row in torch.eye(axis.n_input)], dim=1)


@given(AXES)
def test_each_output_is_the_element_that_the_formula_says(axis: PickedAxis) -> None:
    result = matrix(axis)
    for j in range(axis.n_output):
        for i in range(axis.n_input):
            assert result[j, i] == (i == axis.first + axis.step * j)
    back = [put_back(row, [axis]) for row in torch.eye(axis.n_output)]
    assert torch.equal(torch.stack(back), result)
    assert axis.keeps_all == bool(result.any(0).all())
    assert axis.reverse_keeps_all == bool(result.any(1).all())


@given(AXES)
def test_the_supports_are_the_rows_and_columns_that_are_not_zero(axis: PickedAxis) -> None:
    at = matrix(axis).nonzero()
    if len(at):
        (row, column), (last_row, last_column) = at.amin(0).tolist(), at.amax(0).tolist()
        assert axis.supports == (slice(column, last_column + 1), slice(row, last_row + 1))
    else:
        assert axis.supports == (slice(0, 0), slice(0, 0))


@given(AXES, st.data())
def test_a_cut_axis_is_that_part_of_the_matrix(axis: PickedAxis, data: st.DataObject) -> None:
    pieces = []
    for length in axis.lengths:
        start = data.draw(st.integers(0, length - 1))
        pieces.append(slice(start, data.draw(st.integers(start + 1, length))))
    columns, rows = pieces
    assert torch.equal(matrix(axis.cut(columns, rows)), matrix(axis)[rows, columns])
    assert axis.cut(None, None) == axis


def test_several_axes_are_picked_at_once() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    axes = [PickedAxis(3, 2, 2, -2), PickedAxis(4, 2, 1, 2)]
    y = picked(x, axes)
    assert torch.equal(y, x[:, [2, 0]][..., [1, 3]])
    assert torch.equal(picked(put_back(y, axes), axes), y)


def test_what_is_picked_forwards_is_a_view() -> None:
    x = torch.ones(4, dtype=torch.complex64)
    assert picked(x, [PickedAxis(4, 2, 1, 2)]).data_ptr() == x[1:].data_ptr()
    assert put_back(x, [PickedAxis(4, 4, 0)]).data_ptr() == x.data_ptr()
    assert picked(x, [PickedAxis(4, 3, 7)]).tolist() == [0, 0, 0]
