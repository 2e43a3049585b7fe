"""A stand-in for SCICO, in single precision; ``witnesses`` has SCICO itself."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from linops_core import RealPart, from_scico, to_scico
from linops_core.testing import dottest

np = pytest.importorskip("numpy")
MATRIX = np.random.default_rng(0).standard_normal((4, 6))


class LinearOperator:
    def __init__(self, matrix: Any, *shapes: Any, takes_real_parts: bool = False) -> None:
        self.matrix, self.takes_real_parts = matrix, takes_real_parts
        self.input_shape, self.output_shape = shapes
        self.input_dtype = self.output_dtype = matrix.dtype

    def __call__(self, x: Any) -> Any:
        assert x.dtype == self.matrix.dtype
        y = self.matrix @ (x.real if self.takes_real_parts else x).reshape(-1)
        return y.reshape(self.output_shape)

    @property
    def H(self) -> LinearOperator:
        return LinearOperator(self.matrix.conj().T, self.output_shape, self.input_shape)


@pytest.fixture(autouse=True, scope="module")
def stand_in() -> Any:
    modules: dict[str, Any] = {name: ModuleType(name) for name in ("scico", "scico.linop")}
    modules["scico.linop"].LinearOperator = LinearOperator
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        yield


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_the_result_has_the_precision_of_the_input(dtype: str) -> None:
    source: Any = LinearOperator(
        (MATRIX * (1 if dtype == "float32" else 1j)).astype(dtype), (2, 3), (4,)
    )
    A = from_scico(source, ("...", "Nx", "Ny"), ("...", "M"))
    x = torch.arange(12.0, dtype=torch.float64).view(2, 2, 3)
    np.testing.assert_allclose(A(x).numpy(), x.flatten(1).numpy() @ source.matrix.T, rtol=1e-5)
    assert A(x).dtype == (torch.float64 if dtype == "float32" else torch.complex128)
    dottest(A, dtypes=[torch.float32, torch.complex64])
    assert A.name == "LinearOperator"


def test_what_is_refused() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match="from_scico: the operator must be a LinearOperator, got"):
        from_scico(wrong, ("N",), ("M",))
    blocks: Any = LinearOperator(MATRIX, (6,), ((2,), (2,)))
    with pytest.raises(
        ValueError, match="from_scico: the operator must have one input and one out"
    ):
        from_scico(blocks, ("N",), ("M",))
    real: Any = LinearOperator(MATRIX.astype(complex), (6,), (4,), takes_real_parts=True)
    with pytest.raises(ValueError, match="from_scico: the operator must be linear over complex"):
        from_scico(real, ("N",), ("M",))


def test_an_operator_for_scico_must_have_a_matrix() -> None:
    with pytest.raises(ValueError, match="complex numbers for to_scico"):
        to_scico(RealPart(("N",)), {"N": 3})
