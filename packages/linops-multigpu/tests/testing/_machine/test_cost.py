"""Timelines of programs whose times are known by hand, in milliseconds as seconds."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_multigpu import Span, Timeline
from linops_multigpu.testing import SimStream, World, simulated

pytestmark = pytest.mark.usefixtures("simulation")

COPY, KERNEL = 1e-3, 2e-3


def pipeline(world: World, n_tiles: int, n_remotes: int) -> None:
    """Send tiles to other devices in turn, work there, return: copies on streams of their own."""
    base = torch.device("sim:0")
    remotes = world.devices[1 : n_remotes + 1]
    x = torch.zeros(n_tiles, 4, device=base)
    y = torch.empty_like(x)
    start = world.current_stream(base).record_event()
    ways = {remote: [world.new_stream(device) for device in _ends(remote)] for remote in remotes}
    for stream in (stream for streams in ways.values() for stream in streams):
        stream.wait_event(start)
    for number in range(n_tiles):
        remote = remotes[number % n_remotes]
        out, arrive, leave, home = ways[remote]
        compute = world.current_stream(remote)
        with world.using(out), world.using(arrive):
            tile = x[number].to(remote)
        compute.wait_stream(arrive)
        tile = _worked_on(world, tile, compute)
        leave.wait_stream(compute)
        with world.using(leave), world.using(home):
            y[number].copy_(tile)
        world.record_use(tile, leave)
    world.synchronize()


def _ends(remote: torch.device) -> list[str]:
    return ["sim:0", str(remote), str(remote), "sim:0"]


def _worked_on(world: World, tile: torch.Tensor, compute: SimStream) -> torch.Tensor:
    world.record_use(tile, compute)
    return tile + 1


@pytest.mark.parametrize(("n_remotes", "milliseconds"), [(1, 18), (2, 10), (3, 8)])
def test_eight_tiles_overlap_their_copies_with_work(n_remotes: int, milliseconds: int) -> None:
    with simulated(4) as world:
        world.set_cost(copy=COPY, kernel=lambda name, nbytes: KERNEL * ("add" in name))
        pipeline(world, 8, n_remotes)
        n_busiest = -(-8 // n_remotes)
        timeline = world.timeline()
        assert timeline.busy["compute of sim:1"] == max(timeline.busy.values())
        assert max(timeline.busy.values()) == pytest.approx(n_busiest * KERNEL)
        assert timeline.makespan == pytest.approx(milliseconds * 1e-3)


def test_a_stream_does_one_thing_after_the_other() -> None:
    with simulated(1) as world:
        x = torch.zeros(2, device="sim:0")
        world.set_cost(kernel=2.0)
        x.add_(1)
        x.mul_(2)
        add = Span("compute of sim:0", "aten.add.out", "", 0.0, 2.0)
        assert world.timeline().spans == (
            add,
            replace(add, kind="aten.mul.out", start=2.0, end=4.0),
        )


def test_the_costs_may_depend_on_name_and_bytes() -> None:
    with simulated(1) as world:
        world.set_cost(copy=lambda name, nbytes: nbytes, kernel=lambda name, nbytes: 1.0)
        torch.zeros(2, device="cpu").to("sim:0")
        # Eight bytes are read, and eight written.
        copy = Span("link cpu -> sim:0", "copy cpu -> sim:0", "", 0.0, 8.0)
        assert world.timeline() == Timeline((copy,))


def test_the_host_gives_nothing_while_it_waits() -> None:
    with simulated(2) as world:
        x, y = (torch.zeros(2, device=device) for device in world.devices)
        world.set_cost(kernel=1.0)
        x.add_(1)
        world.current_stream("sim:0").synchronize()
        y.add_(1)
        assert [span.start for span in world.timeline().spans] == [0.0, 1.0]
        world.set_cost(kernel=1.0)
        x.add_(1)
        y.add_(1)
        assert [span.start for span in world.timeline().spans] == [0.0, 0.0]


def test_what_was_recorded_before_the_costs_were_set_is_past() -> None:
    with simulated(1) as world:
        x, side = torch.zeros(2, device="sim:0"), world.new_stream("sim:0")
        event = world.current_stream("sim:0").record_event()
        world.set_cost(kernel=1.0)
        side.wait_event(event)
        with world.using(side):
            x.add_(1)
        assert [span.start for span in world.timeline().spans] == [0.0]
        world.synchronize()


def test_an_engine_goes_on_while_earlier_work_of_another_stream_waits() -> None:
    with simulated(2) as world:
        x, y, there = (torch.zeros(2, device=device) for device in ("sim:0", "sim:0", "sim:1"))
        side = world.new_stream("sim:0")
        world.synchronize()
        world.set_cost(kernel=lambda name, nbytes: 10.0 if "mul" in name else 1.0)
        there.mul_(2)
        side.wait_stream(world.current_stream("sim:1"))
        with world.using(side):
            x.add_(1)
        y.add_(1)
        starts = [
            span.start for span in world.timeline().spans if span.engine == "compute of sim:0"
        ]
        assert starts == [0.0, 10.0]
        world.synchronize()


def test_nothing_takes_no_time() -> None:
    with simulated(1) as world:
        assert world.timeline() == Timeline(()) and world.timeline().makespan == 0.0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=6))
def test_time_is_between_the_busiest_engine_and_all_work(steps: list[tuple[int, int]]) -> None:
    with simulated(2) as world:
        streams = [world.new_stream(device) for device in ("sim:0", "sim:0", "sim:1")]
        tensors = [torch.zeros(1, device=stream.device) for stream in streams]
        world.synchronize()
        world.set_cost(kernel=1.0)
        for awaited, position in steps:
            streams[position].wait_stream(streams[awaited])
            with world.using(streams[position]):
                tensors[position].add_(1)
        timeline = world.timeline()
        assert len(timeline.spans) == len(steps)
        assert max(timeline.busy.values(), default=0.0) <= timeline.makespan <= len(steps)
        for engine in timeline.busy:
            own = [span for span in timeline.spans if span.engine == engine]
            assert all(a.end <= b.start for a, b in itertools.pairwise(own))
        world.synchronize()
