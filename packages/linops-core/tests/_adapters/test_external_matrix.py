import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from linops_core._adapters._external_matrix import ExternalMatrix, _by_key, multiplied
from linops_core._adapters._scipy import stored_matrix

MATRIX = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])


@pytest.mark.parametrize("factor", [1.0, 1j])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_rows_are_multiplied_in_the_precision_of_the_input(
    factor: complex, dtype: torch.dtype
) -> None:
    matrix = stored_matrix(factor * MATRIX)
    x, y = torch.randn(4, 3, dtype=dtype), torch.randn(4, 2, dtype=dtype)
    dense = torch.from_numpy(factor * MATRIX).to(torch.complex128)
    for v, adjoint, expected in ((x, False, dense), (y, True, dense.mH)):
        result = multiplied(v, matrix.key, adjoint)
        assert result.dtype == matrix.like_result(v, adjoint).dtype
        assert result.dtype.is_complex == (dtype.is_complex or factor == 1j)
        torch.testing.assert_close(
            result.to(torch.complex128), v.to(torch.complex128) @ expected.mT, atol=1e-5, rtol=1e-5
        )


def test_real_matrices_are_never_handed_complex_vectors_nor_complex_ones_real_vectors() -> None:
    seen: list[Any] = []

    def product(A: Any, X: Any) -> Any:
        seen.append(X.dtype)
        return X @ A.T

    for factor in (1.0, 1j):
        A = factor * MATRIX
        matrix = ExternalMatrix("NumPy", A, A.shape, factor == 1j, product, product)
        for dtype in (torch.float64, torch.complex128):
            multiplied(torch.ones(1, 3, dtype=dtype), matrix.key, False)
    assert seen == [np.float64, np.float64, np.complex128, np.complex128]


def test_an_empty_batch_is_not_handed_over() -> None:
    matrix = stored_matrix(MATRIX)
    assert multiplied(torch.empty(0, 3), matrix.key, False).shape == (0, 2)


def test_copies_and_pickles_have_keys_of_their_own() -> None:
    matrix = stored_matrix(MATRIX)
    for other in (copy.deepcopy(matrix), pickle.loads(pickle.dumps(matrix))):
        assert other.key != matrix.key
        assert multiplied(torch.ones(1, 3), other.key, False).tolist() == [[3, 2]]
    assert copy.deepcopy(matrix).operator is not matrix.operator


def test_a_matrix_is_freed_with_the_last_reference() -> None:
    matrix = stored_matrix(MATRIX)
    key = matrix.key
    assert key in _by_key
    del matrix
    gc.collect()
    assert key not in _by_key
