from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Dense, Diagonal
from linops_solvers import Record, StopReason, omp

dtypes = st.sampled_from([torch.float64, torch.complex128])


def problem(dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(6, 9, dtype=dtype, generator=generator)
    return matrix, torch.randn(6, dtype=dtype, generator=generator)


def by_hand(matrix: Tensor, y: Tensor, count: int) -> Tensor:
    """Return what the definition says, each time with all columns anew."""
    chosen: list[int] = []
    x = torch.zeros(matrix.shape[1], dtype=matrix.dtype)
    for _ in range(count):
        score = (matrix.mH @ (y - matrix @ x)).abs() / matrix.norm(dim=0)
        score[chosen] = -1
        chosen.append(int(score.argmax()))
        x = torch.zeros_like(x)
        x[chosen] = torch.linalg.lstsq(matrix[:, chosen], y.unsqueeze(-1)).solution.squeeze(-1)
    return x


@given(dtype=dtypes, seed=st.integers(0, 2**16), count=st.integers(0, 5))
def test_each_column_is_the_one_that_explains_most(
    dtype: torch.dtype, seed: int, count: int
) -> None:
    matrix, y = problem(dtype, seed)
    A = Dense.from_einstr(matrix, "MN,N->M")
    record = Record()
    x = omp(A, y, count, tol=0, column_norms=matrix.norm(dim=0), callback=record)
    torch.testing.assert_close(x, by_hand(matrix, y, count))
    assert int(x.count_nonzero()) == count
    residual = float((matrix @ x - y).norm() / y.norm())
    if count:
        assert record.values["residual"][-1] == pytest.approx(residual)
        assert record.values["nonzeros"][-1] == count


@given(dtype=dtypes, seed=st.integers(0, 2**16), count=st.integers(1, 3))
def test_a_sparse_signal_is_found_in_orthogonal_columns(
    dtype: torch.dtype, seed: int, count: int
) -> None:
    matrix, _ = problem(dtype, seed)
    basis = torch.linalg.qr(matrix.mH).Q.mH[:, :6]
    basis = torch.linalg.qr(basis).Q
    for support in list(combinations(range(6), count))[:5]:
        truth = torch.zeros(6, dtype=dtype)
        truth[list(support)] = torch.arange(1, count + 1, dtype=torch.float64).to(dtype)
        record = Record()
        x = omp(basis.mv, basis @ truth, 6, tol=1e-10, adjoint=basis.mH.mv, callback=record)
        torch.testing.assert_close(x, truth)
        assert (record.iterations, record.reason) == (count, StopReason.CONVERGED)


def test_it_ends_where_no_column_explains_more() -> None:
    matrix = torch.tensor([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    record = Record()
    A = Dense.from_einstr(matrix, "MN,N->M")
    x = omp(A, torch.tensor([2.0, 1.0]), 3, callback=record)
    assert torch.equal(x, torch.tensor([0.0, 1.0, 0.0]))
    assert record.reason is StopReason.LEAST_SQUARES
    assert not omp(A, torch.zeros(2), 3).any()


def test_inputs_of_any_shape_unit_and_half_precision() -> None:
    D = Diagonal(torch.tensor([[1.0, 2.0], [4.0, 8.0]]), ("M", "N"))
    y = torch.tensor([[0.0, 3.0], [1.0, 0.0]]) * 1e-30
    torch.testing.assert_close(omp(D, y) / 1e-30, torch.tensor([[0.0, 1.5], [0.25, 0.0]]))
    D = Diagonal(torch.tensor([[1.0, 2.0], [4.0, 8.0]], dtype=torch.bfloat16), ("M", "N"))
    result = omp(D, torch.eye(2, dtype=torch.bfloat16))
    assert result.tolist() == [[1.0, 0.0], [0.0, 0.125]] and result.dtype == torch.bfloat16


@pytest.mark.parametrize("norms", [torch.ones(3), -torch.ones(2)])
def test_norms_that_cannot_be_are_refused(norms: Tensor) -> None:
    D = Diagonal(torch.ones(2), ("N",))
    with pytest.raises(ValueError, match=r"omp: column_norms must be at least 0 and of the shape"):
        omp(D, torch.ones(2), column_norms=norms)
