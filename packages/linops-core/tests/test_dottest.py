from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import (
    FFT,
    Dense,
    Diagonal,
    NamedLinop,
    Scalar,
    SliceableLinop,
    SplitError,
    Zero,
)
from linops_core.testing import AdjointError, dottest, inner, is_adjoint
from nameddim import NamedDimension, NamedShape

W = torch.tensor([[1.0, 2j, 0.0], [0.0, 1.0, 1.0]], dtype=torch.complex128)


class Off(Dense):
    """A matrix whose adjoint is off by a factor."""

    factor: complex = 1

    @staticmethod
    def adj_fn(linop: Any, y: Tensor) -> Tensor:
        return complex(linop.factor) * Dense.adj_fn(linop, y)


@pytest.mark.parametrize("linop", [Dense(W), Dense(W).H, Dense(W).N, Scalar(2j), FFT(2)])
def test_an_adjoint_passes(linop: NamedLinop) -> None:
    sizes = {"Nx": 3, "Ny": 2} if "Nx" in linop.dims else None
    dottest(linop, sizes)


def test_weights_that_are_trained_are_no_obstacle() -> None:
    dottest(Dense(torch.nn.Parameter(W)))


@pytest.mark.parametrize(
    ("factor", "text"),
    [(2, "2"), (-1, "-1"), (0.25, "0.25"), (1j, r"\(.*\+1j\)"), (1.001, "1.001"), (0, "0")],
)
def test_the_factor_is_told_by_which_an_adjoint_is_off(factor: complex, text: str) -> None:
    A = Off(W)
    A.factor = factor
    with pytest.raises(
        AdjointError, match=rf"^Off \(N\) -> \(M\): the adjoint must .*, got {text} times the adj"
    ):
        dottest(A)


def test_what_is_no_multiple_is_said_to_be_none() -> None:
    class Transposed(Dense):
        adj_fn = staticmethod(lambda linop, y: linop.weight.mT @ y.to(linop.weight.dtype))

    with pytest.raises(AdjointError, match=r"got something that is not a multiple of the adjoint"):
        dottest(Transposed(W))


def test_an_adjoint_of_another_shape_is_told() -> None:
    class Short(NamedLinop):  # which does not know its sizes, and so not what it returns
        fn = staticmethod(lambda linop, x: W @ x.to(W.dtype))
        adj_fn = staticmethod(lambda linop, y: (W.mH @ y.to(W.dtype))[:-1])

    with pytest.raises(AdjointError, match=r"must return the shape of the input \(3,\), got \(2,"):
        dottest(Short(NamedShape(("N",), ("M",))), {"N": 3})


def test_a_missing_adjoint_is_told() -> None:
    class OneWay(NamedLinop):
        fn = staticmethod(lambda linop, x: x)

    with pytest.raises(NotImplementedError, match=r"there is no adjoint"):
        dottest(OneWay(NamedShape(("N",))), {"N": 2})


def test_single_precision_has_a_tolerance_of_its_own() -> None:
    A = Diagonal(torch.randn(50), ("N",))
    dottest(A, dtypes=[torch.float32, torch.complex64])
    B = Off(W.to(torch.complex64))
    B.factor = 1 + 1e-5
    dottest(B, dtypes=[torch.float32])
    with pytest.raises(AdjointError, match=r"got 1.00001 times the adjoint"):
        dottest(B, dtypes=[torch.float32], rtol=3e-6)


def test_zero_passes_the_dot_test() -> None:
    dottest(Zero(("N",), ("M",), sizes={"N": 2, "M": 3}))


def test_no_trials_and_seeds_that_are_no_integers_are_refused() -> None:
    A = Off(W)
    with pytest.raises(ValueError, match=r"dottest: trials must be at least 1, got 0"):
        dottest(A, trials=0)
    with pytest.raises(TypeError, match=r"dottest: seed must be an integer, got 0\.5"):
        dottest(A, seed=0.5)  # type: ignore[arg-type]


def test_dtypes_without_real_numbers_are_refused() -> None:
    dtypes: Any
    for dtypes in ([], [torch.int64], [torch.float64, torch.bool]):
        with pytest.raises(ValueError, match="dottest: dtypes must be one or more floating"):
            dottest(Dense(W), dtypes=dtypes)
    whole: Any
    for whole in (torch.tensor([1, 2]), [1.0, 2.0]):
        with pytest.raises(TypeError, match=r"inner: y must be .*, got"):
            inner(torch.ones(2), whole)


def test_sizes_that_nobody_knows_must_be_given() -> None:
    with pytest.raises(ValueError, match=r"the size of Nx must be known to the operator or given"):
        dottest(FFT(1))


KINDS = st.sampled_from([torch.float32, torch.float64, torch.complex64, torch.complex128])


@given(KINDS, KINDS, st.integers(0, 2**16))
def test_the_inner_product_conjugates_the_first(a: torch.dtype, b: torch.dtype, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, dtype=a, generator=generator)
    y = torch.randn(2, 3, dtype=b, generator=generator)
    result = inner(x, y)
    assert result.dtype == torch.promote_types(a, b) and result.ndim == 0
    torch.testing.assert_close(result, (x.conj() * y).sum())
    torch.testing.assert_close(inner(y, x), result.conj())


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


def test_what_is_no_operator_is_refused() -> None:
    with pytest.raises(TypeError, match=r"dottest: A must be a NamedLinop, got .*SimpleLinop"):
        dottest(torch.relu)  # type: ignore[arg-type]


class Difference(SliceableLinop):
    """x_n - x_(n-1), which does not say that it needs neighbours."""

    takes_any_batch = True
    fn = staticmethod(lambda linop, x: x - x.roll(1, -1))
    adj_fn = staticmethod(lambda linop, y: y - y.roll(-1, -1))


class SaysSo(Difference):
    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        return "it needs neighbours" if dim == self.ishape[-1] else None


@pytest.mark.parametrize("shape", [("N",), ("C", "N"), ("...", "N")])
def test_tiles_that_do_not_make_up_the_whole_are_told(shape: tuple[str, ...]) -> None:
    like = torch.randn(2, 4) if len(shape) > 1 else torch.randn(2)
    with pytest.raises(SplitError, match=r"^Difference .*: N must be the same .* why_opaque"):
        dottest(Difference(NamedShape(shape)), like=like)
    dottest(SaysSo(NamedShape(shape)), like=like)


def test_tiles_of_the_adjoint_and_along_summed_dimensions_are_checked() -> None:
    class Centred(Dense):  # subtracts the mean over the input, which a tile has another one of
        fn = staticmethod(lambda linop, x: Dense.fn(linop, x - x.mean(-1, keepdim=True)))

        @staticmethod
        def adj_fn(linop: Any, y: Tensor) -> Tensor:
            x = Dense.adj_fn(linop, y)
            return x - x.mean(-1, keepdim=True)

    class OnlyTheWhole(Diagonal):  # the adjoint of a tile is another one
        @staticmethod
        def adj_fn(linop: Any, y: Tensor) -> Tensor:
            return Diagonal.adj_fn(linop, y) * (1 if linop.size("N") == 4 else 2)

    with pytest.raises(SplitError, match=r"^Centred \(N\) -> \(M\): N must be the same in two"):
        dottest(Centred(W))
    with pytest.raises(SplitError, match=r"^OnlyTheWhole.*: N must be the same in two"):
        dottest(OnlyTheWhole(torch.ones(4), ("N",)))
