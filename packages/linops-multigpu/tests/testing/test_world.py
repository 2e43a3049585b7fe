"""The machine as a whole: its devices, current streams, threads, and where it cannot be."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from linops_core import Dense
from linops_multigpu import BatchSpec, create_batched_linop
from linops_multigpu._devices import _streams
from linops_multigpu.testing import SCHEDULES, RaceError, World, _device, simulated

pytestmark = pytest.mark.usefixtures("simulation")
N = 4


def test_there_are_as_many_devices_as_wanted() -> None:
    with simulated(2) as world:
        assert world.devices == [torch.device("sim:0"), torch.device("sim:1")]
        assert torch.ones(1, device="sim").device == world.devices[0]
        with pytest.raises(RuntimeError, match="the device must be one of sim:0, sim:1, got sim:2"):
            torch.ones(1, device="sim:2")
        with pytest.raises(RuntimeError, match="the device must be one of sim:0, sim:1, got cpu"):
            world.current_stream("cpu")


def test_there_is_an_accelerator_only_inside() -> None:
    with simulated(1):
        assert torch.accelerator.is_available()
    assert not torch.accelerator.is_available()
    with pytest.raises(RuntimeError, match=r"must be used inside `with simulated\(\)`, got none"):
        torch.ones(1, device="sim:0")


def test_one_machine_is_simulated_at_a_time() -> None:
    with simulated(1), pytest.raises(RuntimeError, match="one machine must end before the next"):
        simulated(1).__enter__()
    with simulated(2) as world:
        assert len(world.devices) == 2


def test_an_error_ends_it_too() -> None:
    with pytest.raises(KeyError), simulated(1):
        raise KeyError
    with simulated(1):
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_devices": 0}, "n_devices must be a positive integer, got 0"),
        ({"n_devices": 2.0}, r"n_devices must be a positive integer, got 2\.0"),
        ({"memory": -1}, "memory must be None or an integer >= 0, got -1"),
        ({"memory": "1 GB"}, "memory must be None or an integer >= 0, got '1 GB'"),
    ],
)
def test_there_is_at_least_one_device_and_no_less_than_no_memory(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"simulated: {message}"):
        simulated(**arguments).__enter__()


def test_streams_and_events_are_of_one_machine() -> None:
    with simulated(1) as before:
        old_stream, old_event = before.new_stream("sim:0"), before.new_event()
        old_event.record(old_stream)
    with simulated(1) as world:
        stream, x = world.current_stream("sim:0"), torch.ones(N, device="sim:0")
        message = "must be of one machine, got one of another"
        with pytest.raises(ValueError, match=message):
            stream.wait_event(old_event)
        with pytest.raises(ValueError, match=message):
            world.new_event().record(old_stream)
        with pytest.raises(ValueError, match=message), world.using(old_stream):
            pass
        with pytest.raises(ValueError, match=message):
            world.record_use(x, old_stream)


def test_schedules_go_by_name() -> None:
    with pytest.raises(ValueError, match=r"schedule must be one of eager, .* got 'fastest'"):
        simulated(1, schedule="fastest").__enter__()


def test_a_race_is_an_error_at_the_end_unless_unwanted() -> None:
    def race(world: World) -> None:
        x = torch.ones(N, device="sim:0")
        with world.using(world.new_stream("sim:0")):
            x.add_(1)

    result = r"2 race\(s\):\nsim:0: the write of 16 bytes by stream 1"
    with pytest.raises(RaceError, match=result), simulated(1) as world:
        race(world)
    with simulated(1, check=False) as world:
        race(world)


@pytest.mark.parametrize(
    ("function", "name"),
    [(torch.fft.fft, "aten._fft_c2c.default"), (torch.Tensor.zero_, "aten.zero_.default")],
)
def test_a_race_names_the_operator_that_wrote(
    function: Callable[[torch.Tensor], torch.Tensor], name: str
) -> None:
    with simulated(1, check=False) as world:
        x = torch.ones(N, dtype=torch.complex64, device="sim:0")
        base, side = world.current_stream("sim:0"), world.new_stream("sim:0")
        side.wait_stream(base)
        with world.using(side):
            y = function(x)
        y.clone()
        assert f"must come after the write by {side.actor.name} in {name}" in world.races[0]
        world.synchronize()


def test_streams_that_wait_for_each_other_are_told() -> None:
    with simulated(1) as world:
        stream, event = world.new_stream("sim:0"), world.new_event()
        event.record(world.current_stream("sim:0"))
        assert event.point is not None
        event.point.done = False
        world.scheduler.streams.remove(world.current_stream("sim:0"))
        with pytest.raises(RuntimeError, match="some stream must be able to go on, got none"):
            stream.wait_event(event)
            stream.synchronize()
        stream.tasks.clear()


def test_the_current_stream_is_restored() -> None:
    with simulated(2) as world:
        base, first, second = (
            world.current_stream("sim:0"),
            world.new_stream("sim:0"),
            world.new_stream("sim:0"),
        )
        with world.using(first):
            with pytest.raises(KeyError), world.using(second):
                assert world.current_stream("sim:0") is second
                raise KeyError
            assert world.current_stream("sim:0") is first
            assert world.current_stream("sim:1") is not first
        assert world.current_stream("sim:0") is base
        assert repr(second) == "<stream 3 of sim:0>"


def test_the_backend_is_that_of_the_machine() -> None:
    with simulated(2) as world:
        there, elsewhere = world.devices
        backend = _streams.backend_of(there)
        stream = backend.new_stream(there)
        with backend.using(stream):
            assert backend.current_stream(there) is stream
            x = torch.ones(N, device=there)
        event = backend.new_event(there)
        event.record(stream)
        backend.current_stream(there).wait_event(event)
        y = x + 1
        backend.record_use(x, backend.current_stream(there))
        assert backend.can_reach(there, elsewhere)
        assert not backend.can_reach(there, torch.device("cpu"))
        pinned = backend.empty_pinned(y)
        assert world.is_pinned(pinned)
        assert not world.is_pinned(torch.ones(N))
        event.synchronize()
    with simulated(1):
        assert _streams.backend_of(there) is not backend


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_threads_have_current_streams_of_their_own(schedule: str) -> None:
    results: dict[int, torch.Tensor] = {}

    def work(number: int) -> None:
        with world.attached(), world.using(world.new_stream("sim:0")):
            x = torch.full((N,), float(number), device="sim:0", requires_grad=True)
            for _ in range(5):
                (gradient,) = torch.autograd.grad((x * x).sum(), x)
            results[number] = gradient.cpu()
            del x, gradient

    with simulated(1, schedule=schedule) as world:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert world.allocated_nbytes("sim:0") == 0
    for number, result in results.items():
        assert torch.equal(result, torch.full((N,), 2.0 * number))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_threads_may_share_an_operator_in_tiles(schedule: str) -> None:
    A = Dense(torch.randn(4, N, dtype=torch.complex128), ("M", "N"))
    inputs = torch.randn(3, N, dtype=torch.complex128)
    outputs: dict[int, torch.Tensor] = {}

    def work(number: int) -> None:
        with world.attached():
            outputs[number] = B(inputs[number])

    with simulated(2, schedule=schedule) as world:
        B = create_batched_linop(A, BatchSpec({"M": 1}, ["sim:0", "sim:1"] * 2, base_device="cpu"))
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(torch.allclose(outputs[number], A(inputs[number])) for number in range(3))


@settings(max_examples=10)
@given(st.sampled_from(SCHEDULES), st.integers(0, 99))
def test_an_operator_in_tiles_on_devices_has_no_race(schedule: str, seed: int) -> None:
    torch.manual_seed(0)
    A = Dense(torch.randn(4, N, dtype=torch.complex128), ("M", "N"))
    x = torch.randn(N, dtype=torch.complex128)
    with simulated(2, schedule=schedule, seed=seed) as world:
        spec = BatchSpec({"M": 2}, ["sim:0", "sim:1"])
        B = create_batched_linop(A, spec)
        assert torch.equal(B(x), A(x))
        assert torch.allclose(B.H(A(x)), A.H(A(x)))
        del B
        assert [world.allocated_nbytes(device) for device in world.devices] == [0, 0]


def test_another_accelerator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(check_available: bool) -> torch.device:
        return torch.device("cuda")

    monkeypatch.setattr(_device, "_libraries", [])
    monkeypatch.setattr(torch.accelerator, "current_accelerator", found)
    with pytest.raises(RuntimeError, match="no other accelerator in this process, got cuda"):
        simulated(1).__enter__()
