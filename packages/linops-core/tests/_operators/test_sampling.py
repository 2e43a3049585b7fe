from typing import Any

import pytest
import torch

from linops_core import Sampling
from nameddim import ND


def test_samples_are_taken_and_put_back() -> None:
    A = Sampling([torch.tensor([0, 1, 1]), torch.tensor([2, 0, 0])], [2, 3])
    x = torch.arange(6.0).reshape(2, 3)
    assert A(x).tolist() == [2, 3, 3]
    assert A.H(torch.tensor([1.0, 10.0, 100.0])).tolist() == [[0, 0, 1], [110, 0, 0]]
    assert A.N(x).tolist() == [[0, 0, 2], [6, 0, 0]]
    assert A.H.N(torch.tensor([1.0, 10.0, 100.0])).tolist() == [1, 110, 110]


def test_a_mask_without_repetitions_is_its_own_normal() -> None:
    mask = torch.rand(4, 5) < 0.5
    A = Sampling.from_mask(mask)
    x = torch.randn(2, 4, 5, dtype=torch.complex64)
    torch.testing.assert_close(A.N(x), mask * x)
    assert A(x).shape == (2, int(mask.sum()))
    assert torch.equal(A(x), x[:, mask])
    assert torch.equal(Sampling.from_mask(mask.to(torch.uint16))(x), A(x))


def test_stacked_indices_are_kept_as_views() -> None:
    stacked = torch.tensor([[[0, 1], [1, 1]], [[0, 0], [1, 0]]])
    A = Sampling.from_stacked_idx(stacked, (2, 2), dim=0)
    assert A.oshape == ("...", "K", "K1")
    assert A.idx[1].untyped_storage().data_ptr() == stacked.untyped_storage().data_ptr()
    assert A(torch.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[1, 3], [4, 3]]


def test_one_point_and_no_point() -> None:
    point = Sampling([torch.tensor(1)], [3])
    x = torch.tensor([[5.0, 6.0, 7.0], [1.0, 2.0, 3.0]])
    assert point.oshape == ("...",) and point(x).tolist() == [6, 2]
    assert point.H(torch.tensor([1.0, 2.0])).tolist() == [[0, 1, 0], [0, 2, 0]]
    none = Sampling([torch.empty(0, dtype=torch.long)], [3])
    assert none(x).shape == (2, 0)
    assert none.N(x).tolist() == none.H(none(x)).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_small_integers_do_not_overflow(dtype: torch.dtype) -> None:
    sizes = (127, 127)
    A = Sampling([torch.tensor([126], dtype=dtype), torch.tensor([125], dtype=dtype)], sizes)
    x = torch.arange(127.0 * 127).reshape(sizes)
    assert A(x).item() == 126 * 127 + 125


def test_samples_can_be_sliced_and_the_grid_cannot() -> None:
    A = Sampling([torch.tensor([2, 0, 1])], [3])
    assert (str(A.role("K")), str(A.role("Kx"))) == ("output", "opaque")
    assert A.why_opaque("Kx") == "the samples may lie anywhere on the grid"
    assert (A.size("K"), A.size("Kx")) == (3, 3)
    tile = A.split(A, {ND("K"): slice(1, 3)})
    assert tile(torch.tensor([5.0, 6.0, 7.0])).tolist() == [5, 6]
    assert tile.N(torch.ones(3)).tolist() == [1, 1, 0]
    assert str(A.N.role("K")) == "inner"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([], []), ValueError, r"one index tensor per dimension of the grid, got 0 for a grid of"),
        (([torch.tensor([0])], [2, 2]), ValueError, r"got 1 for a grid of \(2, 2\)"),
        (([torch.tensor([0])], [2.7]), ValueError, r"must be positive integers, got \(2\.7,\)"),
        (([torch.zeros(0, dtype=torch.long)], [-2]), ValueError, r"positive integers, got \(-2,\)"),
        (([None], [2]), TypeError, r"must be tensors of integers, got <class 'NoneType'>"),
        (([torch.tensor([0.0])], [2]), TypeError, r"tensors of integers, got torch.float32"),
        (([torch.tensor([True])], [2]), TypeError, r"tensors of integers, got torch.bool"),
        (
            ([torch.tensor([0]), torch.tensor([0, 1])], [2, 2]),
            ValueError,
            r"all index tensors must have one shape, got \[\(1,\), \(2,\)\]",
        ),
        (([torch.tensor([0, 2])], [2]), ValueError, r"must be from 0 to 1, got 0 to 2"),
        (([torch.tensor([-1])], [2]), ValueError, r"must be from 0 to 1, got -1 to -1"),
        (
            ([torch.nn.Parameter(torch.tensor([2]), requires_grad=False)], [2]),
            ValueError,
            r"must be from 0 to 1, got 2 to 2",
        ),
        (
            ([torch.tensor([0])], [2], None, ("A", "B")),
            ValueError,
            r"input_shape must have 1 dimensions for a grid of \(2,\)",
        ),
        (
            ([torch.tensor([0])], [2], ("A", "B")),
            ValueError,
            r"output_shape must have 1 dimensions for .* shape \(1,\)",
        ),
    ],
)
def test_indices_that_do_not_fit_the_grid_are_refused(
    arguments: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=rf"Sampling: .*{message}"):
        Sampling(*arguments)


def test_a_mask_may_come_with_the_size_of_the_grid() -> None:
    mask = torch.tensor([[True, False, True], [False, True, False]])
    A = Sampling.from_mask(mask, (2, 3), ("J",), ("X", "Y"), ("C",))
    assert (A.ishape, A.oshape) == (("C", "X", "Y"), ("C", "J"))
    x = torch.randn(4, 2, 3)
    assert torch.equal(A(x), x[:, mask])


@pytest.mark.parametrize("size", [(3, 2), (2,), ("K",)])
def test_a_mask_of_another_size_than_the_grid_is_refused(size: Any) -> None:
    message = (
        r"input_size must be the shape of the mask, \(2, 3\), got .* or give names as output_s"
    )
    with pytest.raises(ValueError, match=message):
        Sampling.from_mask(torch.ones(2, 3), size)


def test_what_is_no_tensor_of_indices_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"Sampling: indices must be tensors of integers, got <class"
    ):
        Sampling([0], [3])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"Sampling: the mask must be a torch.Tensor, got <class"):
        Sampling.from_mask([True, False])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Sampling: stacked indices must be one tensor, got <cla"):
        Sampling.from_stacked_idx([[0, 1]], [3, 3])  # type: ignore[arg-type]


def test_a_point_may_be_sampled_more_often_than_a_narrow_dtype_counts() -> None:
    A = Sampling([torch.zeros(3000, dtype=torch.int64)], [2])
    for dtype in (torch.float16, torch.bfloat16):
        assert A.N(torch.ones(2, dtype=dtype)).tolist() == [torch.tensor(3000, dtype=dtype), 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_many_samples_of_one_point_are_added_without_large_rounding(dtype: torch.dtype) -> None:
    """One by one, 2^14 equal values are off by 2e-4; also in gradients, and for later indices."""
    n, y = 2**14, torch.full((2**14,), 0.1, dtype=dtype)
    A = Sampling([torch.arange(n) % 2, torch.arange(n)], [2, n])
    assert torch.equal(A.H(y).sum(0), y)
    A.idx_0, A.idx_1 = torch.ones(n, dtype=torch.uint8), torch.full((n,), 2)
    x = torch.zeros(2, n, dtype=dtype, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.vdot(y, A(x)).real, x)
    for result in (A.H(y), gradient):
        assert result.dtype == dtype and result[1, 2].real.item() == pytest.approx(
            0.1 * n, rel=1e-6
        )
        assert result.count_nonzero() == 1


def test_indices_without_values_are_taken_as_they_are() -> None:
    A = Sampling([torch.empty(5, dtype=torch.long, device="meta")], [3])
    assert A(torch.empty(2, 3, device="meta")).shape == (2, 5)


def test_indices_that_were_replaced_or_loaded_are_checked_again() -> None:
    linop = Sampling([torch.tensor([0, 1]), torch.tensor([1, 0])], (2, 3))
    other = Sampling([torch.tensor([0, 1]), torch.tensor([4, 2])], (2, 5))
    linop(torch.ones(2, 3))
    linop.load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match="from 0 to 2, got 2 to 4"):
        linop(torch.ones(2, 3))
    linop.idx_1 = torch.tensor([2, 2])
    assert torch.equal(linop(torch.arange(6.0).reshape(2, 3)), torch.tensor([2.0, 5.0]))


def test_a_tensor_is_no_sequence_of_index_tensors() -> None:
    indices: Any = torch.tensor([2])
    others: list[Any] = [indices, indices[None], 2, None]
    for wrong in others:
        with pytest.raises(
            TypeError, match="a sequence of tensors, one per sampled dimension, got"
        ):
            Sampling(wrong, [4])


def test_a_transform_does_not_tell_how_many_samples_share_a_point() -> None:
    n = 2**16
    A = Sampling((torch.zeros(n, dtype=torch.int64),), (2,), ("K",), ("N",))
    y = torch.full((n,), 0.1)
    torch.func.vmap(A.H)(y.unsqueeze(0))
    torch.testing.assert_close(
        A.H(y)[0].double(), 0.1 * torch.tensor(n).double(), rtol=1e-6, atol=0
    )


def test_the_adjoint_of_crowded_samples_is_that_of_each_row() -> None:
    A = Sampling((torch.randint(2, (600,)),), (3,), ("K",), ("N",), batch_shape=("C",))
    y = torch.randn(4, 600, dtype=torch.complex64)
    expected = A.H(y.to(torch.complex128))
    torch.testing.assert_close(A.H(y).to(torch.complex128), expected, rtol=1e-5, atol=1e-5)
    assert A.H(y[:0]).shape == (0, 3)
    y.requires_grad_()
    (gradient,) = torch.autograd.grad(A.H(y).abs().square().sum(), y)
    torch.testing.assert_close(gradient, 2 * A(A.H(y)).detach(), rtol=1e-4, atol=1e-4)
