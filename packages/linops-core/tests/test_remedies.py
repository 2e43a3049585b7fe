"""What is refused says which argument is wrong, and what to do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from linops_core import DCT, FFT, Convolution, Dense, Diagonal, NamedLinop, RealFFT, VStack
from linops_core.alg import (
    l1_ball,
    lbfgs,
    lsqr,
    nuclear_norm,
    omp,
    simplex,
)

D = Diagonal(torch.tensor([2.0, -3.0]), ("N",))
X = torch.ones(2)
MAPS = Dense(torch.ones(2, 3), ("C", "N"), ("N",), ("C", "N"))
NAN = torch.full((3, 3), torch.nan)


def matrix(m: int, n: int, o: str = "M", i: str = "N") -> NamedLinop:
    return Dense(torch.ones(m, n), (o, i))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: l1_ball(1.0)(X.long(), 1.0), TypeError, r"l1_ball: x .* got torch.int64"),
        (lambda: l1_ball(torch.inf)(X.long(), 1.0), TypeError, r"l1_ball: x .* got torch.int64"),
        (lambda: simplex()(X.long(), 1.0), TypeError, r"simplex: x .* got torch.int64"),
        (lambda: simplex()(X[:0], 1.0), ValueError, r"simplex: x must have entries to add up"),
        (lambda: nuclear_norm()(NAN, 1.0), ArithmeticError, r"nuclear_norm: x must be finite"),
        (lambda: lbfgs(lambda x: x.detach().sum(), X), ValueError, r"lbfgs: function must .* grad"),
        (
            lambda: omp(D, X, column_norms=[1.0, 2.0]),  # type: ignore[arg-type]
            TypeError,
            r"omp: column_norms must be a torch.Tensor",
        ),
        (lambda: omp(D, X, column_norms=X * 1j), TypeError, r"omp: column_norms must be real"),
        (
            lambda: lsqr([matrix(2, 3), matrix(2, 1)], [X, X]),
            ValueError,
            r"lsqr: the operators in A must have one input, got .* \(3,\) .* \(1,\) .* A\[1\]",
        ),
        (
            lambda: Convolution(torch.ones(3), dims=2),  # type: ignore[arg-type]
            TypeError,
            r"Convolution: dims must be the names of the dimensions .* got 2",
        ),
        (
            lambda: Convolution(torch.ones(5), dims=("N",), mode="valid")(torch.ones(3)),
            ValueError,
            r"the grid must be at least as large as the kernel \(5,\) in mode 'valid', got \(3,\)",
        ),
        (
            lambda: FFT(dims=("N",), to=("C",)) @ MAPS,
            ValueError,
            r"FFT would give \(C\) .* which Dense has already: give another name by to=",
        ),
        (lambda: matrix(2, 3) + matrix(2, 3, i="K"), ValueError, r"^Add: all .*; if .*renamed"),
        (
            lambda: VStack(matrix(2, 3), matrix(2, 3, i="K")),
            ValueError,
            r"^VStack: all operands must have one input, got [^:]*; if .* rename them",
        ),
        (lambda: DCT(("N",))(X.bfloat16()), TypeError, r"DCT .*: the dtype must .*bfloat16; conv"),
        (lambda: RealFFT(("N",), 2)(X.bfloat16()), TypeError, r"RealFFT .*: the dtype .*bfloat16"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


def test_projections_of_nothing_are_nothing() -> None:
    assert l1_ball(1.0)(X[:0], 1.0).shape == (0,)
    assert l1_ball(torch.inf)(X, 1.0) is X
    assert simplex(1.0, dim=1)(torch.zeros(0, 3), 1.0).shape == (0, 3)


def test_the_root_of_a_square_is_that_of_the_squares() -> None:
    assert torch.equal(((D**2) ** 0.5)(X), torch.tensor([2.0, 3.0]))
    assert torch.equal((D**2)(X), (D @ D)(X))
