"""Batched operators on simulated devices: right under any schedule, no race, nothing left behind.

Shapes: C coils, M rows, N columns, K samples, Nx a grid.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from linops_core import FFT, Dense, NamedLinop, Sampling
from linops_multigpu import BatchSpec, create_batched_linop
from linops_multigpu.testing import SCHEDULES, World, simulated

pytestmark = pytest.mark.usefixtures("simulation")

under_each_schedule = pytest.mark.parametrize("schedule", SCHEDULES)


@contextmanager
def machine(schedule: str = "newest", seed: int = 0, memory: int | None = None) -> Iterator[World]:
    """Three devices, of which the first does not reach the last; nothing may be left on them."""
    with simulated(3, schedule=schedule, seed=seed, memory=memory) as world:
        world.cut_link("sim:0", "sim:2")
        yield world
        gc.collect()
        assert [world.leaked_nbytes(device) for device in world.devices] == [0, 0, 0]


def sense() -> NamedLinop:
    maps = torch.rand(4, 6, dtype=torch.complex128)
    S = Dense(maps, ("C", "Nx"), ("Nx",), ("C", "Nx"))
    return Sampling([torch.tensor([0, 2, 5])], [6]) @ FFT(1, ("C",)) @ S


@under_each_schedule
@pytest.mark.parametrize("base", ["cpu", "sim:0"])
@pytest.mark.parametrize("devices", [["cpu", "sim:1"], ["sim:0", "cpu", "sim:2"], ["sim:2"]])
def test_tiles_work_on_the_base_device_and_on_the_host_too(
    base: str, devices: list[str], schedule: str
) -> None:
    A = sense()
    x = torch.rand(6, dtype=torch.complex128)
    with machine(schedule):
        B = create_batched_linop(A, BatchSpec({"C": 1, "K": 2}, devices, base))
        for batched, whole, vector in ((B, A, x), (B.H, A.H, A(x)), (B.N, A.N, x)):
            there = vector.clone().to(base)
            y = batched(there)
            there.zero_()
            torch.testing.assert_close(y.cpu(), whole(vector))
        del B, batched, there, y
