import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from linops_core import Dense, Diagonal
from linops_solvers import Record, StopReason, irls

dtypes = st.sampled_from([torch.float64, torch.complex128])
seeds = st.integers(0, 2**16)


@settings(max_examples=12)
@given(dtypes, seeds, st.sampled_from([1.0, 1.3, 2.0]), st.sampled_from([0.0, 0.5]))
def test_the_gradient_of_the_function_vanishes(
    dtype: torch.dtype, seed: int, p: float, damp: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(9, 3, dtype=dtype, generator=generator)
    y = torch.randn(9, dtype=dtype, generator=generator) * 64
    A, record = Dense.from_einstr(matrix, "MN,N->M"), Record()
    x = irls(A, y, None, 100, 1e-10, p=p, damp=damp, epsilon=0.05, callback=record)
    assert record.reason is StopReason.CONVERGED
    softness = 0.05 * float(y.norm()) / 3

    def loss(x: torch.Tensor) -> torch.Tensor:
        squares = (matrix @ x - y).abs().square() + softness**2
        return (squares ** (p / 2)).sum() / p + damp**2 / 2 * x.abs().square().sum()

    point = x.clone().requires_grad_()
    value = loss(point)
    (gradient,) = torch.autograd.grad(value, point)
    (scale,) = torch.autograd.grad(loss(origin := (0 * x).requires_grad_()), origin)
    assert gradient.norm() <= 1e-4 * max(float(scale.norm()), 1.0)
    assert record.values["objective"][-1] == pytest.approx(float(value.detach()))


@settings(max_examples=settings().max_examples // 2)
@example(torch.float32, 0, 1e-5)
@given(
    st.sampled_from([torch.float32, torch.float64]),
    seeds,
    st.sampled_from([1e-3, 1e-4, 1e-5, 1e-6]),
)
def test_a_converged_objective_is_that_of_a_linear_program(
    dtype: torch.dtype, seed: int, epsilon: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(20, 6, dtype=dtype, generator=generator)
    y = matrix @ torch.randn(6, dtype=dtype, generator=generator)
    y = y + 0.3 * torch.randn(20, dtype=dtype, generator=generator)
    y[:3] += 5
    record = Record()
    x = irls(matrix.mv, y, adjoint=matrix.T.mv, epsilon=epsilon, callback=record)
    A, b, eye = matrix.double().numpy(), y.double().numpy(), np.eye(20)
    wanted = scipy.optimize.linprog(
        np.r_[np.zeros(6), np.ones(20)],
        A_ub=np.block([[A, -eye], [-A, -eye]]),
        b_ub=np.r_[b, -b],
        bounds=[(None, None)] * 6 + [(0, None)] * 20,
    )
    excess = np.abs(A @ x.double().numpy() - b).sum() / wanted.fun - 1
    softness = 20 * epsilon * float(y.norm()) / 20**0.5 / wanted.fun
    assert excess <= 1e-4 + softness
    if dtype is torch.float64:
        assert record.reason is StopReason.CONVERGED and record.iterations <= 20
    else:  # rounding of the largest weights may hide how near x is
        assert record.reason in (StopReason.CONVERGED, StopReason.MAX_ITERATIONS)


@settings(max_examples=12)
@given(dtypes, seeds, st.sampled_from([1.0, 1.2, 1.9]), st.sampled_from([0.0, 0.7]))
def test_the_gap_of_each_step_bounds_the_excess(
    dtype: torch.dtype, seed: int, p: float, damp: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(12, 4, dtype=dtype, generator=generator)
    y, record = torch.randn(12, dtype=dtype, generator=generator), Record()
    A = Dense.from_einstr(matrix, "MN,N->M")
    irls(A, y, tol=1e-11, p=p, damp=damp, epsilon=1e-2, callback=record)
    assert record.reason is StopReason.CONVERGED
    losses, gaps = record.values["objective"], record.values["gap"]
    for loss, gap in zip(losses, gaps, strict=True):
        assert loss - losses[-1] <= gap * loss + 1e-12 * loss


def test_gradients_at_the_minimum_are_those_of_differences() -> None:
    generator = torch.Generator().manual_seed(1)
    matrix = torch.randn(8, 2, dtype=torch.float64, generator=generator)
    y = torch.randn(8, dtype=torch.float64, generator=generator)

    def solution(y: torch.Tensor) -> torch.Tensor:
        return irls(matrix.mv, y, adjoint=matrix.T.mv, tol=1e-13, epsilon=0.2)

    turn = torch.randn(8, dtype=torch.float64, generator=generator)
    _, along = torch.autograd.functional.jvp(solution, y, turn)
    step = 1e-5 * turn
    difference = (solution(y + step) - solution(y - step)) / 2e-5
    torch.testing.assert_close(along, difference, rtol=1e-4, atol=1e-6)


@settings(max_examples=12)
@given(dtypes, seeds)
def test_outliers_do_not_move_it(dtype: torch.dtype, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(40, 2, dtype=dtype, generator=generator)
    truth = torch.randn(2, dtype=dtype, generator=generator)
    y = matrix @ truth
    y[::10] += 100
    x = irls(matrix.mv, y, adjoint=matrix.mH.mv, max_num_iters=200, epsilon=1e-6, tol=1e-5)
    assert (x - truth).norm() <= 1e-2
    assert (torch.linalg.lstsq(matrix, y.unsqueeze(-1)).solution.squeeze(-1) - truth).norm() > 0.5


def test_guess_zeros_and_half_precision() -> None:
    D = Diagonal(torch.tensor([1.0, 2.0]), ("N",))
    assert not irls(D, torch.zeros(2)).any()
    y, record = torch.tensor([3.0, 4.0]), Record()
    x = irls(D, y, x0=torch.tensor([3.0, 2.0]), callback=record)
    assert record.iterations == 0 and torch.equal(x, torch.tensor([3.0, 2.0]))
    D = Diagonal(torch.tensor([1.0, 2.0], dtype=torch.bfloat16), ("N",))
    half = irls(D, y.bfloat16(), tol=0.1)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), x, rtol=0.02, atol=0)


@pytest.mark.parametrize("p", [0.5, 3.0])
def test_a_norm_that_is_none_of_these_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match=rf"irls: p must be between 1 and 2, got {p}"):
        irls(Diagonal(torch.ones(2), ("N",)), torch.ones(2), p=p)
