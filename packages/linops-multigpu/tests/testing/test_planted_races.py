"""Small programs with streams as one writes them, and the same with one mistake each.

N is the length of the vectors.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from linops_multigpu.testing import SCHEDULES, RaceError, World, simulated

pytestmark = pytest.mark.usefixtures("simulation")

N = 4
Program = Callable[[World, str], Tensor]


def round_trip(world: World, mistake: str) -> Tensor:
    """Send to another device, double and return, all on streams of their own."""
    base = world.current_stream("sim:0")
    out, compute, back = (world.new_stream(device) for device in ("sim:0", "sim:1", "sim:1"))
    arrive, home = world.new_stream("sim:1"), world.new_stream("sim:0")
    x = torch.arange(float(N), device="sim:0")
    result = torch.empty(N, device="sim:0")
    if mistake != "no wait for the start":
        out.wait_stream(base)
        home.wait_stream(base)
    with world.using(out), world.using(arrive):
        moved = x.to("sim:1", non_blocking=True)
    compute.wait_stream(arrive)
    with world.using(compute):
        doubled = 2 * moved
    world.record_use(moved, compute)
    if mistake != "return before the result is there":
        back.wait_stream(arrive if mistake == "a swapped stream" else compute)
    with world.using(back), world.using(home):
        result.copy_(doubled, non_blocking=True)
    if mistake != "no record of a use":
        world.record_use(doubled, back)
    world.record_use(x, out)
    del x, moved, doubled
    if mistake != "no final join":
        base.wait_stream(home)
    y = result + 0
    world.record_use(result, home)
    return y


def gathered(world: World, mistake: str) -> Tensor:
    """Let two devices write to the halves of one tensor."""
    base = world.current_stream("sim:0")
    result = torch.zeros(N, device="sim:0")
    streams = [world.new_stream("sim:0") for _ in range(2)]
    start = base.record_event()
    for position, (stream, device) in enumerate(zip(streams, ("sim:1", "sim:2"), strict=True)):
        stream.wait_event(start)
        part = 2 * torch.arange(2.0 * position, 2.0 * position + 2, device=device)
        first = 1 if mistake == "tiles that overlap" and position else 2 * position
        with world.using(stream):
            result[first : first + 2].copy_(part, non_blocking=True)
    for stream in streams:
        base.wait_stream(stream)
    return result + 0


def through_pinned_memory(world: World, mistake: str) -> Tensor:
    """Send from pinned memory, compute, and return to pinned memory."""
    staged, landed = (world.empty_pinned(torch.empty(N)) for _ in range(2))
    staged.copy_(torch.arange(float(N)))
    x = staged.to("sim:0", non_blocking=True)
    sent = world.current_stream("sim:0").record_event()
    if mistake != "a source that is written too early":
        sent.synchronize()
    staged.zero_()
    doubled = 2 * x
    landed.copy_(doubled, non_blocking=True)
    if mistake != "a result that is read too early":
        world.current_stream("sim:0").synchronize()
    return landed + 0


def with_an_event(world: World, mistake: str) -> Tensor:
    """Let another stream of the same device wait for an event."""
    side, event = world.new_stream("sim:0"), world.new_event()
    base = world.current_stream("sim:0")
    x = torch.arange(float(N), device="sim:0")
    if mistake == "a wait before the record":
        side.wait_event(event)
        event.record(base)
    else:
        event.record(base)
        side.wait_event(event)
    with world.using(side):
        y = 2 * x
    if mistake == "memory that is freed too early":
        del x
    base.wait_stream(side)
    return y + 0 if mistake == "a use that is not recorded" else _joined(world, y, base)


def _joined(world: World, y: Tensor, stream: object) -> Tensor:
    result = y + 0
    world.synchronize()
    return result


MISTAKES = [
    (round_trip, "no wait for the start"),
    (round_trip, "a swapped stream"),
    (round_trip, "return before the result is there"),
    (round_trip, "no record of a use"),
    (round_trip, "no final join"),
    (gathered, "tiles that overlap"),
    (through_pinned_memory, "a source that is written too early"),
    (through_pinned_memory, "a result that is read too early"),
    (with_an_event, "a wait before the record"),
    (with_an_event, "memory that is freed too early"),
    (with_an_event, "a use that is not recorded"),
]
under_each_schedule = pytest.mark.parametrize("schedule", SCHEDULES)


@under_each_schedule
@pytest.mark.parametrize(
    "program",
    [round_trip, gathered, through_pinned_memory, with_an_event],
    ids=lambda program: program.__name__,
)
def test_a_correct_program_has_no_race_and_the_right_result(
    program: Program, schedule: str
) -> None:
    with simulated(3, schedule=schedule) as world:
        y = program(world, "").cpu()
    assert torch.equal(y, 2 * torch.arange(float(N)))


@under_each_schedule
@pytest.mark.parametrize(
    ("program", "mistake"), MISTAKES, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_mistake_is_caught(program: Program, mistake: str, schedule: str) -> None:
    with simulated(3, schedule=schedule, check=False) as world:
        program(world, mistake)
    with pytest.raises(RaceError, match=r"race\(s\):\n"):
        world.check()
