"""Transfers on simulated devices: no race under any schedule, and the values that were sent."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from linops_multigpu import ToDevice
from linops_multigpu._devices import _staging, _transfer
from linops_multigpu._devices._stream_pool import DeviceStreams, streams_on
from linops_multigpu._devices._transfer import issue, send
from linops_multigpu.testing import SCHEDULES, RaceError, World, simulated

pytestmark = pytest.mark.each_value

ENDS = [
    ("cpu", "sim:0"),
    ("sim:0", "cpu"),
    ("sim:0", "sim:1"),
    ("sim:0", "sim:2"),  # which sim:0 cannot reach
    ("sim:1", "sim:1"),
]
TO_DEVICES = [way for way in ENDS[:4] if way[1] != "cpu"]


@contextmanager
def machine(schedule: str, seed: int = 0, piece_nbytes: int = 64) -> Iterator[World]:
    """Three devices, of which the first does not reach the last; what is long goes in pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_staging, "PIECE_NBYTES", piece_nbytes)
        with simulated(3, schedule=schedule, seed=seed) as world:
            world.cut_link("sim:0", "sim:2")
            yield world


def ends(source: str, destination: str) -> tuple[DeviceStreams, DeviceStreams]:
    here, there = torch.device(source), torch.device(destination)
    return streams_on(here, peer=there), streams_on(there, peer=here)


@st.composite
def vectors(draw: st.DrawFn) -> Tensor:
    """Draw a tensor on the host: dense or not, with axes in any order, conjugate or not."""
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    dtype = draw(st.sampled_from([torch.complex128, torch.float64, torch.complex64, torch.int64]))
    numbers = torch.arange(1, 2 * torch.Size(shape).numel() + 1, dtype=torch.float64)
    x = numbers.to(dtype).reshape(*shape, 2)[..., 0]
    if dtype.is_complex:
        x = x * (1 + 2j)
    if draw(st.booleans()):
        x = x.contiguous()
    return x.permute(draw(st.permutations(range(x.ndim))))


def put(x: Tensor, device: str) -> Tensor:
    """Put a vector on a device with the strides that it has."""
    whole = torch.zeros(x.untyped_storage().nbytes() // x.itemsize, dtype=x.dtype)
    laid_out = whole.as_strided(x.shape, x.stride()) if x.numel() else torch.empty_like(x)
    laid_out.copy_(x)
    if device == "cpu":
        return laid_out
    there = whole.to(device)
    return there.as_strided(x.shape, x.stride()) if x.numel() else laid_out.to(device)


schedules = st.sampled_from(SCHEDULES)
seeds = st.integers(0, 9)


@given(vectors(), st.sampled_from(ENDS), st.booleans(), schedules, seeds)
def test_what_was_sent_arrives_and_may_be_changed_at_once(
    x: Tensor, way: tuple[str, str], conjugate: bool, schedule: str, seed: int
) -> None:
    wanted = x.conj() if conjugate else x
    with machine(schedule, seed):
        here = put(x, way[0])
        y = send(here.conj() if conjugate else here, *ends(*way))
        assert y.device == torch.device(way[1]) and y.dtype == x.dtype
        result = y.clone()
        if way[0] != way[1]:
            here.zero_()
        del here, y
        torch.empty(x.numel(), dtype=x.dtype, device=way[0]).fill_(7)
        assert torch.equal(result.cpu(), wanted)


@example(torch.ones(2, 1), ("sim:0", "sim:2"), False, "oldest", 0)
@given(vectors(), st.sampled_from(TO_DEVICES), st.booleans(), schedules, seeds)
def test_it_arrives_where_it_should_be(
    x: Tensor, way: tuple[str, str], conjugate: bool, schedule: str, seed: int
) -> None:
    wanted = x.conj() if conjugate else x
    with machine(schedule, seed):
        here = put(x, way[0])
        whole = torch.ones([2 * n for n in x.shape], dtype=x.dtype, device=way[1])
        into = whole[tuple(slice(n // 2, n // 2 + n) for n in x.shape)]
        into.add_(1)
        transfer = issue(here.conj() if conjugate else here, *ends(*way), into=into)
        assert transfer.receive() is into
        transfer.release()
        here.zero_()
        assert torch.equal(into.cpu(), wanted)
        rest = whole.sum().cpu() - into.sum().cpu()
        assert rest == whole.numel() - x.numel()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("way", ENDS[:4])
def test_many_at_a_time_reuse_the_memory(way: tuple[str, str], schedule: str) -> None:
    with machine(schedule) as world:
        total = torch.zeros(20, dtype=torch.float64, device=way[1])
        for k in range(6):
            x = torch.full((20,), float(k), dtype=torch.float64, device=way[0])
            y = send(x, *ends(*way))
            x.mul_(2)
            total += y
            del x, y
        assert torch.equal(total.cpu(), torch.full((20,), 15.0, dtype=torch.float64))
        del total
        gc.collect()
        assert all(world.allocated_nbytes(device) == 0 for device in world.devices)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("way", TO_DEVICES)
def test_transfers_are_received_later_in_any_order(way: tuple[str, str], schedule: str) -> None:
    with machine(schedule):
        here, there = ends(*way)
        vectors = [torch.full((10,), float(k), device=way[0]) for k in range(4)]
        start = here.backend.new_event(here.device)
        start.record(here.compute)
        output = torch.empty(4, 10, device=way[1])
        vacant = there.backend.new_event(there.device)
        vacant.record(there.compute)
        transfers = [
            issue(x, here, there, ready=start, into=place, vacant=vacant)
            for x, place in zip(vectors, output, strict=True)
        ]
        for transfer in reversed(transfers):
            transfer.receive()
            transfer.release()
        vectors.clear()
        assert torch.equal(output.cpu(), torch.arange(4.0)[:, None].expand(4, 10))


def test_only_the_bytes_of_the_vector_go_each_once() -> None:
    for way, hops in zip(ENDS, (1, 1, 1, 2, 0), strict=True):
        with machine("oldest", piece_nbytes=1 << 20) as world:
            x = torch.ones(10, dtype=torch.float64, device=way[0])
            streams = ends(*way)
            send(x, *streams)  # after which the way is known
            world.moved.clear()
            send(x, *streams)
            assert [nbytes for _, _, nbytes in world.moved] == [80] * hops


def test_devices_compute_while_they_copy() -> None:
    with machine("eager") as world:
        x = torch.ones(8, device="sim:0")
        send(x, *ends("sim:0", "sim:1"))
        world.set_cost(copy=1e-3, kernel=1e-3)
        sent = []
        for _ in range(5):
            sent.append(issue(x, *ends("sim:0", "sim:1")))
            sent[-1].receive().sin()
            x.sin()
        assert world.timeline().makespan <= 7e-3


def test_links_that_corrupt_are_found_out_and_not_used(caplog: pytest.LogCaptureFixture) -> None:
    with machine("oldest") as world:
        world.corrupt_link("sim:0", "sim:1")
        x = torch.arange(20.0, device="sim:0")
        for _ in range(2):
            assert torch.equal(send(x, *ends("sim:0", "sim:1")).cpu(), torch.arange(20.0))
        back = send(x.cpu().to("sim:1"), *ends("sim:1", "sim:0"))
        assert torch.equal(back.cpu(), torch.arange(20.0))
    assert [record.getMessage() for record in caplog.records] == [
        "transfers from sim:0 to sim:1 go through pinned host memory: "
        "a test transfer between them arrived corrupted"
    ]


# ToDevice, by hand.


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("far", ["sim:1", "sim:2"])
def test_moving_by_hand_is_as_if_it_happened_at_once(schedule: str, far: str) -> None:
    x = torch.rand(3, 4, dtype=torch.complex128)
    wanted = (2 * x).exp()
    with machine(schedule):
        there, across = ToDevice("cpu", "sim:0"), ToDevice("sim:0", far)
        here = x.clone()
        y = there(here)
        here.zero_()
        y.mul_(2)
        z = across(y)
        y.zero_()
        result = ToDevice(far, "cpu")(z.exp())
        torch.testing.assert_close(result, wanted)
        torch.testing.assert_close((across.H @ across)(there(x)).cpu(), x)
        torch.testing.assert_close(there.H(across.H(z)), 2 * x)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("far", ["sim:1", "sim:2", "cpu"])
def test_gradients_come_back_in_order(schedule: str, far: str) -> None:
    with machine(schedule):
        x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
        y = ToDevice("sim:0", far)(ToDevice("cpu", "sim:0")(x) ** 2).sin()
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        torch.testing.assert_close(gradient, 2 * x * (x**2).cos())
        (second,) = torch.autograd.grad(gradient.sum(), x)
        torch.testing.assert_close(second, (2 * (x**2).cos() - 4 * x**2 * (x**2).sin()).detach())


@pytest.mark.parametrize("far", ["sim:1", "sim:2", "cpu"])
def test_what_was_moved_may_be_changed_in_place(far: str) -> None:
    with machine("newest"):
        x = torch.rand(3, 4, dtype=torch.float64, device="sim:0", requires_grad=True)
        for vector in (x, x.T):
            y = ToDevice("sim:0", far)(vector)
            y.mul_(3)
            (gradient,) = torch.autograd.grad(y.sum(), x)
            assert torch.equal(gradient.cpu(), torch.full((3, 4), 3.0, dtype=torch.float64))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_given_streams_send_and_receive(schedule: str) -> None:
    with machine(schedule) as world:
        istream, ostream = world.new_stream("sim:0"), world.new_stream("sim:1")
        A = ToDevice("sim:0", "sim:1", None, istream, ostream)
        x = torch.rand(5).to("sim:0")
        before = x.cpu()
        clocks = dict(istream.actor.clock), dict(ostream.actor.clock)
        y = A(x)
        assert istream.actor.clock != clocks[0] and ostream.actor.clock != clocks[1]
        x.zero_()
        assert torch.equal(A.H(y).cpu(), before)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_streams_that_are_current_are_followed(schedule: str) -> None:
    with machine(schedule) as world:
        compute, other = world.new_stream("sim:0"), world.new_stream("sim:1")
        with world.using(compute), world.using(other):
            x = torch.rand(5).to("sim:0")
            before = x.cpu()
            y = ToDevice("sim:0", "sim:1")(x)
            x.zero_()
            del x
            assert torch.equal((2 * y).cpu(), 2 * before)
            del y


# Each bug is planted once, and must be seen under every schedule.


def use(module: Any, source: str, destination: str) -> None:
    """Use transfers as others do: change, drop and allocate as soon as that is allowed."""
    here, there = ends(source, destination)
    output = torch.zeros(3, 20, dtype=torch.float64, device=destination)
    for k in range(3):
        x = torch.full((20,), float(k), dtype=torch.float64, device=source)
        y = module.send(x, here, there)
        x.zero_()
        del x
        torch.ones(20, dtype=torch.float64, device=source).zero_()
        output[k].copy_(y)
        del y
        x = torch.full((20,), float(k), dtype=torch.float64, device=source)
        into = None if destination == "cpu" else output[k]
        transfer = module.issue(x, here, there, into=into)
        transfer.receive().mul_(2)
        transfer.release()
        x.zero_()
    output.sum().cpu()


def use_pinned(module: Any, source: str, destination: str) -> None:
    here, there = ends(source, destination)
    x = there.backend.empty_pinned(torch.empty(20))
    x.fill_(1)
    module.send(x, here, there)
    x.fill_(2)


def use_conjugate(module: Any, source: str, destination: str) -> None:
    here, there = ends(source, destination)
    x = torch.ones(20, dtype=torch.complex64, device=source)
    ready = here.backend.new_event(here.device)
    ready.record(here.compute)
    transfer = module.issue(x.conj(), here, there, ready=ready)
    transfer.receive().cpu()
    transfer.release()


def use_gaps(module: Any, source: str, destination: str) -> None:
    here, there = ends(source, destination)
    output = torch.zeros(20, 2, dtype=torch.float64, device=destination)
    x = torch.ones(20, dtype=torch.float64, device=source)
    for column in output.unbind(1):
        transfer = module.issue(x, here, there, into=column)
        transfer.receive()
        transfer.release()
    output.cpu()


def planted(old: str, new: str) -> ModuleType:
    """Return the module of transfers with one thing changed."""
    source = Path(_transfer.__file__).read_text()
    assert source.count(old) == 1, f"there must be one {old!r}, got {source.count(old)}"
    module = ModuleType(_transfer.__name__)
    module.__package__ = _transfer.__package__
    exec(compile(source.replace(old, new), _transfer.__file__, "exec"), vars(module))
    return module


Use: TypeAlias = Callable[[Any, str, str], None]
USES: list[tuple[Use, str, str]] = [
    *((use, *way) for way in ENDS[:4]),
    (use_pinned, "cpu", "sim:0"),
    (use_conjugate, "sim:0", "sim:1"),
    (use_gaps, "sim:0", "sim:2"),
]
UP, DOWN, DIRECT, STAGED, PINNED, CONJUGATE, GAPS = USES
PLANTS = {
    "the result is not waited for": (
        "target.compute.wait_event(self.arrived)", "pass", [UP, DOWN, DIRECT, STAGED]),
    "the allocator is not told of a use": (
        "target.backend.record_use(self.copy, target.compute)", "pass", [UP, DIRECT, STAGED]),
    "the source is changed while it is read": (
        "self.source.compute.wait_event(self.departed)", "pass", [DIRECT, STAGED]),
    "the source is not waited for": (
        "source.outgoing.wait_event(ready or recorded_on(source.compute, source.backend))", "pass",
        [DOWN, DIRECT, STAGED]),
    "the target is not waited for": (
        "destination.incoming.wait_event(vacant)", "pass", [UP, DIRECT, STAGED]),
    "a buffer is filled before it was emptied": (
        "buffer.await_on(source.outgoing)", "pass", [UP, STAGED]),
    "a buffer is emptied before it was filled": (
        "destination.incoming.wait_event(filled)", "pass", [STAGED]),
    "a copy comes in on another stream than it is waited for": (
        "with destination.backend.using(destination.incoming):", "if True:", [UP, DIRECT, STAGED]),
    "a copy to the host goes on another stream than it is waited for": (
        "with source.backend.using(source.outgoing):\n        pinned.copy_",
        "if True:\n        pinned.copy_", [DOWN]),
    "a copy to a buffer goes on another stream than it is waited for": (
        "with source.backend.using(source.outgoing):\n                pinned.copy_",
        "if True:\n                pinned.copy_", [STAGED]),
    "the wrong event tells the arrival": (
        "return arrived, arrived",
        "return recorded_on(source.compute, source.backend), arrived", [DIRECT]),
    "the wrong event tells the departure": (
        "return arrived, recorded_on(source.outgoing, source.backend)",
        "return arrived, recorded_on(source.compute, source.backend)", [STAGED]),
    "the memory of the caller is read later": (
        "target.copy_(pinned, non_blocking=True)", "target.copy_(piece, non_blocking=True)",
        [PINNED]),
    "a target with gaps is written from a buffer that is not filled": (
        "if not target.is_contiguous():", "if False:", [GAPS]),
    "a conjugate is sent before it was taken": (
        "x, ready = x.resolve_conj().resolve_neg(), None",
        "x = x.resolve_conj().resolve_neg()", [CONJUGATE]),
}  # fmt: skip


def use_name(what: tuple[Use, str, str]) -> str:
    use, here, there = what
    return f"{use.__name__}-{here}-{there}"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("what", USES, ids=use_name)
def test_without_a_bug_there_is_no_race(what: tuple[Use, str, str], schedule: str) -> None:
    use_it, *way = what
    with machine(schedule):
        use_it(_transfer, *way)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", PLANTS)
def test_every_bug_is_a_race(name: str, schedule: str) -> None:
    old, new, uses = PLANTS[name]
    module = planted(old, new)
    for use_it, *way in uses:
        with pytest.raises(RaceError, match="race"), machine(schedule):
            use_it(module, *way)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("what", [UP, STAGED], ids=use_name)
def test_buffers_that_are_never_busy_are_a_race(
    what: tuple[Use, str, str], schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_it, *way = what
    monkeypatch.setattr(_staging.PinnedBuffer, "is_busy_until", lambda *_: None)
    with pytest.raises(RaceError, match="race"), machine(schedule):
        use_it(_transfer, *way)
