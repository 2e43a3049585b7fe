"""Batched operators obey the laws of all operators.

Shapes: C coils, Nx image, Kx k-space.
"""

import pytest
import torch
from torch import nn

from linops_core import FFT, Dense, NamedLinop
from linops_core.testing import BaseNamedLinopTests
from linops_multigpu import BatchSpec, create_batched_linop


class TestSense(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        generator = torch.Generator().manual_seed(0)
        maps = nn.Parameter(torch.randn(3, 2, dtype=torch.complex128, generator=generator))
        S = Dense(maps, ("C", "Nx"), ("Nx",), ("C", "Nx"))
        return create_batched_linop(FFT(1, ("C",)) @ S, BatchSpec({"C": 2}))

    def check_moves(self, memory_aware: bool) -> None:
        """Check that the base device, which is chosen when it is made, remains."""
        with pytest.raises(ValueError, match="the input must be on cpu, got meta"):
            super().check_moves(memory_aware)

    def test_it_can_be_exported(self) -> None:
        A = self.make_linop()
        x = self.make_input(A)
        program = torch.export.export(A, (x,), strict=True)
        torch.testing.assert_close(program.module()(x), A(x))
