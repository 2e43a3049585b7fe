"""A stand-in for ODL, with weighted spaces; ``witnesses`` has ODL itself."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from linops_core import FFT, Dense, NamedLinop, RealPart, from_odl, to_odl
from linops_core.testing import BaseNamedLinopTests, dottest

np = pytest.importorskip("numpy")
MATRIX = np.random.default_rng(0).standard_normal((4, 6))


class Space(SimpleNamespace):
    def element(self, x: Any) -> Any:
        return SimpleNamespace(asarray=lambda: np.asarray(x, self.dtype).reshape(self.shape))


class Operator:
    def __init__(self, domain: Space, range: Space, linear: bool = True) -> None:
        self.domain, self.range, self.is_linear = domain, range, linear

    def __call__(self, x: Any) -> Any:
        return self._call(x)  # type: ignore[attr-defined]


class Matrix(Operator):
    def __init__(self, matrix: Any, domain: Space, range: Space, adjoint: Any = None) -> None:
        super().__init__(domain, range)
        self.matrix, self._adjoint = matrix, adjoint

    def _call(self, x: Any) -> Any:
        return self.range.element(self.matrix @ x.asarray().reshape(-1))

    @property
    def adjoint(self) -> Matrix:
        matrix = self.matrix.conj().T / 3 if self._adjoint is None else self._adjoint
        return Matrix(matrix, self.range, self.domain)


@pytest.fixture(autouse=True, scope="module")
def stand_in() -> Any:
    library: Any = ModuleType("odl")
    library.Operator = Operator
    library.rn = library.cn = lambda shape, dtype: Space(shape=shape, dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "odl", library)
        yield


def source(is_complex: bool = False, **options: Any) -> Any:
    dtype = np.dtype("complex128" if is_complex else "float64")
    matrix = MATRIX * (1 + 2j) if is_complex else MATRIX
    spaces = [Space(shape=shape, dtype=dtype) for shape in ((2, 3), (4,))]
    return Matrix(matrix, *spaces, **options)


class TestFromOdl(BaseNamedLinopTests):
    # It computes on a CPU only.
    test_an_accelerator_gives_the_same_values = None  # type: ignore[assignment]

    def also_saved(self) -> None:
        return None

    def make_linop(self) -> NamedLinop:
        return from_odl(source(), ("...", "Nx", "Ny"), ("...", "M"))


@pytest.mark.parametrize("is_complex", [False, True])
def test_the_adjoint_is_that_of_sums_without_weights(is_complex: bool) -> None:
    A = from_odl(source(is_complex), ("...", "Nx", "Ny"), ("...", "M"))
    x = torch.arange(12.0, dtype=torch.float64).view(2, 2, 3)
    expected = x.flatten(1).numpy() @ source(is_complex).matrix.T
    np.testing.assert_allclose(A(x).numpy(), expected)
    dottest(A)
    assert A.name == "Matrix" and from_odl(source(), ("N", "K"), ("M",), "Mine").name == "Mine"


def test_an_operator_that_is_zero_has_an_adjoint_of_zeros() -> None:
    spaces = [Space(shape=shape, dtype=np.dtype("float64")) for shape in ((2, 3), (4,))]
    A = from_odl(Matrix(0 * MATRIX, *spaces), ("M", "N"), ("K",))
    assert A.H(torch.ones(4)).tolist() == [[0.0] * 3] * 2


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_an_adjoint_that_is_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="from_odl: the adjoint of the operator must be a multipl"):
        from_odl(source(adjoint=0 * MATRIX.T), ("M", "N"), ("K",))


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match=r"from_odl: the operator must be an odl\.Operator, got"):
        from_odl(3, ("N",), ("M",))
    inverse = np.linalg.pinv(MATRIX)
    with pytest.raises(ValueError, match="from_odl: the adjoint of the operator must be a multipl"):
        from_odl(source(adjoint=inverse), ("Nx", "Ny"), ("M",))
    affine = source()
    affine.is_linear = False
    with pytest.raises(ValueError, match="from_odl: the operator must be linear, got"):
        from_odl(affine, ("Nx", "Ny"), ("M",))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
def test_an_operator_for_odl(dtype: torch.dtype) -> None:
    A: NamedLinop = Dense(
        torch.from_numpy(MATRIX[:, :3]).to(dtype), ("M", "Kx"), ("...", "Kx"), ("...", "M")
    )
    A = A @ FFT(1) if dtype.is_complex else A
    there = to_odl(A, {"Nx": 3})
    B = from_odl(there, ("...", "N"), ("...", "M"))
    x = torch.randn(2, 3, dtype=dtype, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(B(x), A(x))
    assert there.domain.dtype == there.range.dtype == x.numpy().dtype
    dottest(B, dtypes=[dtype])
    with pytest.raises(ValueError, match="to_odl"):
        to_odl(RealPart(("N",)), {"N": 3})
