import math
from collections.abc import Mapping

import pytest
import torch

from linops_core import DCT, Diagonal, Identity, NamedLinop
from linops_core.testing import BaseNamedLinopTests


class TestDCT(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return DCT(("Nx", "Ny"), ("Nx", "C", "Ny"), ("Kx", "Ky"))

    def sizes(self) -> Mapping[str, int]:
        return {"Nx": 3, "C": 2, "Ny": 4, "Kx": 3, "Ky": 4}


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_a_cosine_becomes_a_point(n: int) -> None:
    k = n // 2
    x = torch.cos(math.pi * (2 * torch.arange(n, dtype=torch.float64) + 1) * k / (2 * n))
    y = DCT(("N",))(torch.stack([x, 2 * x]))
    expected = torch.zeros(2, n, dtype=torch.float64)
    expected[:, k] = torch.tensor([1.0, 2.0]) * (math.sqrt(n / 2) if k else math.sqrt(n))
    torch.testing.assert_close(y, expected)


def test_the_adjoint_is_the_inverse() -> None:
    A = DCT(("N",), to=("K",))
    x = torch.randn(2, 7, dtype=torch.complex128)
    torch.testing.assert_close(A.H(A(x)), x)
    torch.testing.assert_close(A(A.H(x)), x)
    assert isinstance(A.N, Identity) and isinstance(A.H.N, Identity) and A.is_complex_linear
    assert A.conj() is A and A(torch.zeros(0, 7)).shape == (0, 7)
    assert A(torch.tensor([[1, 1]])).dtype is torch.get_default_dtype()


def test_it_acts_on_a_dimension_wherever_it_stands() -> None:
    A = DCT(("N",), ("N", "C")) @ Diagonal(torch.ones(3, 2), ("N", "C"))
    assert A.oshape == ("N", "C")
    torch.testing.assert_close(A(torch.ones(3, 2))[0], torch.full((2,), math.sqrt(3)))


def test_dimensions_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="DCT: dims must be different named dimensions of the in"):
        DCT(("N",), ("M",))
    assert DCT(("N",)).why_opaque("N") == "a cosine transform mixes all of its grid"
