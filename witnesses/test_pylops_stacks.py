"""Operators that PyLops stacks too, and least squares with several operators."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from numpy.linalg import norm
from torch import Tensor

from linops_core import BlockDiag, Dense, HStack, Kronecker, NamedLinop, VStack
from linops_solvers import lsmr, lsqr

pylops = pytest.importorskip("pylops")
Array = npt.NDArray[np.complex128]
N = {"N": 4, "M": 3, "P": 5, "Q": 2}


def matrix(rows: str, columns: str, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    size = (2, N[rows], N[columns])
    real, imag = rng.standard_normal(size)
    return np.asarray(real + 1j * imag)


def dense(values: Array, row: str, column: str) -> Dense:
    return Dense(torch.from_numpy(values), (row, column), (column,), (row,))


def check_equal(ours: NamedLinop, theirs: Any) -> None:
    """Compare matrices of both and of both adjoints, which are computed by products."""
    for A, B in ((ours, theirs), (ours.H, theirs.H)):
        columns = torch.eye(B.shape[1], dtype=torch.complex128)
        sizes = [N[str(dim)] if str(dim) in N else B.shape[1] for dim in A.ishape if dim != "..."]
        results = [A(column.reshape(sizes)).flatten() for column in columns]
        np.testing.assert_allclose(torch.stack(results, 1).numpy(), B.todense(), atol=1e-13)


def test_stacks_of_operators_with_unlike_shapes() -> None:
    A, B, C = matrix("M", "N", 0), matrix("P", "N", 1), matrix("M", "Q", 2)
    a, b, c = (pylops.MatrixMult(each, dtype=complex) for each in (A, B, C))
    ours = dense(A, "M", "N"), dense(B, "P", "N"), dense(C, "M", "Q")
    check_equal(VStack(*ours[:2]), pylops.VStack([a, b]))
    check_equal(HStack(ours[0], ours[2]), pylops.HStack([a, c]))
    check_equal(BlockDiag(ours[1], ours[2]), pylops.BlockDiag([b, c]))


def test_kronecker_products() -> None:
    A, B = matrix("M", "N", 0), matrix("P", "Q", 1)
    theirs = pylops.Kronecker(
        pylops.MatrixMult(A, dtype=complex), pylops.MatrixMult(B, dtype=complex)
    )
    check_equal(Kronecker(dense(A, "M", "N"), dense(B, "P", "Q")), theirs)


@pytest.mark.parametrize("solve", [lsqr, lsmr])
def test_least_squares_with_several_operators(solve: Callable[..., Tensor]) -> None:
    A, B = matrix("M", "N", 0), matrix("P", "N", 1)
    y, z = matrix("M", "Q", 2)[:, 0], matrix("P", "Q", 3)[:, 0]
    stack = pylops.VStack([pylops.MatrixMult(each, dtype=complex) for each in (A, B)])
    expected = pylops.optimization.basic.lsqr(
        stack, np.concatenate([y, z]), niter=200, atol=1e-14, btol=1e-14
    )[0]
    result = solve(
        [dense(A, "M", "N"), dense(B, "P", "N")], [torch.from_numpy(y), torch.from_numpy(z)]
    )
    assert norm(result.numpy() - expected) < 1e-6 * norm(expected)
