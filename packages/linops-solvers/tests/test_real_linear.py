"""Solvers of operators that are linear over the reals only, against matrices over (Re, Im)."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_core import (
    AsComplex,
    Dense,
    Diagonal,
    Identity,
    ImagPart,
    NamedLinop,
    RealForm,
    RealPart,
    SimpleLinop,
)
from linops_solvers import (
    admm,
    conjugate_gradients,
    estimate_diagonal,
    estimate_trace,
    fista,
    gmres,
    irls,
    l2_squared,
    lsmr,
    lsqr,
    minres,
    omp,
    operator_norm,
    pdhg,
    power_method,
    soft_threshold,
    svd,
)


def values(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


def parts(x: Tensor) -> Tensor:
    return torch.cat([x.real, x.imag])


def of_parts(x: Tensor) -> Tensor:
    return torch.complex(*x.chunk(2))


def tall() -> NamedLinop:
    """M x + W conj(x), which sees all of a complex x; output complex."""
    M = Dense(values(4, 3), ("M", "N"), ("N",), ("M",))
    W = Dense(values(4, 3, seed=1), ("M", "N"), ("N",), ("M",))
    return M + W @ (RealPart() - 1j * ImagPart())


def to_real() -> NamedLinop:
    """Re(M x), of a complex x; output real."""
    return RealPart() @ Dense(values(7, 3), ("M", "N"), ("N",), ("M",))


def of_real() -> NamedLinop:
    """M Re(x); output complex."""
    return Dense(values(4, 3), ("M", "N"), ("N",), ("M",)) @ AsComplex()


@pytest.mark.parametrize("make", [tall, to_real])
@pytest.mark.parametrize("is_implicit", [False, True])
def test_conjugate_gradients_solve_the_real_system(
    make: Callable[[], NamedLinop], is_implicit: bool
) -> None:
    A = make()
    N = A.N + 0.5 * Identity()
    matrix, y = RealForm(N).to_dense(), values(3, seed=2).requires_grad_()
    options: dict[str, Any] = {
        "gtol": 1e-13,
        "ltol": 0.0,
        "max_num_iters": 100,
        "implicit": is_implicit,
    }
    x = conjugate_gradients(N, y, **options)
    expected = of_parts(torch.linalg.solve(matrix, parts(y)))
    torch.testing.assert_close(x, expected)
    v = values(3, seed=3)
    result, wanted = (
        torch.autograd.grad((v.conj() * one).sum().real, y)[0] for one in (x, expected)
    )
    torch.testing.assert_close(result, wanted)


def test_systems_side_by_side_are_solved_each() -> None:
    D = Diagonal(torch.rand(2, 3, dtype=torch.float64) + 1, ("B", "N"))
    A = D + 0.5j * ImagPart()  # of matrix diag(d, d + 1/2) over the parts
    y = values(2, 3)
    x = conjugate_gradients(A, y, batch_dims="B", gtol=1e-13, ltol=0.0)
    torch.testing.assert_close(x, torch.complex(y.real / D.weight, y.imag / (D.weight + 0.5)))


def test_a_preconditioner_may_be_linear_over_the_reals_only() -> None:
    weight = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    M = Identity(("N",)) + 0.5j * ImagPart()
    y = values(3)
    x = conjugate_gradients(Diagonal(weight, ("N",)), y, preconditioner=M, gtol=1e-12, ltol=0.0)
    torch.testing.assert_close(x, y / weight)


def test_an_operator_that_is_not_symmetric_is_refused() -> None:
    A = Identity(("N",)) + 3 * ImagPart()
    with pytest.raises(ValueError, match="A must be Hermitian and positive definite, got"):
        conjugate_gradients(A, values(3))


@pytest.mark.parametrize("damp", [0.0, 0.3])
@pytest.mark.parametrize("solve", [lsqr, lsmr])
@pytest.mark.parametrize("make", [tall, to_real, of_real])
def test_least_squares_are_those_of_the_real_matrix(
    make: Callable[[], NamedLinop], solve: Callable[..., Tensor], damp: float
) -> None:
    A = make()
    y = A(values(3)).detach()
    generator = torch.Generator().manual_seed(0)
    y = (y + torch.randn(y.shape, dtype=y.dtype, generator=generator)).requires_grad_()
    x = solve(A, y, damp=damp, atol=1e-14, btol=1e-14)
    matrix, right = RealForm(A).to_dense(), parts(y + 0j)
    expected = torch.linalg.pinv(matrix.mT @ matrix + damp**2 * torch.eye(6)) @ (matrix.mT @ right)
    torch.testing.assert_close(x + 0j, of_parts(expected))
    result, wanted = (
        torch.autograd.grad(torch.view_as_real(one + 0j).square().sum(), y, retain_graph=True)[0]
        for one in (x, of_parts(expected))
    )
    torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize("make", [tall, to_real, of_real])
def test_the_norm_is_that_of_the_real_matrix(make: Callable[[], NamedLinop]) -> None:
    A = make()
    expected = torch.linalg.matrix_norm(RealForm(A).to_dense(), 2)
    result = operator_norm(A, max_iters=1000, tol=1e-12)
    torch.testing.assert_close(result.double(), expected)
    v = values(3)
    torch.testing.assert_close(operator_norm(A, v, max_iters=1000, tol=1e-12), expected)
    _, eigenvalue = power_method((A.N + 0j * Identity()), v, max_iters=1000, tol=1e-12)
    torch.testing.assert_close(eigenvalue, expected**2)


def test_the_norm_of_an_imaginary_part_is_not_that_of_real_vectors() -> None:
    torch.testing.assert_close(operator_norm(ImagPart(("N",)), sizes={"N": 3}), torch.tensor(1.0))


@pytest.mark.parametrize("make", [tall, to_real, of_real])
def test_singular_vectors_are_those_of_the_real_matrix(make: Callable[[], NamedLinop]) -> None:
    A = make()
    matrix, k = RealForm(A).to_dense(), 3 if make is of_real else 5
    U, S, V = svd(A, k)
    torch.testing.assert_close(S, torch.linalg.svdvals(matrix)[:k])
    assert U.is_complex() == A(V[0]).is_complex() and V.is_complex() == (make is not of_real)
    for u, s, v in zip(U, S, V, strict=True):
        torch.testing.assert_close(A(v), s * u)
    for vectors in (U, V):
        gram = (vectors.conj() @ vectors.mT).real
        torch.testing.assert_close(gram, torch.eye(k, dtype=torch.float64))


def test_proximal_methods_find_the_same_minimum() -> None:
    A, y = tall(), values(4, seed=4)
    matrix = RealForm(A).to_dense()
    expected = of_parts(torch.linalg.solve(matrix.mT @ matrix + torch.eye(6), matrix.mT @ parts(y)))
    ridge = l2_squared(1.0)
    tight: dict[str, Any] = {"max_num_iters": 5000}
    result = fista(A, y, ridge, **tight, tol=1e-12)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)
    result = admm(A, y, ridge, **tight, eps_abs=0.0, eps_rel=1e-10)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)
    nearest = l2_squared(1.0, center=y)
    result = pdhg(A, nearest, ridge, torch.zeros(3, dtype=y.dtype), **tight, eps_rel=1e-10)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)


def test_admm_splits_along_an_operator_that_is_linear_over_the_reals_only() -> None:
    A, y = Identity(("N",)), values(3)
    # Half of |x - y|^2 plus |Im x|_1: the real part stays, the imaginary part shrinks.
    x = admm(A, y, soft_threshold(0.5), L=ImagPart(), L_adjoint=ImagPart().H, eps_rel=1e-10)
    shrunk = y.imag.sign() * (y.imag.abs() - 0.5).clamp(min=0)
    torch.testing.assert_close(x, torch.complex(y.real, shrunk), rtol=1e-5, atol=1e-6)


def test_what_needs_a_complex_matrix_is_refused() -> None:
    A = tall().N
    for estimate in (estimate_trace, estimate_diagonal):
        with pytest.raises(ValueError, match="A must be linear over complex numbers, because the"):
            estimate(A)
    for solve in (gmres, minres, omp):
        with pytest.raises(ValueError, match=f"{solve.__name__}: A must be linear over complex"):
            solve(A, values(3))
    result = estimate_trace(RealForm(A), 2000).value
    expected = RealForm(A).to_dense().trace()
    assert abs(result - expected) < 0.1 * expected


def test_a_function_says_by_a_simple_linop_that_it_is_linear_over_the_reals_only() -> None:
    A = tall().N
    function = SimpleLinop(A, A, ishape=("N",), is_complex_linear=False) + Identity()
    y = values(3)
    x = conjugate_gradients(function, y, gtol=1e-12, ltol=0.0, max_num_iters=100)
    torch.testing.assert_close(A(x) + x, y)


def test_weighted_least_squares_are_those_of_the_real_matrix() -> None:
    A, y = tall(), values(4)
    options = {"p": 2.0, "tol": 1e-10, "max_cg_iters": 100}
    result = irls(A, y, **options)  # type: ignore[arg-type]
    torch.testing.assert_close(parts(result), torch.linalg.pinv(RealForm(A).to_dense()) @ parts(y))
