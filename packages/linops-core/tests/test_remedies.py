"""What is refused says which argument is wrong, and what to do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from linops_core import (
    DCT,
    FFT,
    Convolution,
    Dense,
    Diagonal,
    NamedLinop,
    RealFFT,
    SimpleLinop,
    VStack,
)
from linops_core.alg import (
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
from linops_core.testing import dottest

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
            r"FFT would name .* \(C\), but Dense has .* already: give another name with to=",
        ),
        (lambda: matrix(2, 3) + matrix(2, 3, i="K"), ValueError, r"^Add: all .*; if .*renamed"),
        (
            lambda: VStack(matrix(2, 3), matrix(2, 3, i="K")),
            ValueError,
            r"^VStack: all operands must have the same input, got [^:]*; if .* rename them",
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
        (lambda: VStack([D, D]), TypeError, r"got <class 'list'>; unpack it, VStack\(\*linops\)"),  # type: ignore[arg-type]
        (lambda: dottest(D, like=X.long()), TypeError, r"dottest: like must be of a floating"),
        (lambda: dottest(SINGLE, {"N": 5}), ValueError, r"relative difference of .*; give dtypes="),
        (
            lambda: SimpleLinop(lambda x: torch.from_numpy(x.numpy().cumsum())).H(X),
            ValueError,
            r"SimpleLinop .*: .*, forward must use only functions of torch .*; or give adjoint=",
        ),
        (
            lambda: SimpleLinop(torch.fft.rfft, None, None, ("N",), ("K",), sizes=TWO).H(1j * X),
            ValueError,
            r"SimpleLinop .* accept complex vectors unless is_complex_linear=False, got",
        ),
        (lambda: FFT(1).to_dense(), ValueError, r"the size of Nx must be known .*; or pass a tens"),
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


def test_hard_thresholds_keep_what_is_no_number() -> None:
    found = l0()(torch.tensor([torch.nan, 0.5, 2.0]), 1.0)
    assert found[0].isnan()
    assert found[1:].tolist() == [0.0, 2.0]
