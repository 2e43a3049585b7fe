import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from linops_core._adapters._foreign import _by_key, multiplied
from linops_core._adapters._scipy import MatrixProduct

MATRIX = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])


@pytest.mark.parametrize("factor", [1.0, 1j])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_rows_are_multiplied_in_the_precision_of_the_input(
    factor: complex, dtype: torch.dtype
) -> None:
    foreign = MatrixProduct(factor * MATRIX)
    x, y = torch.randn(4, 3, dtype=dtype), torch.randn(4, 2, dtype=dtype)
    matrix = torch.from_numpy(factor * MATRIX).to(torch.complex128)
    for v, adjoint, expected in ((x, False, matrix), (y, True, matrix.mH)):
        found = multiplied(v, foreign.key, adjoint)
        assert found.dtype == foreign.like_result(v, adjoint).dtype
        assert found.dtype.is_complex == (dtype.is_complex or factor == 1j)
        torch.testing.assert_close(
            found.to(torch.complex128), v.to(torch.complex128) @ expected.mT, atol=1e-5, rtol=1e-5
        )


def test_real_matrices_are_never_handed_complex_vectors_nor_complex_ones_real_vectors() -> None:
    seen: list[Any] = []

    class Seen(MatrixProduct):
        def forward(self, X: Any) -> Any:
            seen.append(X.dtype)
            return super().forward(X)

    for factor in (1.0, 1j):
        foreign = Seen(factor * MATRIX)
        for dtype in (torch.float64, torch.complex128):
            multiplied(torch.ones(1, 3, dtype=dtype), foreign.key, False)
    assert seen == [np.float64, np.float64, np.complex128, np.complex128]


def test_an_empty_batch_is_not_handed_over() -> None:
    foreign = MatrixProduct(MATRIX)
    assert multiplied(torch.empty(0, 3), foreign.key, False).shape == (0, 2)


def test_copies_and_pickles_have_keys_of_their_own() -> None:
    foreign = MatrixProduct(MATRIX)
    for other in (copy.deepcopy(foreign), pickle.loads(pickle.dumps(foreign))):
        assert other.key != foreign.key
        assert multiplied(torch.ones(1, 3), other.key, False).tolist() == [[3, 2]]
    assert copy.deepcopy(foreign).matrix is not foreign.matrix


def test_a_matrix_is_freed_with_the_last_reference() -> None:
    foreign = MatrixProduct(MATRIX)
    key = foreign.key
    assert key in _by_key
    del foreign
    gc.collect()
    assert key not in _by_key
