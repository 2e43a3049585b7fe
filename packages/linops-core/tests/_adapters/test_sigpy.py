import pickle
from typing import Any

import numpy as np
import pytest
import torch

from linops_core import FFT, Diagonal, NamedLinop, from_sigpy, to_sigpy
from linops_core.testing import BaseNamedLinopTests, dottest

sigpy = pytest.importorskip("sigpy", reason="sigpy is not installed")
MAPS = torch.randn(2, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
X = np.linspace(0, 1, 6).reshape(2, 3) + 1j


def scanner() -> NamedLinop:
    return FFT(2, centered=True) @ Diagonal(MAPS, ("Nx", "Ny"))


def sigpy_scanner() -> Any:
    return sigpy.linop.FFT((2, 3)) * sigpy.linop.Multiply((2, 3), MAPS.numpy())


class OfAnotherLibrary(BaseNamedLinopTests):
    # It computes on a CPU only.
    test_an_accelerator_gives_the_same_values = None  # type: ignore[assignment]

    def also_saved(self) -> None:
        return None


class TestFromSigpy(OfAnotherLibrary):
    def make_linop(self) -> NamedLinop:
        return from_sigpy(sigpy_scanner(), ("...", "Nx", "Ny"), ("...", "Kx", "Ky"))


@pytest.mark.variant
class TestRealFromSigpy(OfAnotherLibrary):
    def make_linop(self) -> NamedLinop:
        return from_sigpy(sigpy.linop.FiniteDifference((3,)), ("N",), ("D", "N1"))


def test_the_same_scanner_is_the_same_both_ways() -> None:
    there, here = to_sigpy(scanner()), sigpy_scanner()
    assert (there.ishape, there.oshape) == (here.ishape, here.oshape) == ([2, 3], [2, 3])
    for mine, own in ((there, here), (there.H, here.H), (there.N, here.N), (there.H.H, here)):
        np.testing.assert_allclose(mine(X), own(X), atol=1e-12)
    back = from_sigpy(there, ("Nx", "Ny"), ("Kx", "Ky"))
    x = torch.from_numpy(X)
    torch.testing.assert_close(back(x), scanner()(x))
    dottest(back)


def test_it_composes_with_operators_of_sigpy_and_their_solvers_run_on_it() -> None:
    A = to_sigpy(scanner()) * sigpy.linop.Identity((2, 3))
    solve = sigpy.app.LinearLeastSquares(A, A(X), max_iter=30, show_pbar=False)
    np.testing.assert_allclose(solve.run(), X, atol=1e-8)


def test_it_can_be_pickled() -> None:
    A = pickle.loads(pickle.dumps(to_sigpy(scanner())))
    np.testing.assert_allclose(A(X), sigpy_scanner()(X))


def test_only_operators_of_sigpy_are_taken() -> None:
    with pytest.raises(TypeError, match=r"from_sigpy: the operator must be a sigpy Linop, got"):
        from_sigpy(np.eye(2), ("N",), ("M",))


def test_names_must_fit_its_shapes() -> None:
    with pytest.raises(ValueError, match=r"one name for each of the sizes \(2, 3\)"):
        from_sigpy(sigpy_scanner(), ("N",), ("Kx", "Ky"))


def test_one_that_is_linear_over_the_reals_only_is_refused() -> None:
    base: Any = sigpy.linop.Linop

    class RealPart(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__([3], [3])

        def _apply(self, x: Any) -> Any:
            return x.real

    with pytest.raises(ValueError, match=r"from_sigpy: .* linear over complex .*RealPart"):
        from_sigpy(RealPart(), ("N",), ("M",))


def test_an_inverse_in_the_place_of_the_adjoint_is_refused() -> None:
    W = sigpy.linop.Wavelet((13,), wave_name="bior2.2")
    with pytest.raises(ValueError, match=r"from_sigpy: the adjoint of .* must be that of its forw"):
        from_sigpy(W, ("N",), ("M",))
    assert from_sigpy(W, ("N",), ("M",), check_adjoint=False)(torch.ones(13)).ndim == 1
