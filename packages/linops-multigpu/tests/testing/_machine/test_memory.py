"""What the allocator of a simulated device gives, refuses, and gives again."""

import gc
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_multigpu.testing import SCHEDULES, simulated

pytestmark = pytest.mark.usefixtures("simulation")
N = 4
NBYTES = 4 * N


@given(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 8))
def test_allocated_and_peak_are_what_tensors_have(sizes: list[int], n_kept: int) -> None:
    with simulated(2) as world:
        tensors = [torch.empty(size, device="sim:1") for size in sizes]
        assert world.peak_nbytes("sim:1") == world.allocated_nbytes("sim:1") == 4 * sum(sizes)
        del tensors[n_kept:]
        assert world.allocated_nbytes("sim:1") == 4 * sum(sizes[:n_kept])
        assert world.peak_nbytes("sim:1") == 4 * sum(sizes)
        world.reset_peak()
        assert world.peak_nbytes("sim:1") == 4 * sum(sizes[:n_kept])
        assert world.peak_nbytes("sim:0") == 0


def test_memory_belongs_first_to_the_stream_that_allocated_it() -> None:
    with simulated(1, check=False) as world:
        x = torch.empty(N, device="sim:0")
        with world.using(world.new_stream("sim:0")):
            x.fill_(1)
        assert "must come after the write by stream 0 of sim:0 in allocation" in world.races[0]


def test_more_than_there_is_is_refused() -> None:
    with simulated(2, memory=2 * NBYTES) as world:
        x, y = torch.empty(N, device="sim:0"), torch.empty(N, device="sim:0")
        with pytest.raises(torch.OutOfMemoryError, match="sim:0 out of memory: tried to allocate"):
            torch.empty(1, device="sim:0")
        torch.empty(N, device="sim:1")
        del x
        # What is kept for the next tensor of the old size goes first.
        z = torch.empty(1, device="sim:0")
        assert world.allocated_nbytes("sim:0") == NBYTES + 4
        del y, z


def test_the_memory_that_is_freed_is_the_next_to_be_used() -> None:
    with simulated(1) as world:
        x = torch.zeros(N, device="sim:0")
        address = x.data_ptr()
        del x
        assert torch.empty(N, device="sim:0").data_ptr() == address
        with world.using(world.new_stream("sim:0")):
            assert torch.empty(N, device="sim:0").data_ptr() != address


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_memory_in_use_elsewhere_is_used_again_only_after_that(schedule: str) -> None:
    with simulated(1, schedule=schedule) as world:
        side, base = world.new_stream("sim:0"), world.current_stream("sim:0")
        x = torch.ones(N, device="sim:0")
        side.wait_stream(base)
        with world.using(side):
            y = 2 * x
        world.record_use(x, side)
        del x
        z = torch.zeros(N, device="sim:0")
        base.wait_stream(side)
        assert torch.equal((y + z).cpu(), torch.full((N,), 2.0))


@pytest.mark.parametrize("schedule", ["oldest", "alternating"])
def test_memory_that_is_used_too_early_has_other_values(schedule: str) -> None:
    with simulated(1, schedule=schedule, check=False) as world:
        side, base = world.new_stream("sim:0"), world.current_stream("sim:0")
        x = torch.ones(N, device="sim:0")
        side.wait_stream(base)
        with world.using(side):
            y = 2 * x
        del x
        torch.zeros(N, device="sim:0")
        base.wait_stream(side)
        assert not torch.equal(y.cpu(), torch.full((N,), 2.0))
        (race,) = world.races
        assert race.startswith("sim:0: the free of 16 bytes by stream 0 of sim:0 in free (test_mem")
        assert "must come after the read by stream 1 of sim:0 in aten.mul.out (test_mem" in race


def test_what_is_used_after_the_host_waited_may_be_freed() -> None:
    with simulated(1) as world:
        side = world.new_stream("sim:0")
        x = torch.ones(N, device="sim:0")
        side.wait_stream(world.current_stream("sim:0"))
        with world.using(side):
            y = 2 * x
        side.synchronize()
        del x
        assert torch.equal(y.cpu(), torch.full((N,), 2.0))


def test_memory_in_a_cycle_is_free_when_it_is_collected() -> None:
    with simulated(1) as world:
        cycle: list[object] = [torch.ones(N, device="sim:0")]
        cycle.append(cycle)
        del cycle
        gc.collect()
        assert world.allocated_nbytes("sim:0") == 0


def test_tensors_outlive_the_machine_but_cannot_be_used() -> None:
    with simulated(1):
        x = torch.ones(N, device="sim:0")
    with pytest.raises(RuntimeError, match="must be used inside `with simulated"):
        x + 1
    with simulated(1) as world:
        with pytest.raises(RuntimeError, match="must belong to the machine that is simulated now"):
            x + 1
        del x
        assert world.allocated_nbytes("sim:0") == 0


@pytest.mark.parametrize("offset", [-1, NBYTES])
def test_an_address_outside_of_all_memory_is_refused(offset: int) -> None:
    with simulated(1) as world:
        x = torch.ones(N, device="sim:0")
        memory = world.memory_of("sim:0")
        assert memory.block_at(x.data_ptr() + NBYTES - 1) is memory.block_at(x.data_ptr())
        with pytest.raises(RuntimeError, match="must belong to the machine that is simulated now"):
            memory.block_at(x.data_ptr() + offset)


def test_the_peak_stays_when_less_is_allocated_later() -> None:
    with simulated(1) as world:
        x = torch.ones(N, device="sim:0")
        del x
        torch.empty(1, device="sim:0")
        assert world.peak_nbytes("sim:0") == NBYTES


APART = {
    "imports take only what they need": """
import sys
import linops_multigpu
assert "linops_multigpu.testing" not in sys.modules
import linops_multigpu.testing
assert "hypothesis" not in sys.modules
""",
    "a tensor goes while an exception is on its way": """
import torch
from linops_multigpu.testing import simulated
with simulated(1) as world:
    y = torch.ones(4, device="sim:0")
    for _ in range(20):
        try:
            print(2 * y, [1][3])
        except IndexError:
            assert world.allocated_nbytes("sim:0") == 16
        else:
            raise AssertionError
""",
    "a tensor goes when there is no memory for the next": """
import torch
from linops_multigpu.testing import simulated
with simulated(1, memory=1000) as world:
    x = torch.ones(50, device="sim:0")
    for _ in range(20):
        try:
            (2 * x).repeat(2) + x.repeat(100)
        except torch.OutOfMemoryError:
            assert world.allocated_nbytes("sim:0") == 200
        else:
            raise AssertionError
""",
    "memory that goes with an exception is checked": """
import torch
from linops_multigpu.testing import simulated
with simulated(1, check=False) as world:
    side = world.new_stream("sim:0")

    def used_elsewhere(x):
        side.wait_stream(world.current_stream("sim:0"))
        with world.using(side):
            x.mul_(2)
        return x

    try:
        print(used_elsewhere(torch.ones(4, device="sim:0")), [1][3])
    except IndexError:
        pass
    assert world.allocated_nbytes("sim:0") == 0
    (race,) = world.races
    assert "free" in race, race
    assert "weakref" not in race, race
""",
}


def test_memory_goes_with_an_exception_and_imports_are_few() -> None:
    """One after the other, in a process of its own, which a crash would end instead of this one."""
    runs = [f"exec({program!r}, {{}})\nprint({what!r})" for what, program in APART.items()]
    done = subprocess.run(
        [sys.executable, "-u", "-c", "\n".join(runs)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [*APART], done.stderr
