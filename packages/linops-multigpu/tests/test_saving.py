"""Batched operators are read back from files without running code."""

import io

import pytest
import torch

from linops_core import FFT, Dense, Diagonal, NamedLinop, safe_globals
from linops_multigpu import BatchSpec, ToDevice, create_batched_linop
from linops_split import batch_linop

S = Dense(torch.randn(2, 3, 4), ("C", "Nz", "Nx"), ("Nz", "Nx"), ("C", "Nz", "Nx"))
W = FFT(1) @ S @ Diagonal(torch.randn(3, 4), ("Nz", "Nx"))


def loaded(linop: NamedLinop) -> NamedLinop:
    file = io.BytesIO()
    torch.save(linop, file)
    file.seek(0)
    with torch.serialization.safe_globals(safe_globals()):
        result = torch.load(file, weights_only=True)
    assert isinstance(result, NamedLinop)
    return result


@pytest.mark.parametrize(
    "linop",
    [
        batch_linop(W, {"C": 1}),
        batch_linop(W, {"C": 1}).H,
        batch_linop(W, {"C": 1}).N,
        create_batched_linop(W, BatchSpec({"C": 1})),
        create_batched_linop(W, BatchSpec({"C": 1, "Nz": 3}, ["cpu", "cpu"])),
        create_batched_linop(W, [BatchSpec({"C": 1}), BatchSpec({"Nz": 2})]).N,
        ToDevice("cpu", "cpu", ("N",)),
    ],
)
def test_batched_operators_are_read_back(linop: NamedLinop) -> None:
    x = torch.randn([linop.size(dim) or 3 for dim in linop.ishape], dtype=torch.complex64)
    torch.testing.assert_close(loaded(linop)(x), linop(x))
    torch.testing.assert_close(loaded(linop.H)(linop(x)), linop.H(linop(x)))
