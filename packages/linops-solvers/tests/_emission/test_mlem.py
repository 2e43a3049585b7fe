"""Expectation maximisation: laws of each step, the maximum, and what is refused."""

import math
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Convolution, Dense, Diagonal, Identity
from linops_solvers import (
    Record,
    StopReason,
    admm,
    box,
    l2_squared,
    mlem,
    osem,
    pdhg,
    poisson_likelihood,
)

F64 = torch.float64


def linop(matrix: Tensor, row: str = "M") -> Dense:
    return Dense(matrix, (row, "N"), ("N",), (row,))


def problem(seed: int, rows: int = 5, columns: int = 3) -> tuple[Tensor, Tensor]:
    """Return a matrix with some zeros, and counts with some zeros."""
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.rand(rows, columns, dtype=F64, generator=generator)
    matrix = matrix * (torch.rand(rows, columns, generator=generator) < 0.7)
    mean = 5 * matrix.sum(1) * torch.rand(rows, dtype=F64, generator=generator)
    return matrix, torch.poisson(mean, generator=generator)


def step_by_hand(matrix: Tensor, y: Tensor, x: Tensor, b: float) -> list[float]:
    """Return a step in plain Python, with 0 / 0 = 0."""
    m, rows, columns = matrix.tolist(), range(len(y)), range(len(x))
    old, counts = x.tolist(), y.tolist()
    means = [sum(m[i][j] * old[j] for j in columns) + b for i in rows]
    quotients = [counts[i] / means[i] if counts[i] else 0.0 for i in rows]
    results = []
    for j in columns:
        seen = sum(m[i][j] for i in rows)
        back = sum(m[i][j] * quotients[i] for i in rows)
        results.append(old[j] * back / seen if seen else 0.0)
    return results


@settings(max_examples=settings().max_examples // 2)
@given(st.integers(0, 2**16), st.sampled_from([0.0, 0.5]))
@example(3, 0.0)
def test_each_step_is_the_formula_and_never_less_likely(seed: int, b: float) -> None:
    matrix, y = problem(seed)
    x = torch.ones(3, dtype=F64)
    record, seen = Record(), [x]
    mlem(linop(matrix), y, x, 8, background=b, callback=lambda step: seen.append(step.x))
    mlem(linop(matrix), y, x, 8, background=b, callback=record)
    for before, after in pairwise(seen):
        expected = torch.tensor(step_by_hand(matrix, y, before, b), dtype=F64)
        torch.testing.assert_close(after, expected)
        assert (after >= 0).all()
        if not b:  # the expected counts are those that were counted
            torch.testing.assert_close((matrix @ after).sum(), y.sum())
    result = record.values["objective"]
    g = poisson_likelihood(y, b)
    assert all(later <= earlier * (1 + 1e-12) + 1e-12 for earlier, later in pairwise(result))
    assert result[-1] == pytest.approx(float(g.value(matrix @ seen[-1])), rel=1e-9, abs=1e-9)


@given(st.integers(0, 2**16))
@settings(max_examples=settings().max_examples // 3)
def test_its_limit_is_the_maximum_of_the_likelihood(seed: int) -> None:
    """The slope is 0 where x > 0, and not negative elsewhere (Karush, Kuhn and Tucker)."""
    matrix, y = problem(seed, 6)
    matrix = matrix + 0.1
    x = mlem(linop(matrix), y, max_num_iters=20000, tol=1e-12, background=0.3)
    slope = matrix.sum(0) - matrix.mT @ (y / (matrix @ x + 0.3))
    assert (x * slope).abs().max() < 1e-3
    assert slope.min() > -1e-2  # an x near 0 still shrinks, slowly


def test_pdhg_and_admm_with_the_same_likelihood_have_the_same_maximum() -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.rand(8, 3, dtype=F64, generator=generator) + torch.eye(8, 3, dtype=F64)
    y = torch.poisson(20 * matrix.sum(1), generator=generator)
    A, g = linop(matrix), poisson_likelihood(y, 0.5)
    wanted = mlem(A, y, max_num_iters=5000, background=0.5)
    record = Record()
    x0 = torch.ones(3, dtype=F64)
    result = pdhg(A, g, box(0), x0, max_num_iters=5000, eps_rel=1e-9, callback=record)
    torch.testing.assert_close(result, wanted, rtol=1e-6, atol=1e-6)
    assert record.values["objective"][-1] == pytest.approx(float(g.value(matrix @ wanted)))
    # admm minimises a square, too: here 0.05 |x|^2.
    maps, L = [g, box(0)], [A, Identity(("N",))]
    root = Diagonal(torch.full_like(x0, 0.1**0.5), ("N",))
    result = admm(root, 0 * x0, maps, L, eps_rel=1e-5, rho=0.05)
    wanted = pdhg(L, [g, l2_squared(0.1)], box(0), x0, eps_rel=1e-9)
    torch.testing.assert_close(result, wanted, rtol=1e-3, atol=1e-3)


def test_several_operators_are_one_with_all_rows() -> None:
    matrix, y = problem(5, 6)
    b = torch.tensor([1.0, 2.0, 3.0], dtype=F64)
    parts = [linop(matrix[:3]), linop(matrix[3:], "K")]
    wanted = mlem(linop(matrix), y, background=torch.cat([b, torch.full_like(b, 0.5)]))
    result = mlem(parts, [y[:3], y[3:]], background=[b, 0.5])
    torch.testing.assert_close(result, wanted)
    one = mlem(parts, [y[:3], y[3:]], background=0.5)
    torch.testing.assert_close(one, mlem(linop(matrix), y, background=0.5))


def test_what_is_not_seen_becomes_zero_and_zeros_stay() -> None:
    matrix = torch.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    x = mlem(linop(matrix), torch.tensor([4.0, 0.0]))
    assert x[1] == 0 and x.isfinite().all()
    x = mlem(linop(matrix), torch.tensor([4.0, 0.0]), torch.tensor([0.0, 1.0, 1.0]))
    torch.testing.assert_close(x, torch.tensor([0.0, 0.0, 2.0]))


def test_without_counts_x_is_zero_at_once() -> None:
    record = Record()
    x = mlem(linop(torch.ones(2, 3)), torch.zeros(2), callback=record)
    assert not x.any() and record.reason is StopReason.CONVERGED and record.iterations == 1


def test_a_tolerance_ends_it_and_rounding_does() -> None:
    A, y, record = linop(torch.tensor([[2.0, 0.1], [0.1, 1.0]])), torch.tensor([4.0, 3.0]), Record()
    mlem(A, y, max_num_iters=1000, tol=1e-3, callback=record)
    assert record.reason is StopReason.CONVERGED and record.values["change"][-1] <= 1e-3
    last = Record()
    mlem(A, y, max_num_iters=5000, callback=last)
    assert last.reason is StopReason.ROUNDING


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@given(st.integers(0, 2**16))
@settings(max_examples=settings().max_examples // 8)
def test_gradients_flow_through_the_steps(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    matrix, y, x0, b = (
        (torch.rand(shape, dtype=F64, generator=generator) + 0.2).requires_grad_()
        for shape in [(3, 2), (3,), (2,), (3,)]
    )

    def solved(matrix: Tensor, y: Tensor, x0: Tensor, b: Tensor) -> Tensor:
        return mlem(linop(matrix), y, x0, 3, background=b)

    assert torch.autograd.gradcheck(solved, [matrix, y, x0, b])

    def subsets(matrix: Tensor, y: Tensor, x0: Tensor, b: Tensor) -> Tensor:
        return osem(linop(matrix), y, x0, 2, background=b, subsets={"M": 2})

    assert torch.autograd.gradcheck(subsets, [matrix, y, x0, b])

    def squared_norm(y: Tensor) -> Tensor:
        return mlem(linop(matrix.detach()), y, x0.detach(), 3).square().sum()

    (wanted,) = torch.autograd.grad(squared_norm(y), y)
    torch.testing.assert_close(torch.func.grad(squared_norm)(y.detach()), wanted)
    along = torch.func.jvp(squared_norm, (y.detach(),), (torch.ones_like(y),))[1]
    torch.testing.assert_close(along, wanted.sum())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_what_double_precision_gives(dtype: torch.dtype) -> None:
    matrix, y = torch.tensor([[2.0, 0.5], [0.5, 3.0]]), torch.tensor([7.0, 5.0])
    result = mlem(linop(matrix.to(dtype)), y.to(dtype))
    assert result.dtype is dtype
    eps = 8 * torch.finfo(dtype).eps
    wanted = mlem(linop(matrix.double()), y.double())
    torch.testing.assert_close(result.double(), wanted, rtol=eps, atol=eps)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_unit_of_the_counts_does_not_matter(scale: float) -> None:
    matrix, y = torch.tensor([[2.0, 0.5], [0.5, 3.0]]), torch.tensor([7.0, 5.0])
    result = mlem(linop(matrix), scale * y, tol=1e-5)
    torch.testing.assert_close(result / scale, mlem(linop(matrix), y, tol=1e-5))


def test_rounding_of_fourier_transforms_does_not_grow_in_the_dark() -> None:
    """A bright point beside single counts: 1e8 times as bright, past the precision."""
    taps = torch.exp(-torch.linspace(-4, 4, 33).square())
    psf = taps[:, None] * taps / taps.sum() ** 2
    scene = torch.zeros(48, 48, dtype=F64)
    scene[10, 12], scene[30:36, 30:36] = 1e9, 5.0
    mean = Convolution(psf.double(), method="direct")(scene)
    y = torch.poisson(mean, generator=torch.Generator().manual_seed(0))
    least: list[float] = []
    result = mlem(
        Convolution(psf, method="fft"),
        y.float(),
        callback=lambda step: least.append(float(step.x.min())),
    )
    wanted = mlem(Convolution(psf.double(), method="direct"), y)
    assert min(least) >= 0
    torch.testing.assert_close(result.double().sum(), wanted.sum(), rtol=1e-4, atol=0.0)
    assert (result - wanted).abs().max() < 1e-4 * wanted.max()


def test_it_continues_from_a_file_and_knows_another_problem() -> None:
    matrix, y = problem(1)
    A, wanted = linop(matrix), Record()
    x = mlem(A, y, max_num_iters=9, background=0.1, callback=wanted)
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"checkpoint": Path(folder) / "x.pt", "checkpoint_every": 2}

        class Ended(BaseException):
            pass

        def end(step: Any) -> None:
            if step.iteration == 5:
                raise Ended

        options["max_num_iters"] = 9
        with pytest.raises(Ended):
            mlem(A, y, background=0.1, callback=end, **options)
        assert torch.equal(mlem(A, y, background=0.1, **options), x)
        with pytest.raises(ValueError, match=r"mlem: the checkpoint .* differs in background"):
            mlem(A, y, background=0.2, **options)


@pytest.mark.parametrize(
    "layout",
    [
        lambda y: torch.stack([y, y], -1)[..., 0],
        lambda y: y.mT.contiguous().mT,
        lambda y: torch._neg_view(-y),
    ],
)
def test_the_layout_of_the_counts_does_not_matter(layout: Callable[[Tensor], Tensor]) -> None:
    A = Diagonal(torch.rand(4, 3, generator=torch.Generator().manual_seed(0)) + 1, ("M", "N"))
    y = torch.arange(12.0).reshape(4, 3)
    before = y.clone()
    torch.testing.assert_close(mlem(A, layout(y)), mlem(A, y))
    assert torch.equal(y, before)


def test_an_operator_that_returns_one_buffer_gives_the_same() -> None:
    """Each result is used before the next call."""
    matrix, y = problem(2)
    buffers = torch.empty(5, dtype=F64), torch.empty(3, dtype=F64)
    result = mlem(
        lambda x: buffers[0].copy_(matrix @ x), y, adjoint=lambda r: buffers[1].copy_(matrix.mT @ r)
    )
    torch.testing.assert_close(result, mlem(linop(matrix), y))


A = linop(torch.tensor([[2.0, 1.0], [1.0, 3.0]]))
Y = torch.ones(2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mlem(A, -Y), ValueError, r"mlem: y must be at least 0 and finite, got -1; if a b"),
        (lambda: mlem(A, Y, -Y), ValueError, r"mlem: x0 must be at least 0"),
        (lambda: mlem(A, Y, background=-1.0), ValueError, r"mlem: background must be at least 0"),
        (lambda: mlem(A, Y, background=-Y), ValueError, r"mlem: background must be at least 0 and"),
        (lambda: mlem(A, Y, background=torch.ones(3)), ValueError, r"background must be broadcast"),
        (lambda: mlem(A, Y + 0j), TypeError, r"mlem: y must be real, got torch.complex64"),
        (lambda: mlem(A, Y, Y + 0j), TypeError, r"mlem: x0 must be real"),
        (lambda: mlem(A, Y, torch.ones(3)), ValueError, r"x0 must have the shape and dtype of"),
        (lambda: mlem(1j * A, Y), TypeError, r"mlem: A must be real, because counts .* RealPart"),
        (lambda: mlem(A, torch.tensor([1, 2])), TypeError, r"mlem: y must"),
        (lambda: mlem(A, Y * math.nan), ArithmeticError, r"mlem: values must stay finite, got nan"),
        (
            lambda: mlem(linop(torch.tensor([[1.0, -2.0], [1.0, 1.0]])), Y),
            ValueError,
            r"mlem: the adjoint of A, applied to ones, must not be negative, got -1",
        ),
        (
            lambda: mlem(linop(torch.tensor([[1.0, -2.0], [1.0, 3.0]])), Y),
            ValueError,
            r"mlem: the output of A for x >= 0 must not be negative, got -.*use pdhg",
        ),
        (
            lambda: mlem(linop(torch.tensor([[1.0, 2.0], [0.0, 0.0]])), 3 * Y),
            ValueError,
            r"mlem: y must be 0 where A x0 \+ background is 0, got counts of 3 there.*set them to",
        ),
        (
            lambda: mlem(lambda x: 2 * x, Y, adjoint=lambda y: y / 2),
            ValueError,
            r"mlem: adjoint must be the adjoint of A",
        ),
        (lambda: mlem(lambda x: 2 * x, Y), TypeError, r"mlem: the adjoint of a function must be"),
        (lambda: mlem([A, A], [Y, Y], background=[1.0]), TypeError, r"background must be a seque"),
    ],
)
def test_what_is_no_emission_is_refused(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


def test_without_a_tolerance_all_steps_are_done_in_half_precision() -> None:
    matrix = torch.tensor([[1.0, 0.9], [0.8, 1.0]], dtype=torch.bfloat16)
    A, record = Dense(matrix, ("M", "N"), ("N",), ("M",)), Record()
    mlem(A, torch.tensor([3.0, 4.0], dtype=torch.bfloat16), max_num_iters=60, callback=record)
    assert record.reason is StopReason.MAX_ITERATIONS
