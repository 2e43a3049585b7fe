"""Solvers that draw vectors know their shape from sizes, or from a tensor like them."""

import pytest
import torch

from linops_core import FFT
from linops_solvers import estimate_diagonal, estimate_trace, operator_norm, svd


def test_every_function_takes_sizes_or_a_tensor_like_the_input() -> None:
    A = FFT(1, norm="backward")
    like = torch.empty(4, dtype=torch.complex64)
    for given in ({"sizes": {"Nx": 4}}, {"like": like}):
        assert float(operator_norm(A, **given)) == pytest.approx(2, rel=1e-4)
        assert svd(A, 1, **given).S.tolist() == pytest.approx([2], rel=1e-4)
        trace = estimate_trace(A.N, 4, **given).value
        assert complex(trace) == pytest.approx(16, rel=1e-4)
        assert estimate_diagonal(A.N, 2, **given).value.shape == (4,)
    assert svd(A, 1, like=like).V.dtype is torch.complex64
    for solve in (operator_norm, estimate_trace):
        with pytest.raises(ValueError, match=r"must be given alone, got \['like', 'sizes'\]"):
            solve(A, like=like, sizes={"Nx": 4})
