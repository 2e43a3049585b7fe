from collections.abc import Mapping

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import FFT, NamedLinop, Normal, RealFFT
from linops_core.testing import BaseNamedLinopTests


class TestRealFFT(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return RealFFT(("Nx", "Ny"), 4, centered=True, shape=("Ny", "C", "Nx"), to=("Kx", "Ky"))

    def sizes(self) -> Mapping[str, int]:
        return {"Nx": 3, "C": 2, "Kx": 3}


def test_half_the_spectrum_of_a_point() -> None:
    A = RealFFT(("N",), 4, norm="backward")
    y = A(torch.tensor([0.0, 1.0, 0.0, 0.0]))
    torch.testing.assert_close(y, torch.tensor([1, -1j, -1]))
    # Each k once: 1/4 of the full spectrum's sum would count k = 1 twice.
    torch.testing.assert_close(A.H(y), torch.tensor([0.0, 3.0, 0.0, 1.0]))
    assert (A.sizes("input"), A.sizes("output")) == ((None, 4), (None, 3))
    assert not A.is_complex_linear


@given(st.integers(1, 6), st.integers(1, 3), st.sampled_from(["ortho", "backward", "forward"]))
def test_it_is_the_first_half_of_the_transform_of_the_real_part(n: int, m: int, norm: str) -> None:
    A = RealFFT(("M", "N"), n, norm, to=("L", "K"))
    x = torch.randn(2, m, n, dtype=torch.complex128)
    F = FFT(2, norm=norm)
    torch.testing.assert_close(A(x), F(x.real)[..., : n // 2 + 1])
    y = torch.randn(2, m, n // 2 + 1, dtype=torch.complex128)
    padded = torch.nn.functional.pad(y, (0, n - n // 2 - 1))
    torch.testing.assert_close(A.H(y), F.H(padded).real)
    assert isinstance(A.N, Normal)
    torch.testing.assert_close(A.N(x), A.H(A(x)))
    torch.testing.assert_close(A.H.N(y), A(A.H(y)))


def test_an_empty_batch_stays_one() -> None:
    A = RealFFT(("N",), 5)
    assert A(torch.zeros(0, 5)).shape == (0, 3) and A.H(torch.zeros(0, 3)).shape == (0, 5)
    assert A.N(torch.zeros(0, 5)).shape == (0, 5)
    assert A(torch.tensor([1, 0, 0, 0, 0])).is_complex()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"RealFFT: norm must be one of .*, got 'none'"):
        RealFFT(("N",), 4, "none")
    for size in (0, 2.5):
        with pytest.raises(ValueError, match="RealFFT: size must be a positive integer, got"):
            RealFFT(("N",), size)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="N must have size 4, got 5"):
        RealFFT(("N",), 4)(torch.ones(5))
    with pytest.raises(ValueError, match="must have size 3, got 4"):
        RealFFT(("N",), 4).H(torch.ones(4))
    assert RealFFT(("N",), 4).why_opaque("N") == "a Fourier transform mixes all of its grid"
