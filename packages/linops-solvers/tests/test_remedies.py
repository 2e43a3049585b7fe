"""What is refused says which argument is wrong, and what to do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from linops_core import (
    FFT,
    Dense,
    Diagonal,
    NamedLinop,
    SimpleLinop,
)
from linops_solvers import (
    conjugate_gradients,
    estimate_trace,
    gmres,
    irls,
    l0,
    l1_ball,
    l2_ball,
    l2_squared,
    lbfgs,
    lsqr,
    minres,
    no_penalty,
    nuclear_norm,
    omp,
    pdhg,
    separable,
    simplex,
    soft_threshold,
    svd,
)

D = Diagonal(torch.tensor([2.0, -3.0]), ("N",))
X = torch.ones(2)
WIDE = Diagonal(torch.ones(2, dtype=torch.float64), ("N",))
MAPS = Dense(torch.ones(2, 3), ("C", "N"), ("N",), ("C", "N"))
SINGLE = SimpleLinop(lambda x: x * 0.1, lambda y: y * (0.1 + 3e-8), None, ("N",))
TWO = {"N": 2}
NAN = torch.full((3, 3), torch.nan)


def matrix(m: int, n: int, o: str = "M", i: str = "N") -> NamedLinop:
    return Dense(torch.ones(m, n), (o, i))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: l1_ball(1.0)(X.long(), 1.0), TypeError, r"l1_ball: x .* got torch.int64"),
        (lambda: l1_ball(torch.inf)(X.long(), 1.0), TypeError, r"l1_ball: x .* got torch.int64"),
        (lambda: simplex()(X.long(), 1.0), TypeError, r"simplex: x .* got torch.int64"),
        (lambda: simplex()(X[:0], 1.0), ValueError, r"simplex: x must have entries, because they"),
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
            r"lsqr: the operators in A must have the same input, got .* \(3,\) .* \(1,\) .* A\[1\]",
        ),
        (
            lambda: pdhg([matrix(2, 3), matrix(2, 1)], [no_penalty()] * 2, no_penalty(), X),
            ValueError,
            r"pdhg: .* K must have the same input, got .* \(3,\) of K\[0\] and \(1,\) of K\[1\]",
        ),
        (
            lambda: soft_threshold()([1.0], 1.0),  # type: ignore[arg-type]
            TypeError,
            r"soft_threshold: x must be a torch.Tensor, got <class 'list'>; convert it",
        ),
        (lambda: l2_ball(1.0)(X.long(), 1.0), TypeError, r"l2_ball: x .* got torch.int64"),
        (lambda: l2_squared()(X, -1.0), ValueError, r"l2_squared: step must be at least 0, got -1"),
        (
            lambda: pdhg(D, separable(l0()), no_penalty(), X),
            ValueError,
            r"pdhg: the function of proximal_f must be convex",
        ),
        (lambda: omp(float("inf") * D, X), ArithmeticError, r"omp: values must stay finite"),
        (
            lambda: irls([D, D], [X, X]),  # type: ignore[arg-type]
            TypeError,
            r"irls: y must be a torch.Tensor, got <class 'list'>; stack .* VStack",
        ),
        (
            lambda: lsqr(torch.eye(2), X),  # type: ignore[arg-type]
            TypeError,
            r"lsqr: A must be an operator .*, got <class 'torch.Tensor'>; make .* Dense\(",
        ),
        (lambda: lsqr(WIDE, X), ValueError, r"A must .* dtype of y.*; convert the vectors"),
        (lambda: lsqr(D, X.long()), TypeError, r"a floating or complex dtype, .* y.float()"),
        (lambda: gmres(matrix(2, 3), X), ValueError, r"^gmres: A must map .*; lsqr\(A, y\)"),
        (lambda: minres(matrix(2, 3), X), ValueError, r"^minres: A must map .*; lsqr\(A, y\)"),
        (lambda: conjugate_gradients(-1.0 * D, X), ValueError, r"definite, .*; minres solves"),
        (
            lambda: svd(matrix(2, 3), 1, like=X, sizes={"N": 3}),
            ValueError,
            r"^svd: like or sizes must be given alone",
        ),
        (
            lambda: estimate_trace(FFT(1), sizes={"Nx": 2}),
            ValueError,
            r"^estimate_trace: A must map a space to itself, .*; give vectors of torch.complex64",
        ),
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


def test_hard_thresholds_keep_what_is_no_number() -> None:
    result = l0()(torch.tensor([torch.nan, 0.5, 2.0]), 1.0)
    assert result[0].isnan()
    assert result[1:].tolist() == [0.0, 2.0]
