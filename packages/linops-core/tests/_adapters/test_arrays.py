import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor, nn

from linops_core import FFT, Add, Dense, Diagonal, Identity, NamedLinop, RealForm, Sampling, Scalar
from linops_core._adapters._arrays import ArrayFunctions, as_array, as_tensor
from linops_core.testing.strategies import Known, trees
from nameddim import NamedShape

W = torch.tensor([[1.0, 2j, 0.0], [0.0, 1.0, 1.0]], dtype=torch.complex128)


def dense(weight: Tensor = W) -> Dense:
    return Dense(weight, ("M", "N"), ("...", "N"), ("...", "M"))


@given(trees())
def test_all_products_are_those_of_the_matrix(known: Known) -> None:
    A, sizes = known.linop, known.spaces.sizes
    if not known.matrix.is_complex():
        A = RealForm(A)
    functions = ArrayFunctions(A, sizes, torch.complex128)
    matrix = known.matrix.to(torch.complex128).resolve_conj().numpy()
    assert functions.shape == matrix.shape
    assert functions.dtype == np.complex128
    rng = np.random.default_rng(0)
    X, Y = (rng.normal(size=(n, 3)) + 1j * rng.normal(size=(n, 3)) for n in matrix.shape[::-1])
    np.testing.assert_allclose(functions.matvec(X[:, 0]), matrix @ X[:, 0], atol=1e-9)
    np.testing.assert_allclose(functions.matmat(X), matrix @ X, atol=1e-9)
    np.testing.assert_allclose(functions.rmatvec(Y[:, :1]), matrix.conj().T @ Y[:, 0], atol=1e-9)
    np.testing.assert_allclose(functions.rmatmat(Y), matrix.conj().T @ Y, atol=1e-9)


def test_a_batch_goes_through_in_one_call() -> None:
    calls: list[torch.Size] = []

    class Counted(Dense):
        @staticmethod
        def fn(linop: Any, x: Tensor) -> Tensor:
            calls.append(x.shape)
            return Dense.fn(linop, x)

    A = Counted(W, ("M", "N"), ("N", "..."), ("M", "..."))
    functions = ArrayFunctions(A)
    calls.clear()
    np.testing.assert_allclose(functions.matmat(np.eye(3)), W.numpy())
    assert calls == [(3, 3)]
    calls.clear()
    np.testing.assert_allclose(ArrayFunctions(Counted(W)).matmat(np.eye(3)), W.numpy())
    assert calls[1:] == [(3,)] * 3
    assert functions.matmat(np.empty((3, 0))).shape == (2, 0)


def test_what_may_mix_a_batch_gets_one_column_at_a_time() -> None:
    class Flip(NamedLinop):
        fn = staticmethod(lambda linop, x: x.flip(0))
        adj_fn = fn

    functions = ArrayFunctions(Flip(NamedShape(("...",))), {"...": 3})
    np.testing.assert_array_equal(functions.matmat(np.eye(3)), np.eye(3)[::-1])


@pytest.mark.parametrize(
    ("linop", "dtype", "expected"),
    [
        (dense(W.real), None, np.float64),
        (dense(W.real.float()), None, np.float32),
        (dense(W.to(torch.complex64)), None, np.complex64),
        (dense(W.real), torch.complex64, np.complex128),  # weights are not cast
        (FFT(1), None, np.complex128),
        (FFT(1), torch.float32, np.complex64),
        (Scalar(2.0, ("N",)), None, np.float64),
        (Scalar(2.0, ("N",)), torch.complex64, np.complex64),
        (Sampling([torch.tensor([0, 2])], [3]), None, np.float64),
    ],
)
def test_the_dtype_is_that_of_the_entries(
    linop: NamedLinop, dtype: torch.dtype | None, expected: type
) -> None:
    functions = ArrayFunctions(linop, {"N": 3, "Nx": 3}, dtype)
    assert functions.dtype == expected
    assert functions.matvec(np.ones(3)).dtype in (expected, np.ones(1, expected).real.dtype)


def test_vectors_are_cast_to_the_precision_of_the_operator_and_stay_complex() -> None:
    functions = ArrayFunctions(Identity(("N",)), {"N": 2}, torch.float32)
    assert functions.matvec(np.ones(2)).dtype == np.float32
    assert functions.matvec(np.ones(2) * 1j).dtype == np.complex64
    assert functions.matvec(np.arange(2)).dtype == np.float32


def test_a_result_shares_no_memory_with_the_vector() -> None:
    x = np.ones(3)
    for linop in (Identity(("N",)), FFT(1, ()).N):
        functions = ArrayFunctions(linop, {"N": 3, "Nx": 3})
        for y in (functions.matvec(x), functions.matmat(x[:, None])):
            y += 1
    assert x.tolist() == [1, 1, 1]


def test_an_array_is_taken_without_a_copy_where_that_is_possible() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for view in (x, x.T, x[:, 1:]):
        assert as_tensor(view).data_ptr() == view.ctypes.data
    frozen = x.copy()
    frozen.setflags(write=False)
    column = np.zeros(3, [("value", "f8"), ("flag", "i1")])["value"]
    for array in (x[::-1], frozen, x.astype(">f8"), column):
        tensor = as_tensor(array)
        assert tensor.tolist() == array.tolist()
        assert tensor.data_ptr() != array.ctypes.data


def test_a_tensor_is_given_without_a_copy_where_that_is_possible() -> None:
    x, y = torch.ones(2), torch.tensor([1j, 2.0])
    assert as_array(y, x).ctypes.data == y.data_ptr()
    assert as_array(y.conj(), x).tolist() == [-1j, 2]
    assert as_array(y[1:], y).ctypes.data != y[1:].data_ptr()


def test_weights_are_read_in_every_call_and_may_be_trained() -> None:
    weight = nn.Parameter(torch.ones(2))
    functions = ArrayFunctions(Diagonal(weight, ("N",)))
    assert functions.matvec(np.ones(2)).tolist() == [1, 1]
    with torch.no_grad():
        weight.fill_(3)
    assert functions.rmatvec(np.ones(2)).tolist() == [3, 3]


def test_arrays_in_the_shape_of_input_and_output() -> None:
    A = Dense(torch.ones(2, 3, 4), ("M", "A", "B"), ("A", "B"), ("M",))
    functions = ArrayFunctions(A)
    assert (functions.olengths, functions.ilengths) == ((2,), (3, 4))
    assert functions.apply(np.ones((3, 4))).tolist() == [12, 12]
    assert functions.adjoint().apply(np.ones(2)).shape == (3, 4)
    assert functions.adjoint().shape == (12, 2)
    assert functions.normal().apply(np.ones((3, 4))).tolist() == [[24] * 4] * 3


def test_it_can_be_pickled() -> None:
    functions = pickle.loads(pickle.dumps(ArrayFunctions(dense())))
    np.testing.assert_allclose(functions.matmat(np.eye(3)), W.numpy())


def test_what_an_ellipsis_stands_for_can_be_given() -> None:
    assert ArrayFunctions(FFT(1), {"Nx": 3}).shape == (3, 3)
    functions = ArrayFunctions(FFT(1, norm="backward"), {"Nx": 3, "...": 2})
    assert functions.shape == (6, 6)
    np.testing.assert_allclose(
        functions.matmat(np.eye(6)), np.kron(np.eye(2), np.fft.fft(np.eye(3))), atol=1e-12
    )


def test_sizes_that_nobody_knows_must_be_given() -> None:
    with pytest.raises(ValueError, match=r"the size of Nx must be known to the operator or given"):
        ArrayFunctions(FFT(1))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bfloat16, torch.float16])
def test_the_dtype_must_be_one_in_which_both_compute(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=r"the dtype of NumPy vectors must be one of .*, got torch"):
        ArrayFunctions(FFT(1), {"Nx": 2}, dtype)


def test_weights_on_several_devices_need_a_device() -> None:
    A, B = Diagonal(torch.ones(2), ("N",)), Diagonal(torch.ones(2), ("N",)).to("meta")
    with pytest.raises(ValueError, match=r"device must be given .* got \['cpu', 'meta'\]"):
        ArrayFunctions(Add(A, B))
