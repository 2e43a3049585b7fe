"""Solvers that draw vectors know their shape from sizes, or from a tensor like them."""

import pytest
import torch

from linops_core import FFT
from linops_solvers import Space, estimate_diagonal, estimate_trace, operator_norm, svd


@pytest.mark.parametrize("systems", [(-1,), (2,), (0, 5)])
def test_axes_of_systems_that_vectors_do_not_have_are_refused(systems: tuple[int, ...]) -> None:
    x, space = torch.ones(2, 3), Space(systems=systems)
    for function, count in ((Space.norm, 1), (Space.inner, 2), (Space.unit, 1)):
        with pytest.raises(ValueError, match=r"systems must be axes of the vectors, .* \(2, 3\)"):
            function(space, *[x] * count)


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
