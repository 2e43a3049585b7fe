import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core._kernels._halo import Axis
from linops_core._kernels._shift import moved

lengths = st.integers(1, 5)
offsets = st.integers(-6, 6)


@given(st.lists(st.tuples(lengths, lengths, offsets), min_size=1, max_size=3))
def test_elements_go_where_their_offset_says_and_the_rest_is_zero(
    moves: list[tuple[int, int, int]],
) -> None:
    axes = [Axis(n, m, 1, offset) for n, m, offset in moves]
    x = torch.arange(1.0, 1 + torch.Size([n for n, _, _ in moves]).numel())
    x = x.reshape([n for n, _, _ in moves])
    expected, mask = torch.zeros([m for _, m, _ in moves]), torch.zeros(x.shape)
    for index in torch.cartesian_prod(*map(torch.arange, x.shape)).reshape(-1, x.ndim).tolist():
        target = [i + offset for i, (_, _, offset) in zip(index, moves, strict=True)]
        if all(0 <= j < m for j, (_, m, _) in zip(target, moves, strict=True)):
            expected[tuple(target)] = x[tuple(index)]
            mask[tuple(index)] = 1
    assert torch.equal(moved(x, axes), expected)
    assert torch.equal(moved(expected, [axis.reverse for axis in axes]), mask * x)


@given(lengths, lengths, offsets, st.data())
def test_a_cut_placement_is_that_part_of_the_matrix(
    n: int, m: int, offset: int, data: st.DataObject
) -> None:
    def matrix(shift: Axis) -> torch.Tensor:
        return torch.stack([moved(row, [shift]) for row in torch.eye(shift.n_input)], dim=1)

    first, begin = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, m - 1))
    columns = slice(first, data.draw(st.integers(first + 1, n)))
    rows = slice(begin, data.draw(st.integers(begin + 1, m)))
    shift = Axis(n, m, 1, offset)
    assert torch.equal(matrix(shift.cut(columns, rows)), matrix(shift)[rows, columns])
    assert shift.cut(None, None) == shift


def test_axes_before_a_run_count_from_the_start() -> None:
    axes, numbers = [Axis(2, 3, 1, 1), Axis(2, 1, 1, 0)], [0, -1]
    assert moved(torch.ones(2, 2), axes, numbers).tolist() == [[0], [1], [1]]
    assert moved(torch.ones(2, 4, 5, 2), axes, numbers).shape == (3, 4, 5, 1)


def test_what_fills_nothing_is_a_view_and_what_keeps_nothing_is_zero() -> None:
    x = torch.ones(4, dtype=torch.complex64)
    for shift in (Axis(4, 2, 1, -1), Axis(4, 4, 1, 0)):
        assert moved(x, [shift]).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    for offset in (-4, 3):
        nothing = moved(x, [Axis(4, 3, 1, offset)])
        assert nothing.tolist() == [0, 0, 0] and nothing.dtype == x.dtype


def test_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the size along axis -1 must be 2, got 4 in an input"):
        moved(torch.ones(4), [Axis(2, 3, 1, 0)])
