import math
from typing import Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import Dense, Diagonal, NamedLinop
from linops_core.testing import dottest
from linops_solvers import Record, conjugate_gradients, polynomial_preconditioner

Norm = Literal["l_2", "l_inf"]
degrees = st.integers(0, 12)


def values_of(degree: int, norm: Norm, points: torch.Tensor, bounds: tuple[float, float]) -> Any:
    """Return q = 1 - lambda p(lambda) at points: those of a diagonal operator."""
    P = polynomial_preconditioner(Diagonal(points, ("N",)), degree, norm, *bounds)
    return 1 - points * P(torch.ones_like(points))


@given(degrees, st.floats(0.05, 0.9), st.floats(0.1, 100))
def test_the_largest_residual_is_that_of_chebyshev(degree: int, ratio: float, upper: float) -> None:
    lower = ratio * upper
    points = torch.linspace(lower, upper, 501, dtype=torch.float64)
    q = values_of(degree, "l_inf", points, (lower, upper))
    least = 1 / math.cosh((degree + 1) * math.acosh((upper + lower) / (upper - lower)))
    assert float(q.abs().max()) == pytest.approx(least, rel=1e-6, abs=1e-12)


@given(degrees, st.sampled_from([0.0, 0.1, 0.5]), st.integers(0, 2**16))
def test_no_other_polynomial_has_a_smaller_mean_square(
    degree: int, lower: float, seed: int
) -> None:
    """With the weights and nodes of Gauss and Legendre, which are exact for all of these."""
    nodes, weights = legendre_quadrature(40)
    points = (nodes + 1) / 2 * (1 - lower) + lower
    q = values_of(degree, "l_2", points, (lower, 1.0))
    generator = torch.Generator().manual_seed(seed)
    change = torch.zeros_like(points)
    for factor in torch.randn(degree + 1, dtype=torch.float64, generator=generator):
        change = change * nodes + factor
    # At a minimum the mean of q times (lambda times any polynomial of the degree) is 0.
    slope = float((weights * q * points * change).sum())
    assert abs(slope) <= 1e-12 * float((weights * (points * change).abs()).sum())


def legendre_quadrature(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    k = torch.arange(1, n, dtype=torch.float64)
    off = k / (4 * k**2 - 1).sqrt()
    nodes, vectors = torch.linalg.eigh(torch.diag(off, 1) + torch.diag(off, -1))
    return nodes, 2 * vectors[0] ** 2


@given(degrees, st.sampled_from(["l_2", "l_inf"]), st.booleans(), st.integers(0, 2**16))
def test_it_is_the_polynomial_of_the_matrix(
    degree: int, norm: Norm, is_complex: bool, seed: int
) -> None:
    dtype = torch.complex128 if is_complex else torch.float64
    half = torch.randn(4, 4, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    A = Dense.from_einstr(half, "MN,N->M")
    matrix = half.mH @ half
    upper = float(torch.linalg.matrix_norm(matrix, 2))
    P = polynomial_preconditioner(A.N, degree, norm, 0.01 * upper, upper)
    assert isinstance(P, NamedLinop)
    assert (P.ishape, P.oshape) == (A.N.ishape, A.N.oshape)
    values, vectors = torch.linalg.eigh(matrix)
    p = polynomial_preconditioner(Diagonal(values, ("N",)), degree, norm, 0.01 * upper, upper)
    wanted = (vectors * p(torch.ones_like(values))) @ vectors.mH
    torch.testing.assert_close(P.to_dense(dtype=dtype), wanted)
    torch.testing.assert_close(P.H.to_dense(dtype=dtype), wanted.mH)
    x = torch.randn(4, dtype=dtype)
    of_function = polynomial_preconditioner(matrix.mv, degree, norm, 0.01 * upper, upper)
    torch.testing.assert_close(of_function(x), wanted @ x)


def test_its_adjoint_is_the_polynomial_of_the_adjoint() -> None:
    matrix = torch.randn(3, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    P = polynomial_preconditioner(Dense.from_einstr(matrix, "MN,N->M"), 3)
    torch.testing.assert_close(P.H.to_dense(), P.to_dense().mH)
    dottest(P)


def test_it_is_positive_on_the_interval() -> None:
    points = torch.linspace(1e-3, 1, 300, dtype=torch.float64)
    for degree in range(12):
        for norm, lower in (("l_2", 0.0), ("l_2", 0.1), ("l_inf", 0.1)):
            inside = points[points >= lower]
            assert (values_of(degree, norm, inside, (lower, 1.0)) < 1).all()  # type: ignore[arg-type]


def test_conjugate_gradients_need_fewer_steps_with_it() -> None:
    values = torch.logspace(0, -3, 200, dtype=torch.float64)
    T = Diagonal(values, ("N",))
    y = torch.ones(200, dtype=torch.float64)
    P = polynomial_preconditioner(T, 5, "l_2", 0.0, 1.0)
    counts = []
    for preconditioner in (None, P):
        record = Record()
        conjugate_gradients(
            T, y, None, 1000, 1e-6, 0, preconditioner=preconditioner, callback=record
        )
        counts.append(record.iterations)
    assert counts[1] < counts[0] / 3


def test_it_follows_the_weights_and_gives_gradients() -> None:
    weight = torch.nn.Parameter(torch.tensor([0.5, 1.0], dtype=torch.float64))
    T = Diagonal(weight, ("N",))
    P = polynomial_preconditioner(T, 3)
    assert list(P.parameters()) == [weight]
    before = P(torch.ones(2, dtype=torch.float64))
    weight.data *= 0.5
    after = P(torch.ones(2, dtype=torch.float64))
    assert not torch.equal(before, after)
    x = torch.randn(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, _: P(x), (x, weight))
    dottest(P, dtypes=[torch.float64])


def test_it_is_cut_along_batch_dimensions_and_no_others() -> None:
    half = torch.rand(2, 3, 3, dtype=torch.float64)
    A = Dense(half, ("B", "M", "N"), ("B", "N"), ("B", "M"))
    P = polynomial_preconditioner(A.N, 3, "l_2", 0.0, 9.0)
    x = torch.rand(2, 3, dtype=torch.float64)
    for linop in (P, P.H):
        part = linop.split_forward([slice(1, 2), slice(None)], [slice(1, 2), slice(None)])
        torch.testing.assert_close(part(x[1:]), linop(x)[1:])
    for dim in ("N", "N1", "M"):
        with pytest.raises(ValueError, match=r"the powers of an operator need all elements"):
            P.split(P, {dim: slice(0, 1)})
    assert P.split(P, {}) is P


def test_it_compiles_without_a_break() -> None:
    P = polynomial_preconditioner(Diagonal(torch.rand(4) + 0.1, ("N",)), 4, upper=2.0)
    x = torch.rand(4)
    compiled = torch.compile(P, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), P(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1,), r"degree must be at least 0, got -1"),
        ((2, "l_1"), r'norm must be "l_2" or "l_inf", got \'l_1\''),
        ((2, "l_2", 1.0, 1.0), r"bounds must satisfy 0 <= lower < upper, got 1.0 and 1.0"),
        ((2, "l_2", -1.0, 1.0), r"lower must be at least 0 and finite, got -1.0"),
        ((2, "l_inf"), r'lower must be positive for "l_inf", got 0.0'),
        ((300, "l_2", 0.9, 1.0), r"the degree must be lower for these bounds, got 300"),
    ],
)
def test_bounds_and_degrees_out_of_range_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"polynomial_preconditioner: {message}"):
        polynomial_preconditioner(lambda x: x, *arguments)


def test_an_operator_between_spaces_of_different_sizes_is_refused() -> None:
    A = Dense(torch.ones(3, 2), ("M", "N"), ("N",), ("M",))
    with pytest.raises(
        ValueError, match=r"polynomial_precond.*: A must map a space .*give A\.N of"
    ):
        polynomial_preconditioner(A, 2)
