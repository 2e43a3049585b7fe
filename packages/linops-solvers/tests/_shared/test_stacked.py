"""Solvers of several operators at once: the solution is that of one above the other."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import Dense, Identity, VStack
from linops_solvers import (
    admm,
    box,
    fista,
    l2_squared,
    lsmr,
    lsqr,
    no_penalty,
    pdhg,
    soft_threshold,
)

optimize = pytest.importorskip("scipy.optimize")

LAM = 0.3


def values(*lengths: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=dtype, generator=generator)


def dense(weight: Tensor) -> Dense:
    """Return a Dense from N to as many dimensions as the weight has more."""
    names = ("P", "Q")[: weight.ndim - 1]
    return Dense(weight, (*names, "N"), ("N",), names)


N = 6
steps = torch.diff(torch.eye(N, dtype=torch.float64), dim=0)
G = Dense(steps, ("M", "N"), ("N",), ("M",))
data = values(N, seed=1)


def dual_solution(is_positive: bool) -> Tensor:
    """Return the x that minimises |x - y|^2 / 2 + lam |G x|_1, for x >= 0 if asked, by its dual."""
    columns, bounds = [steps.mT], [LAM] * (N - 1)
    lowest, highest = [-b for b in bounds], list(bounds)
    if is_positive:
        columns.append(torch.eye(N, dtype=torch.float64))
        lowest, highest = [*lowest, *[-np.inf] * N], [*highest, *[0.0] * N]
    matrix = torch.cat(columns, 1).numpy()
    result = optimize.lsq_linear(matrix, data.numpy(), (lowest, highest), tol=1e-14)
    return data - torch.from_numpy(matrix @ result.x)


@given(st.integers(0, 2**16), st.sampled_from([lsqr, lsmr]), st.booleans())
def test_least_squares_are_those_of_all_rows(seed: int, solve: Any, is_complex: bool) -> None:
    dtype = torch.complex128 if is_complex else torch.float64
    A, B = dense(values(2, 3, 3, seed=seed, dtype=dtype)), dense(values(2, 3, seed=seed + 1))
    y = [values(2, 3, seed=seed + 2, dtype=dtype), values(2, seed=seed + 3, dtype=dtype)]
    rows = torch.cat([A.weight.reshape(6, 3).to(dtype), B.weight.to(dtype)])
    expected = torch.linalg.lstsq(rows, torch.cat([part.flatten() for part in y])).solution
    result = solve([A, B], y, max_num_iters=50, atol=1e-12, btol=1e-12)
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-8)
    V = VStack(A, B)
    torch.testing.assert_close(solve(V, V.from_blocks(y), atol=1e-12, btol=1e-12), result)


def test_functions_come_with_their_adjoints() -> None:
    A, B = values(4, 3), values(2, 3, seed=1)
    y = [values(4, seed=2), values(2, seed=3)]
    result = lsqr([A.mv, B.mv], y, adjoint=[A.mT.mv, B.mT.mv])
    expected = torch.linalg.lstsq(torch.cat([A, B]), torch.cat(y)).solution
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


def test_gradients_reach_the_weights_of_all() -> None:
    weights = [nn.Parameter(values(4, 3)), nn.Parameter(values(2, 3, seed=1))]
    y = [values(4, seed=2), values(2, seed=3)]
    x = lsqr([*map(dense, weights)], y, atol=1e-12, btol=1e-12)
    expected = torch.linalg.lstsq(torch.cat([*weights]), torch.cat(y)).solution
    result = torch.autograd.grad(x.square().sum(), weights)
    wanted = torch.autograd.grad(expected.square().sum(), weights)
    torch.testing.assert_close(result, wanted, rtol=1e-6, atol=1e-8)
    x = lsqr([*map(dense, weights)], y)
    with torch.no_grad():
        weights[1].add_(1)
    with pytest.raises(RuntimeError, match=r"lsqr: the weights of A function must not change"):
        x.sum().backward()


@pytest.mark.parametrize("is_positive", [False, True])
def test_penalties_of_several_operators_are_added(is_positive: bool) -> None:
    """TV denoising, whose dual problem is least squares within bounds."""
    expected = dual_solution(is_positive)
    one = Identity(("N",))
    operators, maps = [G, one], [soft_threshold(LAM), box(0.0) if is_positive else no_penalty()]
    by_admm = admm(one, data, maps, operators, max_num_iters=2000, eps_rel=1e-9)
    torch.testing.assert_close(by_admm, expected, rtol=1e-5, atol=1e-6)
    fit = l2_squared(1.0, center=data)
    g = box(0.0) if is_positive else no_penalty()
    x0 = torch.zeros(N, dtype=torch.float64)
    by_pdhg = pdhg([one, G], [fit, soft_threshold(LAM)], g, x0, 20000, eps_rel=1e-9)
    torch.testing.assert_close(by_pdhg, expected, rtol=1e-5, atol=1e-6)


def test_data_of_several_operators_are_added() -> None:
    A, B = dense(values(4, 3)), dense(values(2, 3, seed=1))
    y = [values(4, seed=2), values(2, seed=3)]
    both, whole = dense(torch.cat([A.weight, B.weight])), torch.cat(y)
    proximal = soft_threshold(0.1)
    for solve in (fista, admm):
        result = solve([A, B], y, proximal, max_num_iters=500)
        expected = solve(both, whole, proximal, max_num_iters=500)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_the_dual_variable_begins_where_it_is_told_to() -> None:
    p0 = [torch.zeros(N, dtype=torch.float64), torch.full((N - 1,), 0.1, dtype=torch.float64)]
    maps = [l2_squared(1.0, center=data), soft_threshold(LAM)]
    results = [
        pdhg([Identity(("N",)), G], maps, no_penalty(), data, 1, p0=start) for start in (None, p0)
    ]
    assert not torch.equal(*results)


A, B = dense(values(4, 3)), dense(values(2, 3, seed=1))
y = [values(4, seed=2), values(2, seed=3)]
x0 = torch.zeros(3, dtype=torch.float64)
two = [no_penalty(), no_penalty()]
nothing: Any = 3
factory: Any = no_penalty


@pytest.mark.parametrize(
    ("solve", "kind", "message"),
    [
        (lambda: lsqr([], []), ValueError, r"lsqr: A must hold at least one operator, got none"),
        (
            lambda: lsqr([A, nothing], y),
            TypeError,
            r"lsqr: A\[1\] must be an operator or a function",
        ),
        (
            lambda: lsqr([A, torch.neg], y),
            TypeError,
            r"lsqr: the adjoints of functions must be given as a sequence, got A = \[",
        ),
        (
            lambda: lsqr([A, B], y, adjoint=[A.H]),
            TypeError,
            r"lsqr: the adjoints must be a sequence, one for each of 2 operators",
        ),
        (
            lambda: lsqr(A, y[0], adjoint=[A.H]),
            TypeError,
            r"lsqr: the adjoint of one operator must be one function, got \[",
        ),
        (
            lambda: lsqr([A, B], y[0]),
            TypeError,
            r"lsqr: y must be a sequence, one tensor for each of 2 operators in A, got <class",
        ),
        (lambda: lsmr([A, B], y[:1]), TypeError, r"lsmr: y must be a sequence, .* got 1 of them"),
        (lambda: lsmr([A], [nothing]), TypeError, r"lsmr: y\[0\] must be a torch.Tensor, got"),
        (
            lambda: lsqr([A, B], y[::-1]),
            ValueError,
            r"Dense: P must have size 4, got 2 in an input",
        ),
        (
            lambda: pdhg([A, B], no_penalty(), no_penalty(), x0),
            TypeError,
            r"pdhg: proximal_f must be a sequence, one proximal map for each of 2",
        ),
        (
            lambda: pdhg([A, B], [no_penalty(), factory], no_penalty(), x0),
            TypeError,
            r"pdhg: proximal_f\[1\] must be a function of z and t, got no_penalty, which must be",
        ),
        (
            lambda: pdhg([A, B], [no_penalty(), lambda z, t: z[:1]], no_penalty(), x0),
            ValueError,
            r"pdhg: what proximal_f\[1\] returns must have the shape and dtype of its argument",
        ),
        (
            lambda: pdhg([A, B], two, no_penalty(), x0, p0=y[0]),
            TypeError,
            r"pdhg: p0 must be a sequence, one tensor for each of 2 operators in K",
        ),
        (
            lambda: pdhg([A, B], two, no_penalty(), x0, p0=[y[0], y[0]]),
            ValueError,
            r"pdhg: the output of K\[1\] must have shape \(4,\), got \(2,\)",
        ),
        (lambda: admm(A, y[0], two), TypeError, r"admm: proximal must be one proximal map, got"),
    ],
)
def test_what_does_not_fit_is_refused(solve: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        solve()
