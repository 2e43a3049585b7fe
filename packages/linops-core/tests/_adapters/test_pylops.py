import pickle
from typing import Any

import numpy as np
import pytest
import torch

from linops_core import FFT, Dense, Diagonal, NamedLinop, RealFFT, from_pylops, to_pylops
from linops_core.testing import BaseNamedLinopTests, dottest

pylops = pytest.importorskip("pylops", reason="PyLops is not installed")
W = torch.randn(4, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))


class OfAnotherLibrary(BaseNamedLinopTests):
    # It computes on a CPU only.
    test_an_accelerator_gives_the_same_values = None  # type: ignore[assignment]

    def also_saved(self) -> None:
        return None


class TestFromPylops(OfAnotherLibrary):
    def make_linop(self) -> NamedLinop:
        operator = pylops.MatrixMult(W.numpy(), dtype="complex128")
        return from_pylops(operator, ("...", "N"), ("...", "M"))


@pytest.mark.variant
class TestRealFromPylops(OfAnotherLibrary):
    def make_linop(self) -> NamedLinop:
        return from_pylops(pylops.FirstDerivative((3, 2), axis=0), ("A", "B"), ("C", "D"))


def test_an_operator_is_the_same_in_pylops() -> None:
    A = to_pylops(Dense(W, ("M", "N"), ("...", "N"), ("...", "M")))
    assert (A.shape, A.dims, A.dimsd, A.dtype) == ((4, 3), (3,), (4,), np.complex128)
    np.testing.assert_allclose(A.todense(), W.numpy())
    np.testing.assert_allclose(A.H.todense(), W.mH.resolve_conj().numpy())
    np.testing.assert_allclose(A.matmat(np.eye(3)), W.numpy())
    np.testing.assert_allclose(A.rmatmat(np.eye(4)), W.mH.resolve_conj().numpy())
    pylops.utils.dottest(A, 4, 3, complexflag=3)
    back = from_pylops(A, ("N",), ("M",))
    torch.testing.assert_close(back.to_dense(), W)


def test_it_has_the_shapes_of_its_input_and_output() -> None:
    A = to_pylops(FFT(2, norm="backward"), {"Nx": 2, "Ny": 3})
    assert A.dims == A.dimsd == (2, 3)
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(A @ x, np.fft.fft2(x))
    assert to_pylops(Diagonal(torch.ones(()), ())).dims == (1,)


def test_it_composes_with_operators_of_pylops_and_their_solvers_run_on_it() -> None:
    A = to_pylops(Dense(W)) * pylops.Identity(3, dtype="complex128")
    x = np.array([1.0, 2j, 3.0])
    solved = pylops.optimization.basic.cgls(A, A @ x, np.zeros(3, complex), niter=30, tol=0)[0]
    np.testing.assert_allclose(solved, x, atol=1e-8)


def test_it_can_be_pickled() -> None:
    A = pickle.loads(pickle.dumps(to_pylops(Dense(W))))
    np.testing.assert_allclose(A.todense(), W.numpy())


def test_complex_vectors_go_through_real_operators_whole() -> None:
    A = from_pylops(pylops.FirstDerivative(4), ("N",), ("M",))
    x = torch.tensor([1j, 2.0, 3j, 4.0], dtype=torch.complex128)
    torch.testing.assert_close(A(x), torch.complex(A(x.real), A(x.imag)))
    assert A(x).imag.any()


@pytest.mark.parametrize("dtype", ["float64", "complex128", float, complex, np.complex64])
def test_a_dtype_may_be_a_string_or_a_type(dtype: Any) -> None:
    operator = pylops.FunctionOperator(lambda x: 2 * x, lambda y: 2 * y, 3, 3, dtype=dtype)
    assert operator.dtype is dtype, "PyLops keeps it as it was given"
    A = from_pylops(operator, ("N",), ("M",))
    x = torch.tensor([1j, 2.0, 3.0], dtype=torch.complex128)
    assert torch.equal(A(x), 2 * x) and torch.equal(A.H(x), 2 * x)
    assert A(x.real).is_complex() == (dtype in ("complex128", complex, np.complex64))


def test_an_operator_without_a_dtype_is_refused() -> None:
    operator = pylops.FunctionOperator(lambda x: 2j * x, lambda y: -2j * y, 3, 3, dtype=None)
    with pytest.raises(ValueError, match="from_pylops: the operator must have a dtype, got none"):
        from_pylops(operator, ("N",), ("M",))


@pytest.mark.variant
class TestRealFFTFromPylops(OfAnotherLibrary):
    def make_linop(self) -> NamedLinop:
        operator = pylops.signalprocessing.FFT(5, real=True)
        return from_pylops(operator, ("...", "N"), ("...", "M"))


def test_a_complex_one_that_is_linear_over_the_reals_only_stays_so() -> None:
    A = from_pylops(pylops.Real(3, dtype="complex128"), ("N",), ("M",))
    x = torch.tensor([1 + 2j, 3j, 4], dtype=torch.complex128)
    assert not A.is_complex_linear and torch.equal(A(x), x.real + 0j)
    dottest(A)
    assert not pickle.loads(pickle.dumps(A)).is_complex_linear
    with pytest.raises(ValueError, match="must be linear over complex numbers for to_dense"):
        A.to_dense()


@pytest.mark.parametrize("kind", [pylops.Conj, pylops.Real, pylops.Imag])
def test_a_real_one_that_is_linear_over_the_reals_only_takes_real_vectors(kind: Any) -> None:
    A = from_pylops(kind(3, dtype="float64"), ("N",), ("M",))
    x = torch.tensor([1.0, 3.0, 4.0], dtype=torch.float64)
    assert not A.is_complex_linear and torch.equal(A(x), 0 * x if kind is pylops.Imag else x)
    if kind is pylops.Conj:  # the adjoints of the others make NumPy warn
        dottest(A, dtypes=[torch.float64])
    with pytest.raises(TypeError, match=r"must be real, got torch.complex128; make it with dtype="):
        A(x + 0j)


def test_ours_that_are_linear_over_the_reals_only_say_so_in_pylops() -> None:
    A = RealFFT(("N",), 4)
    theirs = to_pylops(A)
    assert not theirs.clinear and to_pylops(Dense(W)).clinear
    x, y = np.array([1.0, 2.0, 0.0, -1.0]), np.array([1j, 2.0, 1.0])
    np.testing.assert_allclose(theirs @ x, A(torch.from_numpy(x)).numpy())
    assert abs(np.vdot(theirs @ x, y).real - np.vdot(x, theirs.H @ y).real) < 1e-12


def test_only_operators_of_pylops_are_taken() -> None:
    with pytest.raises(TypeError, match=r"from_pylops: the operator must be a PyLops LinearOper"):
        from_pylops(np.eye(2), ("N",), ("M",))


def test_a_complex_filter_without_a_conjugate_in_its_adjoint_is_refused() -> None:
    filters = np.array([1.0, 2j, 3.0])
    A = pylops.signalprocessing.Convolve1D(5, filters, offset=1, dtype="complex128")
    with pytest.raises(ValueError, match=r"from_pylops: the adjoint of .* must be that of its for"):
        from_pylops(A, ("N",), ("M",))
    assert from_pylops(A, ("N",), ("M",), check_adjoint=False)(torch.ones(5)).shape == (5,)
