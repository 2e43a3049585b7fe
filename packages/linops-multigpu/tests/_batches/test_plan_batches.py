"""Choosing batch sizes for operators that are batched, or work on several devices.

Shapes: C coils, Nx and Ny an image, Kx and Ky its spectrum.
"""

from collections.abc import Callable

import pytest
import torch

from linops_core import FFT, Dense, Diagonal, NamedLinop
from linops_multigpu import BatchSpec, DeviceReplica, ToDevice, create_batched_linop
from linops_multigpu.testing import simulated
from linops_split import batch_linop, plan_batches


def sense() -> NamedLinop:
    maps = torch.rand(8, 16, 16, dtype=torch.complex64)
    return FFT(2) @ Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))


@pytest.mark.parametrize("work", ["forward", "adjoint", "normal"])
def test_a_batched_operator_is_planned_as_the_tiles_that_it_has(work: str) -> None:
    A = sense()
    B = create_batched_linop(A, BatchSpec({"C": 2}))
    whole, tiled = plan_batches(A, 2**30, work=work), plan_batches(B, 2**30, work=work)
    assert not tiled.batch_sizes and tiled.peak < whole.peak
    smaller = plan_batches(B, tiled.peak - 1, work=work)
    assert smaller.peak < tiled.peak and smaller.batch_sizes
    x = torch.rand(16, 16, dtype=torch.complex64)
    C = batch_linop(B, smaller.batch_sizes)
    torch.testing.assert_close(C(x), A(x))
    torch.testing.assert_close(C.N(x), A.N(x))


@pytest.mark.usefixtures("simulation")
def test_the_plan_of_an_operator_is_carried_out_on_several_devices() -> None:
    A = sense()
    plan = plan_batches(A, plan_batches(A, 2**30).peak - 1)
    x = torch.rand(16, 16, dtype=torch.complex64)
    with simulated(2):
        B = create_batched_linop(A, BatchSpec(plan.batch_sizes, ["sim:0", "sim:1"]))
        torch.testing.assert_close(B(x), A(x))


def batched(devices: list[str]) -> NamedLinop:
    return create_batched_linop(sense(), BatchSpec({"C": 2}, devices, "cpu"))


SEVERAL: dict[str, Callable[[], NamedLinop]] = {
    "batched": lambda: batched(["meta", "cpu"]),
    "batched, all elsewhere": lambda: batched(["meta"]),
    "its adjoint": lambda: batched(["meta", "cpu"]).H,
    "its normal": lambda: batched(["meta", "cpu"]).N,
    "placed": lambda: DeviceReplica(sense(), "meta"),
    "moved before": lambda: sense().to("meta") @ ToDevice("cpu", "meta"),
    "moved after": lambda: ToDevice("cpu", "meta") @ sense(),
    "no weights": lambda: ToDevice("meta", "cpu", ("N",)) @ ToDevice("cpu", "meta", ("N",)),
}


@pytest.mark.parametrize("make", SEVERAL.values(), ids=SEVERAL)
@pytest.mark.parametrize("memory", [2**30, torch.device("cpu")])
def test_several_devices_are_refused(
    make: Callable[[], NamedLinop], memory: int | torch.device
) -> None:
    A = make()
    sizes = {str(dim): 16 for dim in A.ishape if A.size(dim) is None}
    wanted = "must be and work on one device.* got cpu, meta; plan the operator before you move"
    with pytest.raises(ValueError, match=wanted):
        plan_batches(A, memory, sizes=sizes, dtype=torch.complex64)


@pytest.mark.usefixtures("simulation")
def test_simulated_devices_are_refused_as_real_ones_are() -> None:
    with simulated(2):
        A = Diagonal(torch.rand(4), ("N",))
        B = create_batched_linop(A, BatchSpec({"N": 2}, ["sim:0", "sim:1"]))
        for C in (B, B.H, B.N):
            with pytest.raises(ValueError, match="got cpu, sim:0, sim:1; plan the operator before"):
                plan_batches(C, 2**30, dtype=torch.float32)
