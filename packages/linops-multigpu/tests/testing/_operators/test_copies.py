"""Who waits for a copy, on which stream it runs, and what may go wrong on the way."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from linops_multigpu.testing import SCHEDULES, World, simulated

pytestmark = pytest.mark.usefixtures("simulation")
N = 4
under_each_schedule = pytest.mark.parametrize("schedule", SCHEDULES)


def counted(world: World) -> Tensor:
    """Values on a device that are there only later."""
    return torch.arange(float(N), device="sim:0")


@under_each_schedule
@pytest.mark.parametrize("non_blocking", [False, True])
def test_the_current_streams_of_both_devices_take_part(schedule: str, non_blocking: bool) -> None:
    with simulated(2, schedule=schedule) as world:
        x = counted(world)
        y = x.to("sim:1", non_blocking=non_blocking)
        x.zero_()
        y += 1
        assert torch.equal(y.cpu(), torch.arange(1.0, N + 1))


@under_each_schedule
def test_the_source_may_be_pageable_and_change_at_once(schedule: str) -> None:
    with simulated(1, schedule=schedule):
        x = torch.ones(N)
        y = x.to("sim:0", non_blocking=True)
        x.zero_()
        assert torch.equal(y.cpu(), torch.ones(N))


@under_each_schedule
def test_pageable_memory_has_the_values_when_a_copy_to_it_returns(schedule: str) -> None:
    with simulated(1, schedule=schedule) as world:
        y = torch.zeros(N)
        y.copy_(counted(world), non_blocking=True)
        assert torch.equal(y, torch.arange(float(N)))


@pytest.mark.parametrize("layout", ["dense", "one element of a matrix", "transposed", "gaps"])
def test_only_one_run_of_bytes_is_copied_while_the_host_goes_on(layout: str) -> None:
    views = {
        "dense": lambda x: x,
        "one element of a matrix": lambda x: x[1:2, 1:2],
        "transposed": lambda x: x.mT,
        "gaps": lambda x: x[:, ::2],
    }
    with simulated(1) as world:
        there = torch.ones(3, N, device="sim:0")
        pinned = views[layout](world.empty_pinned(there))
        world.synchronize()
        pinned.copy_(views[layout](there), non_blocking=True)
        stream = world.current_stream("sim:0")
        assert bool(stream.tasks) == (layout != "gaps")
        stream.synchronize()
        assert pinned.eq(1).all()


def test_a_device_packs_what_goes_to_pinned_memory_while_the_host_goes_on() -> None:
    with simulated(1, check=False) as world:
        there = torch.ones(3, N, device="sim:0")[:, ::2]
        pinned = world.empty_pinned(torch.empty(3, N // 2))
        world.synchronize()
        pinned.copy_(there, non_blocking=True)
        assert pinned.isnan().all() and len(world.races) == 1
        world.synchronize()
        assert pinned.eq(1).all()


@pytest.mark.parametrize("mistake", ["filled late", "emptied early"])
def test_pinned_memory_that_a_device_unpacks_may_be_read_at_once_or_later(mistake: str) -> None:
    with simulated(1, check=False) as world:
        there = torch.zeros(3, N, device="sim:0")[:, ::2]
        pinned = world.empty_pinned(torch.empty(3, N // 2))
        pinned.fill_(1)
        if mistake == "filled late":
            pinned.copy_(torch.ones(3, N // 2, device="sim:0"), non_blocking=True)
        there.copy_(pinned, non_blocking=True)
        if mistake == "emptied early":
            pinned.zero_()
        (race,) = world.races
        access = "read" if mistake == "filled late" else "write"
        assert race.startswith(f"cpu: the {access} of 24 bytes by the host")


def test_a_copy_to_the_host_that_nobody_waits_for_is_poison_and_a_race() -> None:
    with simulated(1, check=False) as world:
        y = counted(world).to("cpu", non_blocking=True)
        assert y.isnan().all()
        world.synchronize()
        assert torch.equal(y, torch.arange(float(N)))
        (race,) = world.races
        assert race.startswith("cpu: the read of 16 bytes by the host in aten.isnan.default (test_")


@pytest.mark.parametrize("layout", ["transposed", "strided", "cast", "conjugated"])
@pytest.mark.parametrize("way", [("sim:0", "sim:1"), ("sim:0", "cpu"), ("cpu", "sim:0")])
@pytest.mark.parametrize("is_cut", [False, True])
def test_values_arrive_in_any_layout(layout: str, way: tuple[str, str], is_cut: bool) -> None:
    source, destination = way
    x = torch.randn(3, N, dtype=torch.complex64)
    with simulated(2) as world:
        if is_cut:
            world.cut_link("sim:0", "sim:1")
        sent, place = x.to(source), torch.zeros(3, N, dtype=torch.complex64, device=destination)
        if layout == "transposed":
            sent, place, expected = sent.mT, place.mT, x.mT
        elif layout == "strided":
            sent, place, expected = sent[:, ::2], place[:, ::2], x[:, ::2]
        elif layout == "cast":
            place, expected = place.to(torch.complex128), x.to(torch.complex128)
        else:
            sent, expected = sent.conj(), x.conj()
        place.copy_(sent, non_blocking=True)
        world.synchronize()
        assert torch.equal(place.cpu(), expected)


def test_the_host_waits_for_a_copy_unless_told_otherwise() -> None:
    with simulated(1) as world:
        landed = counted(world).to("cpu", non_blocking=True)
        torch.ones(1).to("sim:0")
        assert torch.equal(landed, torch.arange(float(N)))


@pytest.mark.parametrize("find", [Tensor.item, lambda x: x.nonzero(), lambda x: x.equal(x + 1)])
def test_the_host_waits_for_values_that_it_must_know(find: Callable[[Tensor], object]) -> None:
    with simulated(1) as world:
        x = torch.ones(1, device="sim:0")
        landed = counted(world).to("cpu", non_blocking=True)
        find(x)
        assert torch.equal(landed, torch.arange(float(N)))


@pytest.mark.parametrize("is_new", [False, True])
def test_a_stream_sends_what_it_has_received_itself(is_new: bool) -> None:
    with simulated(1) as world:
        staged = counted(world).to("cpu", non_blocking=True)
        if is_new:
            there = staged.to("sim:0", non_blocking=True)
        else:
            there = torch.empty(N, device="sim:0")
            there.copy_(staged, non_blocking=True)
        assert torch.equal(there.cpu(), torch.arange(float(N)))


@pytest.mark.parametrize("is_new", [False, True])
def test_the_host_must_have_what_it_sends(is_new: bool) -> None:
    with simulated(1, check=False) as world:
        staged, there = counted(world).to("cpu", non_blocking=True), counted(world)
        if is_new:
            staged.to("sim:0")
        else:
            there.copy_(staged)
        (race,) = world.races
        assert "the read of 16 bytes by the host in copy cpu -> sim:0" in race


@pytest.mark.parametrize(("is_cut", "n_extra"), [(False, 0), (True, 6)])
def test_only_bytes_in_one_run_go_by_way_of_the_host(is_cut: bool, n_extra: int) -> None:
    with simulated(2) as world:
        if is_cut:
            world.cut_link("sim:0", "sim:1")
        x, y = torch.ones(3, N, device="sim:0"), torch.ones(3, N, device="sim:1")
        y[:, ::2].copy_(x[:, ::2])
        for device in world.devices:
            assert world.peak_nbytes(device) == 4 * (3 * N + n_extra)


def test_a_smaller_source_is_repeated() -> None:
    with simulated(2):
        y = torch.zeros(2, N, device="sim:1")
        y.copy_(torch.arange(float(N), device="sim:0"))
        assert torch.equal(y.cpu(), torch.arange(float(N)).expand(2, N))


def test_shapes_need_no_copy() -> None:
    with simulated(1) as world:
        x = torch.ones(N, device="sim:0")
        world.moved.clear()
        assert x.to("meta").device.type == "meta"
        assert world.moved == []


def test_all_that_moved_is_counted() -> None:
    with simulated(2) as world:
        x = torch.ones(N, dtype=torch.float64).to("sim:1")
        x.clone()
        x[:2].to("sim:0")
        x[:1].cpu()
        assert world.moved == [("cpu", "sim:1", 32), ("sim:1", "sim:0", 16), ("sim:1", "cpu", 8)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128, torch.int64, torch.bool])
def test_a_corrupt_link_changes_values_in_silence(dtype: torch.dtype) -> None:
    with simulated(3) as world:
        world.corrupt_link("sim:0", "sim:1")
        x = torch.ones(2, N, dtype=dtype)
        there = x.to("sim:0")
        assert not torch.equal(there.to("sim:1").cpu(), x)
        assert torch.equal(there.to("sim:2").to("sim:1").cpu(), x)


def test_devices_reach_each_other_unless_their_link_is_cut() -> None:
    with simulated(2) as world:
        world.cut_link("sim:0", "sim:1")
        assert not world.can_reach("sim:0", "sim:1")
        assert world.can_reach("sim:1", "sim:0")
