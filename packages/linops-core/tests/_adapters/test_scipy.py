import pickle
import subprocess
import sys
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import FFT, Dense, Diagonal, NamedLinop, from_scipy
from linops_core._adapters._arrays import ArrayFunctions
from linops_core.testing import BaseNamedLinopTests, dottest
from linops_core.testing.strategies import Known, check, spaces
from nameddim import ND

linalg = pytest.importorskip("scipy.sparse.linalg", reason="SciPy is not installed")
sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")


def random_matrix(rows: int, columns: int, kind: str, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < 0.6)
    return matrix + 1j * rng.normal(size=matrix.shape) if kind == "complex" else matrix


FORMS = {
    "ndarray": lambda matrix: matrix,
    "csr_array": sparse.csr_array,
    "coo_matrix": sparse.coo_matrix,
    "LinearOperator": lambda matrix: linalg.aslinearoperator(sparse.csc_array(matrix)),
    "functions": lambda matrix: linalg.LinearOperator(
        matrix.shape,
        matvec=lambda x: matrix @ x,
        rmatvec=lambda y: matrix.conj().T @ y,
        dtype=matrix.dtype,
    ),
}


class OfAnotherLibrary(BaseNamedLinopTests):
    # It computes on a CPU only.
    test_an_accelerator_gives_the_same_values = None  # type: ignore[assignment]

    def also_saved(self) -> None:
        return None


class LawsOfMatrices(OfAnotherLibrary):
    kind = "complex"
    form = "csr_array"

    def make_linop(self) -> NamedLinop:
        matrix = FORMS[self.form](random_matrix(2, 6, self.kind))
        return from_scipy(matrix, ("...", "A", "B"), ("...", "M"), {"A": 2})


class TestComplexSparse(LawsOfMatrices):
    pass


@pytest.mark.variant
class TestRealSparse(LawsOfMatrices):
    kind = "real"


class TestLinearOperator(LawsOfMatrices):
    form = "LinearOperator"


@pytest.mark.variant
class TestWithoutABatch(OfAnotherLibrary):
    def make_linop(self) -> NamedLinop:
        return from_scipy(random_matrix(3, 3, "real"), ("N",), ("N",))


@st.composite
def known_matrices(draw: st.DrawFn) -> Known:
    where = draw(spaces(2, 3))
    rows, columns = (prod(where.lengths(side)) for side in (where.oshape, where.ishape))
    kind, form = draw(st.sampled_from(["real", "complex"])), draw(st.sampled_from([*FORMS]))
    matrix = random_matrix(rows, columns, kind, draw(st.integers(0, 99)))
    front = draw(st.sampled_from([(), ("...",)]))
    linop = from_scipy(
        FORMS[form](matrix), (*front, *where.ishape), (*front, *where.oshape), where.sizes
    ).resolved(ishape=ND.infer(where.ishape))
    known = torch.from_numpy(matrix.astype(complex))
    return Known(linop, known, where, frozenset({*where.ishape, *where.oshape}))


@given(known_matrices())
def test_what_comes_from_scipy_is_its_matrix(known: Known) -> None:
    check(known)


@given(known_matrices())
def test_what_goes_to_scipy_and_back_is_the_same(known: Known) -> None:
    there = known.linop.to_scipy(known.spaces.sizes)
    back = from_scipy(there, known.spaces.ishape, known.spaces.oshape, known.spaces.sizes)
    check(Known(back, known.matrix, known.spaces, known.opaque))


W = torch.tensor([[3.0, 1j, 0.0], [-1j, 2.0, 1.0], [0.0, 1.0, 4.0]], dtype=torch.complex128)


def test_solvers_of_scipy_run_on_an_operator() -> None:
    A = Dense(W).to_scipy()
    b = np.array([1.0, 2j, 3.0])
    expected = np.linalg.solve(W.numpy(), b)
    np.testing.assert_allclose(linalg.cg(A, b, rtol=1e-12)[0], expected, rtol=1e-8)
    np.testing.assert_allclose(linalg.lsqr(A, b, atol=1e-13, btol=1e-13)[0], expected, rtol=1e-8)
    np.testing.assert_allclose(linalg.gmres(A, b, rtol=1e-12)[0], expected, rtol=1e-8)
    largest = linalg.eigsh(A, k=1, return_eigenvectors=False)
    np.testing.assert_allclose(largest, np.linalg.eigvalsh(W.numpy())[-1:])
    np.testing.assert_allclose((A.H @ A).matmat(np.eye(3)), (W.mH @ W).numpy(), atol=1e-12)
    np.testing.assert_allclose(A.T @ b, W.T.numpy() @ b)


def test_a_fourier_transform_is_unitary_for_scipy() -> None:
    A = FFT(2).to_scipy({"Nx": 3, "Ny": 4})
    assert (A.shape, A.dtype) == ((12, 12), np.complex128)
    np.testing.assert_allclose(A.rmatmat(A.matmat(np.eye(12))), np.eye(12), atol=1e-12)


def test_it_can_be_pickled() -> None:
    A = pickle.loads(pickle.dumps(Dense(W).to_scipy()))
    np.testing.assert_allclose(A.rmatmat(np.eye(3)), W.mH.resolve_conj().numpy())


def test_it_computes_in_the_precision_that_was_asked_for() -> None:
    A = Dense(W.to(torch.complex64)).to_scipy()
    assert A.dtype == (A @ np.ones(3)).dtype == np.complex64
    assert FFT(1).to_scipy({"Nx": 2}, torch.float32).dtype == np.complex64


def test_it_computes_on_the_device_that_was_asked_for() -> None:
    A = FFT(1).to_scipy({"Nx": 2}, device="meta")
    assert A.shape == (2, 2)
    with pytest.raises((NotImplementedError, TypeError, RuntimeError), match=r"meta"):
        A @ np.ones(2)


@pytest.mark.gpu
def test_an_operator_on_a_gpu_takes_vectors_of_the_cpu() -> None:
    device = torch.accelerator.current_accelerator()
    A = Dense(W).to(device).to_scipy()
    np.testing.assert_allclose(A @ np.eye(3), W.numpy())
    F = FFT(1, norm="backward").to_scipy({"Nx": 4}, device=device)
    np.testing.assert_allclose(F @ np.eye(4), np.fft.fft(np.eye(4)), atol=1e-12)


def test_names_stand_for_rows_and_columns_the_last_fastest() -> None:
    A = from_scipy(sparse.eye_array(6, format="csr"), ("A", "B"), ("M",), {"B": 3}, name="reshape")
    assert (A.size("A"), A.size("B"), A.size("M"), A.size("Z"), A.name) == (
        2,
        3,
        6,
        None,
        "reshape",
    )
    assert A(torch.arange(6.0).reshape(2, 3)).tolist() == [0, 1, 2, 3, 4, 5]
    assert A.why_opaque("A") == "an operator of SciPy cannot be cut"


def test_precision_is_that_of_the_input_and_entries_are_not_rounded() -> None:
    third = np.array([[1 / 3]])
    A = from_scipy(third, ("N",), ("M",))
    assert A(torch.ones(1)).dtype == torch.float32
    assert A(torch.ones(1, dtype=torch.float64)).item() == 1 / 3
    assert A(torch.ones(1, dtype=torch.complex64)).dtype == torch.complex64
    assert from_scipy(third * 1j, ("N",), ("M",))(torch.ones(1)).dtype == torch.complex64
    assert A(torch.tensor([3])).dtype == torch.float32


def test_a_matrix_is_not_copied_and_may_change() -> None:
    matrix = sparse.csr_array(np.array([[1j, 2.0]]))
    A = from_scipy(matrix, ("N",), ("M",))
    A.H(torch.ones(1))
    matrix.data[0] = 5
    assert A(torch.ones(2)).tolist() == [7]
    assert A.H(torch.ones(1)).tolist() == [5, 2]


def test_a_buffer_that_scipy_writes_to_again_is_not_seen() -> None:
    buffer = np.zeros(2)

    def doubled(x: Any) -> Any:
        buffer[:] = 2 * x
        return buffer

    A = from_scipy(linalg.LinearOperator((2, 2), doubled, doubled, dtype=float), ("N",), ("M",))
    first, _ = A(torch.tensor([1.0, 2.0])), A(torch.tensor([5.0, 5.0]))
    assert first.tolist() == [2, 4]
    same = linalg.LinearOperator((2, 2), matvec=lambda x: x, rmatvec=lambda x: x, dtype=float)
    x = torch.ones(2, dtype=torch.float64)
    from_scipy(same, ("N",), ("M",))(x).add_(1)
    assert x.tolist() == [1, 1]


def test_gradients_flow_through_scipy_into_what_is_before() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    matrix = sparse.csr_array(np.array([[1.0, 3.0]]))
    A = from_scipy(matrix, ("N",), ("M",)) @ Diagonal(weight, ("N",))
    A(torch.ones(2, dtype=torch.float64)).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [1, 3]
    dottest(A)


def test_one_that_is_complex_but_says_to_be_real_is_refused() -> None:
    with pytest.raises(TypeError, match=r"SciPy: a real operator must return"):
        from_scipy(linalg.LinearOperator((1, 1), lambda x: 1j * x, dtype=float), ("N",), ("M",))


@pytest.mark.parametrize("operator", [[[1.0]], torch.ones(1, 1), None])
def test_other_things_are_refused(operator: object) -> None:
    with pytest.raises(TypeError, match=r"from_scipy: the operator must be a LinearOperator, a sp"):
        from_scipy(operator, ("N",), ("M",))


def test_a_matrix_has_two_dimensions_and_numbers() -> None:
    for matrix in (np.ones(3), np.array([["a"]])):
        with pytest.raises(TypeError, match=r"a matrix must have two dimensions and numbers, got"):
            from_scipy(matrix, ("N",), ("M",))


@pytest.mark.parametrize(
    ("ishape", "sizes"),
    [
        (("A", "B"), None),
        (("A", "B"), {"A": 4}),
        (("A", "B"), {"A": 0}),
        (("A", "B", "C"), {"A": 2}),
    ],
)
def test_sizes_must_divide_the_columns(
    ishape: tuple[str, ...], sizes: Mapping[str, int] | None
) -> None:
    with pytest.raises(ValueError, match=r"sizes must be given for all but one of \(A, B.*6 elem"):
        from_scipy(np.ones((2, 6)), ishape, ("M",), sizes)


def test_sizes_like_a_tensor() -> None:
    matrix = random_matrix(6, 6, "real")
    expected = from_scipy(matrix, ("...", "A", "B"), ("...", "B", "C"), {"A": 2, "B": 3})
    for like in (torch.ones(2, 3), torch.ones(4, 5, 2, 3)):
        A = from_scipy(matrix, ("...", "A", "B"), ("...", "B", "C"), like=like)
        assert [A.size(dim) for dim in ("A", "B", "C")] == [2, 3, 2]
        x = torch.ones(2, 3, dtype=torch.float64)
        torch.testing.assert_close(A(x), expected(x))
    with pytest.raises(ValueError, match=r"like must have the dimensions \(A, B\), got shape \(6,"):
        from_scipy(matrix, ("A", "B"), ("M",), like=torch.ones(6))
    with pytest.raises(ValueError, match=r"like must have .* \(A, B\), got shape \(1, 2, 3\)"):
        from_scipy(matrix, ("A", "B"), ("M",), like=torch.ones(1, 2, 3))
    with pytest.raises(ValueError, match=r"must make up a matrix of shape \(6, 6\), got .* \(4, 1"):
        from_scipy(matrix, ("A", "B"), ("B", "M"), like=torch.ones(4, 1))
    with pytest.raises(ValueError, match=r"sizes and like must not be given together"):
        from_scipy(matrix, ("A",), ("M",), {"A": 6}, like=torch.ones(6))
    with pytest.raises(TypeError, match=r"like must be a torch.Tensor, got <class 'tuple'>"):
        from_scipy(matrix, ("A",), ("M",), like=(6,))  # type: ignore[arg-type]


def test_one_that_is_linear_over_the_reals_only_says_so_or_is_refused() -> None:
    A = linalg.LinearOperator((3, 3), matvec=np.conj, rmatvec=np.conj, dtype=complex)
    with pytest.raises(ValueError, match=r"from_scipy: .* linear over complex .*clinear to False"):
        from_scipy(A, ("N",), ("M",))
    A.clinear = False
    result = from_scipy(A, ("N",), ("M",))
    assert not result.is_complex_linear
    dottest(result)
    assert result(torch.tensor([1j, 2, 3])).tolist() == [-1j, 2, 3]


class OfMatrices(linalg.LinearOperator):  # type: ignore[name-defined,misc] # SciPy has no types
    """Has a product with matrices, and an adjoint of vectors alone."""

    def __init__(self) -> None:
        super().__init__(float, (4, 4))

    def _matmat(self, X: Any) -> Any:
        return np.cumsum(X, axis=0)

    def _rmatvec(self, y: Any) -> Any:
        return np.cumsum(y[::-1])[::-1]


FOURIER = linalg.LinearOperator(
    (4, 4), matvec=np.fft.fft, rmatvec=lambda y: 4 * np.fft.ifft(y), dtype=complex
)
REVERSED = linalg.LinearOperator((4, 4), matvec=np.flip, rmatvec=np.flip, dtype=float)
F, R = np.fft.fft(np.eye(4)), np.eye(4)[::-1]


@pytest.mark.parametrize(
    ("operator", "matrix"),
    [
        (FOURIER, F),
        (FOURIER.T, F.T),
        (FOURIER.H @ FOURIER + 2 * FOURIER**2, F.conj().T @ F + 2 * F @ F),
        (REVERSED, R),
        (OfMatrices(), np.tril(np.ones((4, 4)))),
    ],
)
def test_functions_of_a_vector_get_each_vector_of_a_batch(operator: Any, matrix: Any) -> None:
    A, M = (
        from_scipy(operator, ("...", "N"), ("...", "M")),
        torch.from_numpy(matrix.astype(complex)),
    )
    x = torch.randn(3, 4, dtype=torch.complex128)
    for vectors in (x, x[:1], x[0], x.real):
        torch.testing.assert_close(A(vectors) + 0j, (vectors + 0j) @ M.mT)
        torch.testing.assert_close(A.H(vectors) + 0j, (vectors + 0j) @ M.conj())


def test_a_product_with_matrices_is_used_where_it_was_given() -> None:
    shapes: list[tuple[int, ...]] = []

    def multiplied(X: Any) -> Any:
        shapes.append(X.shape)
        return 2 * X

    A = linalg.LinearOperator(
        (4, 4), matvec=multiplied, rmatvec=multiplied, matmat=multiplied, dtype=float
    )
    ours = from_scipy(A, ("...", "N"), ("...", "M"), check_adjoint=False)
    ours(torch.ones(3, 4)), ours.H(torch.ones(3, 4))
    assert shapes == [(4, 3), (4,), (4,), (4,)]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda M, y: M.T @ y,
        lambda M, y: np.linalg.pinv(M) @ y,
        lambda M, y: M.conj().T @ (y + np.roll(y, 1) - np.roll(y, -1)),
    ],
)
def test_an_adjoint_of_another_operator_is_refused(wrong: Any) -> None:
    rng = np.random.default_rng(0)
    M = rng.standard_normal((4, 3)) + 1j * rng.standard_normal((4, 3))
    A = linalg.LinearOperator(
        (4, 3), matvec=lambda x: M @ x, rmatvec=lambda y: wrong(M, y), dtype=complex
    )
    with pytest.raises(ValueError, match=r"from_scipy: the adjoint of .* must be that of its for"):
        from_scipy(A, ("N",), ("M",))
    y = torch.ones(4, dtype=torch.complex128)
    taken = from_scipy(A, ("N",), ("M",), check_adjoint=False)
    np.testing.assert_allclose(taken.H(y).numpy(), wrong(M, y.numpy()))
    without = linalg.LinearOperator((4, 3), matvec=lambda x: M @ x, dtype=complex)
    assert from_scipy(without, ("N",), ("M",))(y[:3]).shape == (4,)


def test_a_batch_of_operators_is_refused() -> None:
    A = linalg.aslinearoperator(np.eye(2))
    A.shape = (5, 2, 2)  # which SciPy 1.18 makes
    with pytest.raises(ValueError, match=r"from_scipy: .* two dimensions, got shape \(5, 2, 2\)"):
        from_scipy(A, ("N",), ("M",))


@pytest.mark.parametrize("batch", [(), ("...",)])
def test_vectors_and_matrices_come_in_batches_too(batch: tuple[str, ...]) -> None:
    M = torch.randn(2, 3, dtype=torch.complex128)
    functions = ArrayFunctions(Dense(M, ("M", "N"), (*batch, "N"), (*batch, "M")))
    x, y = torch.randn(5, 4, 3, dtype=M.dtype), torch.randn(5, 4, 2, dtype=M.dtype)
    there, back = (x @ M.mT).numpy(), (y @ M.conj()).resolve_conj().numpy()
    np.testing.assert_allclose(functions.matvec(x.numpy()), there)
    np.testing.assert_allclose(functions.rmatvec(y.numpy()), back)
    np.testing.assert_allclose(functions.matmat(x.mT.numpy()), there.swapaxes(1, 2))
    np.testing.assert_allclose(functions.rmatmat(y.mT.numpy()), back.swapaxes(1, 2))
    np.testing.assert_allclose(functions.matvec(x[0, 0, :, None].numpy()), there[0, 0])
    assert functions.matmat(np.zeros((3, 0))).shape == (2, 0)


def test_a_function_may_return_the_same_array_in_each_call() -> None:
    linalg = pytest.importorskip("scipy.sparse.linalg")
    matrix = np.random.default_rng(0).standard_normal((4, 6))
    there, back = np.zeros(4), np.zeros(6)
    functions = {
        "matvec": lambda v: np.dot(matrix, v, out=there),
        "rmatvec": lambda v: np.dot(matrix.T, v, out=back),
    }
    operator = linalg.LinearOperator((4, 6), **functions, dtype=float)
    A, M = from_scipy(operator, ("...", "N"), ("...", "M")), torch.from_numpy(matrix)
    x, y = torch.rand(3, 6, dtype=torch.float64), torch.rand(3, 4, dtype=torch.float64)
    torch.testing.assert_close(A(x), x @ M.T)
    torch.testing.assert_close(A.H(y), y @ M)


def writing(x: Any) -> Any:
    x *= 2
    return x


@pytest.mark.parametrize("product", ["matvec", "matmat"])
def test_functions_that_write_into_their_arguments_keep_the_input(product: str) -> None:
    given = dict.fromkeys(("matvec", "rmatvec"), writing)
    if product == "matmat":
        given |= dict.fromkeys(("matmat", "rmatmat"), writing)
    A = from_scipy(linalg.LinearOperator((3, 3), dtype=float, **given), ("...", "N"), ("...", "M"))
    x = torch.ones(2, 3, dtype=torch.float64)
    for each in (A, A.H):
        assert (each(x) == 2).all() and (x == 1).all()
        assert (each(x[0]) == 2).all() and (x == 1).all()


def test_an_adjoint_without_rmatvec_is_refused_in_words() -> None:
    given = linalg.LinearOperator((3, 3), matvec=lambda x: x, dtype=float)
    for shapes, n in (((("N",), ("M",)), (3,)), ((("...", "N"), ("...", "M")), (2, 3))):
        assert (from_scipy(given, *shapes)(torch.ones(n)) == 1).all()
        with pytest.raises(NotImplementedError, match="from_scipy: the operator must have rmatv"):
            from_scipy(given, *shapes).H(torch.ones(n))


def test_an_operator_becomes_one_of_scipy_before_any_other_adapter_is_used() -> None:
    program = "from linops_core import FFT; assert FFT(1, ()).to_scipy({'Nx': 4}).shape == (4, 4)"
    subprocess.run([sys.executable, "-c", program], check=True)
