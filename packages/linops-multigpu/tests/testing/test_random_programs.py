"""Programs of a few accesses on a few streams, against happens-before by brute force.

A program is right by construction: each access waits for the earlier ones on other streams that
it is in conflict with. Then one wait is dropped.
"""

import itertools
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_multigpu.testing import SCHEDULES, SimEvent, simulated

pytestmark = pytest.mark.usefixtures("simulation")

N = 5
N_STREAMS = 3


@dataclass(frozen=True)
class Access:
    stream: int
    start: int
    step: int
    writes: bool

    @property
    def elements(self) -> slice:
        return slice(self.start, None, self.step)

    def is_in_conflict(self, other: "Access") -> bool:
        mine, theirs = (set(range(N)[access.elements]) for access in (self, other))
        return (self.writes or other.writes) and bool(mine & theirs)


accesses = st.builds(
    Access,
    st.integers(0, N_STREAMS - 1),
    st.integers(0, N - 1),
    st.integers(1, 3),
    st.booleans(),
)
programs = st.lists(accesses, min_size=1, max_size=6)
Waits = set[tuple[int, int]]


def pairs(program: list[Access]) -> list[tuple[int, int]]:
    """Which earlier access each access is in conflict with."""
    numbers = itertools.combinations(range(len(program)), 2)
    return [(i, j) for i, j in numbers if program[i].is_in_conflict(program[j])]


def needed_waits(program: list[Access]) -> Waits:
    return {(i, j) for i, j in pairs(program) if program[i].stream != program[j].stream}


def is_ordered(program: list[Access], waits: Waits) -> bool:
    """Whether all conflicts are ordered, by the transitive closure of what orders two accesses."""
    numbers = range(len(program))
    before = {
        (i, j)
        for i, j in itertools.combinations(numbers, 2)
        if program[i].stream == program[j].stream or (i, j) in waits
    }
    for middle, first, last in itertools.product(numbers, repeat=3):
        if (first, middle) in before and (middle, last) in before:
            before.add((first, last))
    return set(pairs(program)) <= before


def races(program: list[Access], waits: Waits, schedule: str, seed: int) -> list[str]:
    """Run it, and return what the checker found; the values must be right if that is nothing."""
    expected, values = torch.ones(N, dtype=torch.float64), []
    with simulated(1, schedule=schedule, seed=seed, check=False) as world:
        streams = [world.new_stream("sim:0") for _ in range(N_STREAMS)]
        x = torch.ones(N, dtype=torch.float64, device="sim:0")
        copies = [torch.empty_like(x) for _ in program]
        start = world.current_stream("sim:0").record_event()
        for stream in streams:
            stream.wait_event(start)
        done: list[SimEvent] = []
        for j, access in enumerate(program):
            stream = streams[access.stream]
            for i in range(j):
                if (i, j) in waits:
                    stream.wait_event(done[i])
            with world.using(stream):
                if access.writes:
                    x[access.elements].mul_(2).add_(j)
                    expected[access.elements] = expected[access.elements] * 2 + j
                else:
                    copies[j][access.elements] = x[access.elements]
                    values.append((j, access.elements, expected[access.elements].clone()))
            done.append(stream.record_event())
        world.synchronize()
        result = world.races
        if not result:
            assert torch.equal(x.cpu(), expected)
            for j, elements, value in values:
                assert torch.equal(copies[j][elements].cpu(), value)
        del x, copies
        assert world.allocated_nbytes("sim:0") == 0
    return result


schedules = st.sampled_from(SCHEDULES)
seeds = st.integers(0, 99)


@given(programs, schedules, seeds)
def test_programs_that_wait_for_every_conflict_are_clean(
    program: list[Access], schedule: str, seed: int
) -> None:
    waits = needed_waits(program)
    assert is_ordered(program, waits)
    assert races(program, waits, schedule, seed) == []


@given(programs.filter(needed_waits), schedules, seeds, st.data())
def test_a_wait_that_is_dropped_is_missed_if_nothing_else_orders_the_conflict(
    program: list[Access], schedule: str, seed: int, data: st.DataObject
) -> None:
    waits = needed_waits(program)
    waits -= {data.draw(st.sampled_from(sorted(waits)))}
    assert bool(races(program, waits, schedule, seed)) != is_ordered(program, waits)


@given(programs, st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))), schedules, seeds)
def test_any_waits_are_judged_as_by_brute_force(
    program: list[Access], waits: Waits, schedule: str, seed: int
) -> None:
    waits = {(i, j) for i, j in waits if i < j < len(program)}
    assert bool(races(program, waits, schedule, seed)) != is_ordered(program, waits)
