"""Ordered subsets: what a step is, how fast it is, and subsets of one operator."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Dense, Diagonal
from linops_solvers import Record, mlem, osem, poisson_likelihood

F64 = torch.float64


def linop(matrix: Tensor) -> Dense:
    return Dense(matrix, ("M", "N"), ("N",), ("M",))


def problem(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.rand(6, 3, dtype=F64, generator=generator) + 0.05
    return matrix, torch.poisson(20 * matrix.sum(1), generator=generator) + 1


@given(st.integers(0, 2**16), st.integers(1, 4))
def test_a_step_is_one_of_mlem_with_each_subset_in_turn(seed: int, count: int) -> None:
    matrix, y = problem(seed)
    b = torch.linspace(0, 1, 6, dtype=F64)
    x = x0 = torch.linspace(1, 2, 3, dtype=F64)
    parts = [linop(matrix[k::count]) for k in range(count)]
    counts = [y[k::count] for k in range(count)]
    for _ in range(3):
        for k in range(count):
            x = mlem(parts[k], counts[k], x, 1, background=b[k::count])
    record = Record()
    result = osem(
        parts, counts, x0, 3, background=[b[k::count] for k in range(count)], callback=record
    )
    torch.testing.assert_close(result, x)
    whole = poisson_likelihood(y, b).value(matrix @ x)
    assert record.values["objective"][-1] == pytest.approx(float(whole))
    # Every count-th row of one operator.
    torch.testing.assert_close(osem(linop(matrix), y, x0, 3, background=b, subsets={"M": count}), x)


def test_a_step_with_equal_subsets_is_as_many_steps_of_mlem() -> None:
    matrix, y = problem(1)
    A = linop(matrix.repeat_interleave(3, 0))
    result = osem(A, y.repeat_interleave(3), max_num_iters=4, subsets={"M": 3})
    torch.testing.assert_close(result, mlem(linop(matrix), y, max_num_iters=12))


def test_subsets_along_any_axis_of_the_counts() -> None:
    """Of an operator with further dimensions, before and behind."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.rand(2, 4, 3, dtype=F64, generator=generator) + 0.1
    A = Dense(weight, ("C", "M", "N"), ("B", "N"), ("B", "C", "M"))
    y = A(torch.rand(5, 3, dtype=F64, generator=generator)) + 0.1
    for dim, axis, count in (("C", 1, 2), ("M", 2, 3)):
        parts, counts = [], []
        for k in range(count):
            every = [slice(None)] * 3
            every[axis] = slice(k, None, count)
            own = weight[tuple(every[1:])]
            parts.append(Dense(own, ("C", "M", "N"), ("B", "N"), ("B", "C", "M")))
            counts.append(y[tuple(every)])
        result = osem(A, y, subsets={dim: count}, background=0.1)
        torch.testing.assert_close(result, osem(parts, counts, background=0.1))


MATRIX, Y = problem(0)
A = linop(MATRIX)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: osem(A, Y), TypeError, r"osem: A must be a sequence .* give subsets="),
        (lambda: osem([A], [Y], subsets={"M": 2}), TypeError, r"osem: subsets must be left out"),
        (lambda: osem(A, Y, subsets={"M": 2, "N": 2}), TypeError, r"of one dimension to a number"),
        (lambda: osem(A, Y, subsets=8), TypeError, r"osem: subsets must be a mapping of one dim"),  # type: ignore[arg-type]
        (lambda: osem(A, Y, subsets={"M": 7}), ValueError, r"along M must be at most its 6 ind"),
        (lambda: osem(A, Y, subsets={"M": 0}), ValueError, r"number of subsets along M must be"),
        (lambda: osem(A, Y, subsets={"N": 2}), ValueError, r"osem: N must be a dimension of the"),
        (
            lambda: osem(Diagonal(Y, ("M",)), Y, subsets={"M": 2}),
            ValueError,
            r"osem: M must be a dimension of the output alone .* where it is batch",
        ),
        (lambda: osem([A, A], [Y]), TypeError, r"osem: y must be a sequence, one tensor for each"),
        (lambda: osem([A, A], [Y, Y], background=-1.0), ValueError, r"osem: background\[0\] must"),
        (lambda: osem([A, A], [Y, Y], background=[1.0]), TypeError, r"osem: background must be a"),
        (lambda: osem([A, A], [Y, -Y]), ValueError, r"osem: y\[1\] must be at least 0"),
        (lambda: osem([A, 1j * A], [Y, Y]), TypeError, r"osem: A\[1\] must be real"),
    ],
)
def test_what_has_no_subsets_is_refused(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
