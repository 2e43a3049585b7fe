from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import FFT, Dense, Diagonal, Zero
from linops_solvers import SVD, Record, Step, StopReason, svd

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
seeds = st.integers(0, 2**16)


def with_values(rows: int, columns: int, values: Tensor, dtype: torch.dtype, seed: int) -> Tensor:
    """Return a matrix that has these singular values, and zeros."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    left, right = (
        torch.linalg.qr(torch.randn(n, n, dtype=wide, generator=generator)).Q
        for n in (rows, columns)
    )
    count = len(values)
    matrix: Tensor = (left[:, :count] * values) @ right[:count]
    return matrix.to(dtype)


def check(result: SVD, matrix: Tensor, k: int, tolerance: float) -> None:
    """Values are the largest, vectors orthonormal, and each triplet one of the matrix."""
    U, S, V = result
    scale = float(torch.linalg.matrix_norm(matrix, 2)) or 1.0
    assert U.shape == (k, matrix.shape[0]) and V.shape == (k, matrix.shape[1])
    wanted = torch.linalg.svdvals(matrix)[:k]
    torch.testing.assert_close(S / scale, wanted / scale, rtol=0, atol=tolerance)
    for basis in (U, V):
        torch.testing.assert_close(
            basis @ basis.mH, torch.eye(k, dtype=basis.dtype), rtol=0, atol=tolerance
        )
    close: Any = {"rtol": 0, "atol": tolerance}
    torch.testing.assert_close(V @ matrix.mT / scale, S[:, None] * U / scale, **close)
    torch.testing.assert_close(U @ matrix.conj() / scale, S[:, None] * V / scale, **close)


@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 9),
    st.integers(1, 9),
    st.sampled_from(DTYPES),
    seeds,
    st.integers(0, 3),
)
def test_the_triplets_are_those_of_the_matrix(
    rows: int, columns: int, rank: int, k: int, dtype: torch.dtype, seed: int, oversampling: int
) -> None:
    """Of any rank, with singular values that repeat."""
    rank, k = min(rank, rows, columns), min(k, rows, columns)
    values = torch.randint(1, 4, [rank], generator=torch.Generator().manual_seed(seed)).double()
    matrix = with_values(rows, columns, values, dtype, seed)
    A = Dense.from_einstr(matrix, "MN,N->M")
    record = Record()
    result = svd(A, k, oversampling=oversampling, seed=seed, callback=record)
    assert record.reason in (StopReason.CONVERGED, StopReason.ROUNDING)
    check(result, matrix, k, 1e-4 if torch.finfo(dtype).bits == 32 else 1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_a_few_triplets_of_a_large_matrix_are_found_to_the_tolerance(dtype: torch.dtype) -> None:
    matrix = with_values(120, 80, torch.logspace(0, -2, 80, dtype=torch.float64), dtype, 0)
    seen: list[Step] = []
    result = svd(
        matrix.mv,
        5,
        torch.zeros(80, dtype=dtype),
        tol=1e-8,
        adjoint=matrix.mH.mv,
        callback=seen.append,
    )
    assert seen[-1].reason is StopReason.CONVERGED and seen[-1].values["residual"] <= 1e-8
    check(result, matrix, 5, 1e-8)
    rest = (result.U @ matrix.conj() - result.S[:, None] * result.V).norm(dim=1).max()
    assert float(rest) == pytest.approx(seen[-1].values["residual"], rel=0.1, abs=1e-13)
    assert torch.equal(seen[-1].x, result.S)
    assert seen[-1].values["norm"] == pytest.approx(1)


def test_too_few_blocks_give_lower_bounds_and_say_so() -> None:
    matrix = with_values(60, 60, torch.linspace(1, 0.5, 60, dtype=torch.float64), torch.float64, 0)
    record = Record()
    result = svd(matrix.mv, 3, matrix[0], 1, adjoint=matrix.mH.mv, callback=record)
    assert (record.iterations, record.reason) == (1, StopReason.MAX_ITERATIONS)
    assert (result.S <= torch.linalg.svdvals(matrix)[:3]).all()
    torch.testing.assert_close(result.V @ matrix.mT, result.S[:, None] * result.U)


def test_vectors_have_the_shapes_of_the_operator() -> None:
    weight = torch.rand(3, 4, 2, dtype=torch.float64)
    A = Dense(weight, ("C", "X", "Y"), ("X", "Y"), ("C", "X", "Y"))
    U, S, V = svd(A, 2)
    assert (U.shape, S.shape, V.shape) == ((2, 3, 4, 2), (2,), (2, 4, 2))
    for u, s, v in zip(U, S, V, strict=True):
        torch.testing.assert_close(A(v), s * u)
        torch.testing.assert_close(A.H(u), s * v)
    norms = torch.linalg.vector_norm(weight, dim=0).flatten().sort(descending=True).values
    torch.testing.assert_close(S, norms[:2])


def test_all_singular_values_of_a_unitary_operator_are_one() -> None:
    result = svd(FFT(1), 3, sizes={"...": 2, "Nx": 8})
    torch.testing.assert_close(result.S, torch.ones(3))
    assert result.U.is_complex() and result.V.is_complex()


def test_zero_has_orthonormal_vectors_too() -> None:
    result = svd(Zero(("N",), ("M",), sizes={"N": 4, "M": 3}), 2)
    check(result, torch.zeros(3, 4), 2, 1e-6)


@pytest.mark.parametrize(
    ("dtype", "exponents"),
    [
        (torch.float32, (-95, -60, 60, 120)),
        (torch.complex64, (-95, 100)),
        (torch.float64, (-960, 1000)),
        (torch.complex128, (-965, 1000)),
    ],
)
def test_the_unit_of_the_operator_does_not_matter(
    dtype: torch.dtype, exponents: tuple[int, ...]
) -> None:
    matrix = with_values(7, 5, torch.linspace(1, 0.2, 5, dtype=torch.float64), dtype, 0)

    def found(exponent: int) -> tuple[SVD, Step]:
        record = Record()
        result = svd(
            Dense.from_einstr(matrix * 2.0**exponent, "MN,N->M"), 3, seed=1, callback=record
        )
        assert record.last is not None
        return result, record.last

    plain, told = found(0)
    for exponent in exponents:
        scaled, step = found(exponent)
        torch.testing.assert_close(scaled.S / 2.0**exponent, plain.S)
        torch.testing.assert_close(scaled.U, plain.U)
        torch.testing.assert_close(scaled.V, plain.V)
        assert torch.equal(step.x, scaled.S)
        assert step.values["norm"] / 2.0**exponent == pytest.approx(told.values["norm"])


def test_a_scale_that_leaves_the_range_is_named() -> None:
    for scale, message in (
        (1e-35, r"the scale of A must be at least 9.9e-32, for the precision of torch.float32"),
        (1e39, r"values must stay finite, got inf; the scale of A may be past what"),
    ):
        scaled = partial(torch.mul, torch.tensor(scale))
        with pytest.raises(ArithmeticError, match=rf"svd: {message}"):
            svd(scaled, 1, torch.ones(2), adjoint=torch.clone)


def test_no_gradients_are_recorded() -> None:
    A = Diagonal(torch.nn.Parameter(torch.tensor([1.0, 2.0])), ("N",))
    assert not any(part.requires_grad for part in svd(A, 1))


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"k": 0}, ValueError, r"k must be at least 1, got 0"),
        ({"k": 3}, ValueError, r"k must be at most 2, the smaller dimension"),
        ({"max_num_iters": 0}, ValueError, r"max_num_iters must be at least 1, got 0"),
        ({"oversampling": -1}, ValueError, r"oversampling must be at least 0, got -1"),
        ({"adjoint": None}, TypeError, r"the adjoint of a function must be given"),
        ({"like": None}, TypeError, r"a function must come with a first vector"),
        ({"like": torch.ones(2, dtype=torch.int64)}, TypeError, r"like must be of a floating or"),
        ({"A": lambda x: x / 0}, ArithmeticError, r"values must stay finite"),
        ({"adjoint": lambda x: x / 0}, ArithmeticError, r"values must stay finite"),
    ],
)
def test_what_has_no_such_triplets_is_refused(
    keywords: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {"A": lambda x: 2 * x, "adjoint": lambda x: 2 * x, "k": 1, "like": torch.ones(2)}
    with pytest.raises(error, match=rf"svd: {message}"):
        svd(**{**given, **keywords})


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from([torch.float32, torch.float64, torch.complex64, torch.bfloat16, torch.float16]),
    st.integers(0, 2**16),
    st.floats(-14, -1),
)
def test_triplets_that_are_called_converged_are_within_the_tolerance(
    rows: int, columns: int, dtype: torch.dtype, seed: int, digits: float
) -> None:
    """Those in half precision too; the others hold to its rounding."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(rows, columns, dtype=wide, generator=generator).to(dtype)
    k, tol, record = min(rows, columns), 10**digits, Record()
    U, S, V = svd(Dense.from_einstr(matrix, "MN,N->M"), k, tol=tol, callback=record)
    assert (U.dtype, V.dtype) == (dtype, dtype)
    exact, turned = matrix.to(wide), V.to(wide).mT
    rest = exact.mH @ U.to(wide).mT - turned * S.double()
    residual = float(rest.norm(dim=0).max()) / float(S[0])
    assert record.reason is not StopReason.CONVERGED or residual <= tol
    # A direction of less than 16 times the precision is taken for rounding, of the norm of a block.
    rounding = 32 * torch.finfo(dtype).eps
    largest = float(exact.norm())
    forth = exact @ turned - U.to(wide).mT * S.double()
    assert float(forth.norm(dim=0).max()) <= rounding * largest
    wanted = torch.linalg.svdvals(exact)
    assert float((S.double() - wanted).abs().max()) <= max(rounding, tol) * largest
