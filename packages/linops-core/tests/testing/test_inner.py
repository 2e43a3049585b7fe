import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import Dense, Diagonal, Scalar
from linops_core.testing import inner, is_adjoint

KINDS = st.sampled_from([torch.float32, torch.float64, torch.complex64, torch.complex128])


@given(KINDS, KINDS, st.integers(0, 2**16))
def test_the_inner_product_conjugates_the_first(a: torch.dtype, b: torch.dtype, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, dtype=a, generator=generator)
    y = torch.randn(2, 3, dtype=b, generator=generator)
    found = inner(x, y)
    assert found.dtype == torch.promote_types(a, b) and found.ndim == 0
    torch.testing.assert_close(found, (x.conj() * y).sum())
    torch.testing.assert_close(inner(y, x), found.conj())


def test_nothing_is_broadcast() -> None:
    with pytest.raises(ValueError, match=r"inner: x and y must have one shape, got \(2,\) and"):
        inner(torch.ones(2), torch.ones(1, 2))


def test_an_adjoint_is_told_from_what_is_none() -> None:
    A = Dense(torch.tensor([[1.0, 2j], [0.0, 1.0]]))
    x, y = torch.tensor([1.0, 1j]), torch.tensor([1.0, 2.0])
    assert is_adjoint(A, x, y)
    assert is_adjoint(A.H, y, x)

    class Transposed(Dense):
        adj_fn = staticmethod(lambda linop, y: linop.weight.mT @ y.to(linop.weight.dtype))

    wrong = Transposed(A.weight)
    assert not is_adjoint(wrong, x, y)
    assert is_adjoint(wrong, x, y, atol=100)
    assert is_adjoint(wrong, x, y, rtol=10)


def test_orthogonal_vectors_and_zeros_are_no_obstacle() -> None:
    A = Diagonal(torch.tensor([1.0, 1.0]), ("N",))
    assert is_adjoint(A, torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
    assert is_adjoint(Scalar(0.0), torch.ones(2), torch.ones(2))
