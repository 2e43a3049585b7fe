"""The laws that users inherit, for one instance of every operator of the first release."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

from linops_core import (
    FFT,
    Add,
    Chain,
    Concat,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Sampling,
    Scalar,
    Zero,
)
from linops_core.testing import BaseNamedLinopTests


def values(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


def matrix(n_rows: int, oname: str = "M", seed: int = 0) -> Dense:
    return Dense(nn.Parameter(values(n_rows, 3, seed=seed)), (oname, "N"), ("N",), (oname,))


@pytest.mark.compiled
class TestDiagonal(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Diagonal(values(2, 3), ("A", "B"))


@pytest.mark.variant
class TestDiagonalOfAnyBatch(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Diagonal(nn.Parameter(values(3).real), ("...", "B"))


class TestDense(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Dense(nn.Parameter(values(2, 3, 2)), ("C", "N", "B"), ("B", "N"), ("C", "B"))


@pytest.mark.variant
class TestRealDense(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Dense(values(2, 3).real.contiguous(), ("M", "N"), ("...", "N"), ("...", "M"))


class TestFFT(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return FFT(2, norm="backward", centered=True)

    def sizes(self) -> Mapping[str, int]:
        return {"Nx": 3, "Ny": 2, "Kx": 3, "Ky": 2}


@pytest.mark.variant
class TestOrthonormalFFT(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return FFT(1, ("C",))

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2, "Nx": 3, "Kx": 3}


class TestSampling(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Sampling([torch.tensor([0, 2, 2]), torch.tensor([1, 0, 0])], [3, 2])


class TestScalar(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Scalar(nn.Parameter(values()), ("N",))

    def sizes(self) -> Mapping[str, int]:
        return {"N": 3}


@pytest.mark.variant
class TestScalarOfANumber(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Scalar(2 - 1j)


class TestIdentity(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Identity(("A", "B"), ("A", "C"))

    def sizes(self) -> Mapping[str, int]:
        return {"A": 2, "B": 3, "C": 3}


class TestZero(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Zero(("A", "B"), ("A", "C"), sizes={"A": 2, "B": 3, "C": 1})


class TestChain(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Chain(Diagonal(nn.Parameter(values(3)), ("N",)), matrix(2), Scalar(2j))


class TestAdd(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Add(matrix(2), matrix(2, seed=1), Zero(("N",), ("M",), sizes={"N": 3, "M": 2}))


class TestBlockColumn(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Concat(matrix(2), matrix(1, seed=1), odim="M")


class TestBlockRow(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Concat(matrix(2).H, matrix(1, seed=1).H, idim="M")


class TestBlockDiagonal(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Concat(matrix(2), matrix(1, seed=1), idim="N", odim="M")


class TestSense(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        maps = nn.Parameter(values(2, 2, 2))
        S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
        mask = torch.tensor([[1, 0], [1, 1]])
        return Sampling.from_mask(mask) @ FFT(2, centered=True) @ S


def test_the_factory_must_be_overridden() -> None:
    with pytest.raises(NotImplementedError, match=r"must override make_linop"):
        BaseNamedLinopTests().make_linop()
