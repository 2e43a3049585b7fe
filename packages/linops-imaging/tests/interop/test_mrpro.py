"""A stand-in for mrpro; ``witnesses`` has mrpro itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from linops_core import Dense
from linops_core.testing import dottest
from linops_imaging import interop

MATRIX = torch.randn(4, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))


class LinearOperator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(MATRIX)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (x @ self.weight.mT,)

    def adjoint(self, y: Tensor) -> tuple[Tensor]:
        return (y @ self.weight.conj(),)


@pytest.fixture(autouse=True, scope="module")
def stand_in() -> Iterator[None]:
    modules: dict[str, Any] = {name: ModuleType(name) for name in ("mrpro", "mrpro.operators")}
    modules["mrpro.operators"].LinearOperator = LinearOperator
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        yield


def test_an_operator_of_mrpro() -> None:
    source: Any = LinearOperator()
    A = interop.from_mrpro(source, ("...", "N"), ("...", "M"))
    x = torch.ones(2, 3, dtype=torch.complex128)
    torch.testing.assert_close(A(x), x @ MATRIX.mT)
    dottest(A, like=x)
    assert A.name == "LinearOperator" and [*A.parameters()] == [source.weight]
    torch.autograd.backward(A(x).abs().square().sum())
    assert source.weight.grad is not None
    wrong: Any = 3
    with pytest.raises(TypeError, match="from_mrpro: the operator must be a LinearOperator, got"):
        interop.from_mrpro(wrong, ("N",), ("M",))


def test_an_operator_for_mrpro() -> None:
    A = Dense(nn.Parameter(MATRIX), ("M", "N"), ("...", "N"), ("...", "M"))
    there = interop.to_mrpro(A)
    assert isinstance(there, LinearOperator) and A.weight in {*there.parameters()}
    x = torch.ones(2, 3, dtype=torch.complex128)
    gram: Any = there.gram
    torch.testing.assert_close(gram(x)[0], there.adjoint(there(x)[0])[0])
    torch.testing.assert_close(interop.from_mrpro(there, ("...", "N"), ("...", "M"))(x), A(x))
    wrong: Any = 3
    with pytest.raises(TypeError, match="to_mrpro: the operator must be a NamedLinop, got"):
        interop.to_mrpro(wrong)
