"""Schedules differ in what they do first, and keep the order within each stream."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_multigpu.testing import SCHEDULES, simulated

pytestmark = pytest.mark.usefixtures("simulation")


def order_of_work(schedule: str, seed: int = 0) -> list[tuple[str, str]]:
    """Give two tasks to each of two streams; return what was done, and when each task was given."""
    done: list[tuple[str, str]] = []
    with simulated(1, schedule=schedule, seed=seed) as world:
        streams = {"a": world.new_stream("sim:0"), "b": world.new_stream("sim:0")}
        for name, stream in streams.items():
            for number in "12":
                with world.entered():
                    task = ("done", name + number)
                    world.launch(stream, name, lambda task=task: done.append(task))  # type: ignore[misc]  # of a default
                done.append(("given", name + number))
    return done


def work(events: list[tuple[str, str]]) -> list[str]:
    return [task for what, task in events if what == "done"]


def test_each_schedule_has_an_order_of_its_own() -> None:
    assert work(order_of_work("eager")) == ["a1", "a2", "b1", "b2"]
    assert work(order_of_work("oldest")) == ["a1", "a2", "b1", "b2"]
    assert work(order_of_work("newest")) == ["b1", "b2", "a1", "a2"]
    assert work(order_of_work("alternating")) == ["a1", "b1", "a2", "b2"]


def test_only_an_eager_stream_does_all_at_once() -> None:
    assert order_of_work("eager")[:2] == [("done", "a1"), ("given", "a1")]
    for lazy in ("oldest", "newest", "alternating"):
        assert [what for what, _ in order_of_work(lazy)[:4]] == ["given"] * 4


def test_random_schedules_take_every_order() -> None:
    orders = {tuple(work(order_of_work("random", seed))) for seed in range(400)}
    assert len(orders) == 6
    assert order_of_work("random", 3) == order_of_work("random", 3)


@given(st.sampled_from(SCHEDULES), st.integers(0, 99))
def test_a_stream_keeps_its_order(schedule: str, seed: int) -> None:
    order = work(order_of_work(schedule, seed))
    assert sorted(order) == ["a1", "a2", "b1", "b2"]
    assert order.index("a1") < order.index("a2")
    assert order.index("b1") < order.index("b2")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_wait_is_for_the_last_record_before_it(schedule: str) -> None:
    with simulated(1, schedule=schedule, check=False) as world:
        base, side = world.current_stream("sim:0"), world.new_stream("sim:0")
        event = world.new_event()
        x, y = torch.ones(2, 1, device="sim:0")
        event.record(base)
        side.wait_event(event)
        x.mul_(2)
        event.record(base)
        with world.using(side):
            y.add_(1)
            assert world.races == []
            x.add_(1)
        assert len(world.races) == 1
        side.wait_event(event)
        with world.using(side):
            y.add_(x)
        side.synchronize()
        assert len(world.races) == 1
        event.synchronize()


def test_an_event_that_was_not_recorded_is_past_for_the_host() -> None:
    with simulated(1) as world:
        world.new_event().synchronize()
