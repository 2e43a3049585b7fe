"""Bugs that are planted in the execution of batched operators, one at a time: each is seen.

By the checker of races, by values, or by the bound on memory.

Shapes: M rows, N columns, X and Y a grid.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from linops_core import (
    Add,
    Concat,
    Convolution,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    SimpleLinop,
    Stack,
)
from linops_multigpu import (
    Action,
    BatchedLinop,
    BatchSpec,
    DeviceSpec,
    Kind,
    Plan,
    Remote,
    _batched,
    _execute,
    _output,
    create_batched_linop,
)
from linops_multigpu._planner import planned
from linops_multigpu.testing import SCHEDULES, RaceError, World, simulated

pytestmark = pytest.mark.usefixtures("simulation")

# The programs: each uses an operator as a caller may.


def used(A: NamedLinop, B: NamedLinop, base: str, n: int = 6) -> None:
    """Change what was sent at once, use the result at once, and again with the same memory."""
    for _ in range(2):
        x = torch.rand(n, dtype=torch.complex128)
        sent = x.clone().to(base) + 0
        y = B(sent)
        found = y + 0
        y.zero_()
        sent.zero_()
        del y, sent
        (torch.empty(n, dtype=torch.complex128, device=base) + 1).zero_()
        torch.testing.assert_close(found.cpu(), A(x))
        del found


def sums(world: World, base: str) -> None:
    """Tiles whose results are added up on their devices, and on the base device."""
    A = Dense(torch.rand(6, 6, dtype=torch.complex128), ("M", "N"))
    devices = [["sim:1", "sim:2", "sim:1"]]
    B = create_batched_linop(A, BatchSpec({"M": 2, "N": 2}, devices, base), max_in_flight=1)
    used(A, B, base)
    used(A.N, B.N, base)


def sums_here_too(world: World, base: str) -> None:
    """The same with tiles on the base device, which come last or first."""
    A = Dense(torch.rand(8, 6, dtype=torch.complex128), ("M", "N"))
    devices = [["sim:1", base, "sim:2"]] * 2 + [["sim:1", base, base], [base] * 3]
    B = create_batched_linop(A, BatchSpec({"M": 2, "N": 2}, devices, base))
    used(A, B, base)
    used(A.N, B.N, base)


def a_window(world: World, base: str) -> None:
    """One input and one result on a device at a time."""
    A = Diagonal(torch.rand(8, dtype=torch.complex128), ("N",))
    B = create_batched_linop(A, BatchSpec({"N": 1}, ["sim:1"], base), max_in_flight=1)
    used(A, B, base, 8)
    world.synchronize()
    world.reset_peak()
    used(A, B, base, 8)
    assert world.peak_nbytes("sim:1") == 16 * (8 + 1 + 1)


def identities(world: World, base: str) -> None:
    """Tiles that return their input itself."""
    same, D = SimpleLinop(_same, _same, ishape=("N",)), Diagonal(torch.rand(6), ("N",))
    there = DeviceSpec("sim:1"), DeviceSpec(base)
    with torch.no_grad():
        on_device = D.with_weights(lambda weight: weight.to("sim:1"))
    tiles = [Remote(tile, *there) for tile in (same, on_device, same)]
    used(Add(same, D, same), BatchedLinop(Add(*tiles), there[1], 1), base)
    used(same, BatchedLinop(Add(tiles[0]), there[1], 1), base)


def views(world: World, base: str) -> None:
    """A sum that begins with a view of an input, which is replaced before the sum goes on."""
    A = Stack(*[Identity(("N",))] * 6, idim_and_idx=("K", 0))
    B = create_batched_linop(A, BatchSpec({"K": 1}, ["sim:1"], base))
    x = torch.rand(6, 4)
    torch.testing.assert_close(B(x.to(base)).cpu(), A(x))


def overlaps(world: World, base: str) -> None:
    """Tiles that write overlapping parts of the output."""
    kernel = torch.rand(3, dtype=torch.complex128)
    A = Convolution(kernel, (), ("X",), ("Y",), grid_size=[6], method="fft")
    used(A, create_batched_linop(A, BatchSpec({"X": 2}, ["sim:1", "sim:2"], base)), base)


def conjugates(world: World, base: str) -> None:
    """An input that is a conjugate, sent in parts."""
    A = Diagonal(torch.rand(6, dtype=torch.complex128), ("N",))
    B = create_batched_linop(A, BatchSpec({"N": 1}, ["sim:1"], base), max_in_flight=1)
    x = torch.rand(6, dtype=torch.complex128)
    torch.testing.assert_close(B(x.to(base).conj()).cpu(), A(x.conj()))


def negatives(world: World, base: str) -> None:
    """An input whose sign is still to be changed, sent in parts."""
    A = Diagonal(torch.rand(6, dtype=torch.float64), ("N",))
    B = create_batched_linop(A, BatchSpec({"N": 1}, ["sim:1"], base), max_in_flight=1)
    x = torch.rand(6, dtype=torch.complex128)
    negative = x.to(base).conj().imag
    assert negative.is_neg()
    torch.testing.assert_close(B(negative).cpu(), A(-x.imag))


def conjugates_on_a_stream(world: World, base: str) -> None:
    """An input that is a conjugate, on a stream that the caller gives for the base device."""
    stream: Any = world.new_stream(base)
    A = Diagonal(torch.rand(6, dtype=torch.complex128), ("N",))
    B = create_batched_linop(A, BatchSpec({"N": 1}, ["sim:1"], base, stream), max_in_flight=1)
    x = torch.rand(6, dtype=torch.complex128)
    torch.testing.assert_close(B(x.to(base).conj()).cpu(), A(x.conj()))


def two_dtypes(world: World, base: str) -> None:
    """Tiles whose results have one dtype, and others whose results have another."""
    weights = torch.rand(3, dtype=torch.float32), torch.rand(3, dtype=torch.float64)
    A = Concat(*(Diagonal(weight, ("N",)) for weight in weights), idim="N", odim="N")
    x = torch.rand(6, dtype=torch.float32)
    for here, devices in product(("cpu", base), (["sim:1"], ["sim:1", base], ["sim:2", "sim:1"])):
        B = create_batched_linop(A, BatchSpec({"N": 3}, devices, here))
        torch.testing.assert_close(B(x.to(here)).cpu(), A(x))
        del B


def given_streams(world: World, base: str) -> None:
    """Streams that the caller gives, two of them for one device, and weights that change."""
    streams: list[Any] = [world.new_stream(device) for device in ("sim:0", "sim:1", "sim:1")]
    devices: list[Any] = [*(DeviceSpec("sim:1", stream) for stream in streams[1:]), "sim:0"]
    maps = torch.rand(4, 6, dtype=torch.complex128)
    weights = maps.to("sim:1") + 0
    A = Dense(weights, ("M", "N"))
    spec = BatchSpec({"M": 2, "N": 2}, devices, "sim:0", streams[0])
    B = create_batched_linop(A, spec, max_in_flight=1)
    for factor in (1, 2):
        weights.mul_(factor)
        used(Dense(maps * factor, ("M", "N")), B, "sim:0")


def failures(world: World, base: str) -> None:
    """An exception in the last tile, after which everything is dropped."""
    n_calls = 0

    def fails(x: torch.Tensor) -> torch.Tensor:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 3:
            raise KeyError("a tile fails")
        return x * 2

    tile = SimpleLinop(fails, fails, ishape=("N",))
    there = DeviceSpec("sim:1"), DeviceSpec(base)
    B = BatchedLinop(Add(*(Remote(tile, *there) for _ in range(3))), there[1])
    x = torch.rand(6).to(base) + 0
    with pytest.raises(KeyError, match="a tile fails"):
        B(x)
    x.zero_()


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


Program = Callable[[World, str], None]


def run(program: Program, base: str, schedule: str) -> None:
    with simulated(3, schedule=schedule) as world:
        world.cut_link("sim:0", "sim:2")
        program(world, base)


PROGRAMS: list[tuple[Program, str]] = [
    *((program, base) for program in (sums, sums_here_too) for base in ("sim:0", "cpu")),
    *((program, base) for program in (a_window, identities, views) for base in ("sim:0", "cpu")),
    (overlaps, "sim:0"),
    (conjugates, "sim:0"),
    (negatives, "sim:0"),
    (conjugates_on_a_stream, "sim:0"),
    (two_dtypes, "sim:0"),
    (given_streams, "sim:0"),
    (failures, "sim:0"),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("program", "base"), PROGRAMS)
def test_nothing_is_seen_where_nothing_is_with_a_bug(
    program: Program, base: str, schedule: str
) -> None:
    run(program, base, schedule)


# Bugs in the code: what is replaced by what, and where it must be seen.

EXECUTE: dict[str, tuple[str, str, Program]] = {
    "the memory of an input that is a result is used again": (
        "keep_view_of(operands, result, there)", "pass", identities),
    "the memory of an input that a sum begins with is used again": (
        "keep_view_of(operands, result, there)", "pass", views),
    "a sum is made in the input": (
        "return total + result", "return total.add_(result)", identities),
    "the memory of inputs is used again after the call": (
        "self.lane(action).there.incoming.wait_event(event)", "pass", a_window),
    "the memory of results is used again after the call": (
        "self.lane(action).there.compute.wait_event(event)", "pass", a_window),
    "the caller does not wait for the output": (
        "                self.base.compute.wait_event(event)", "                pass", a_window),
    "transfers start at the event of another stream": (
        "record_start(self.base.compute)", "record_start(self.base.incoming)", sums),
    "a transfer starts at once": (
        "ready=self.start", "ready=self.base.backend.new_event(self.base.device)", sums),
    "a tile works on the stream for what comes in": (
        "with there.backend.using(there.compute):", "with there.backend.using(there.incoming):",
        sums),
    "a tile works on the stream that is current": (
        "with there.backend.using(there.compute):", "if True:", given_streams),
    "a tile of the base works on the stream that is current": (
        "with self.base.backend.using(self.base.compute):\n            result",
        "if True:\n            result", given_streams),
    "the event of another stream tells that a tile is done": (
        "recorded_on(there.compute", "recorded_on(there.incoming", sums),
    "the event of another stream tells that a sum is done": (
        "recorded_on(self.base.compute", "recorded_on(self.base.incoming", sums),
    "nobody waits for anybody": (
        "stream.wait_event(self.done[number])", "pass", sums),
    "copies are received on the stream that computes": (
        "lane.there.incoming, action)\n        transfer",
        "lane.there.compute, action)\n        transfer", a_window),
    "a conjugate is made for each tile": (
        "self.x.resolve_conj().resolve_neg()", "self.x", conjugates),
    "given streams do not wait for the caller": (
        "            follow_caller(streams)", "            pass", given_streams),
    "the caller does not wait for given streams": (
        "            let_caller_follow(streams, *own)",
        "            pass", given_streams),
    "the memory of the output is used again by given streams": (
        "let_caller_follow(streams, *own)", "let_caller_follow(streams)", given_streams),
    "the sign of an input is made for each tile": (
        "self.x.resolve_conj().resolve_neg()", "self.x.resolve_conj()", negatives),
    "transfers start at the event of the stream that is current": (
        "record_start(self.base.compute)",
        "record_start(self.base.backend.current_stream(self.plan.base))", conjugates_on_a_stream),
    "a later result is of another dtype": (
        "if self.output.y.dtype != result.dtype:", "if False:", two_dtypes),
    "the output is allocated for another stream": (
        "with self.base.backend.using(self.base.compute):\n                y, places",
        "with self.base.backend.using(self.base.incoming):\n                y, places", sums),
    "what is added is added to nothing": (
        "make = torch.empty if self.plan.fills else torch.zeros", "make = torch.empty", overlaps),
    "what is dropped after an exception is in use": (
        "        execution.synchronize()\n", "", failures),
}  # fmt: skip
OUTPUT: dict[str, tuple[str, str, Program]] = {
    "places are vacant at once": (
        "recorded_on(base.compute", "recorded_on(base.incoming", sums),
    "buffers are allocated for another stream": (
        "with base.backend.using(base.compute):\n            self.slots",
        "with base.backend.using(base.incoming):\n            self.slots", sums),
    "what is to be added is written": (
        "self.places[action.tile].add_(result)", "self.places[action.tile].copy_(result)", sums),
    "what is to be written is added": (
        "self.places[action.tile].copy_(result)", "self.places[action.tile].add_(result)",
        sums_here_too),
    "results of the base are added before what they are added to": (
        "            self.base.compute.wait_event(event)", "            pass", sums_here_too),
    "a buffer is written as a place": (
        "if action.slot is None else self.buffer(action)", "", sums),
}  # fmt: skip
HOST: dict[str, tuple[str, str, Program]] = {
    "the host does not wait for results": (
        "            arrived.synchronize()", "            pass", sums),
    "the host puts its own results first": (
        "        if self.on_the_way:\n            self.make_room",
        "        if False:\n            self.make_room",
        sums_here_too),
    "results stay on the devices until they land": (
        "self.on_the_way.append((transfer.copy, transfer.arrived, action))",
        "self.on_the_way.append((transfer.copy, transfer.arrived, action))\n"
        "        transfer.arrived.sent = transfer", a_window),
    "the newest result lands first": ("self.on_the_way.popleft()", "self.on_the_way.pop()", sums),
    "results never land": (
        "        while self.on_the_way:\n            self.land()", "        pass", sums),
}  # fmt: skip


def with_a_bug(original: ModuleType, old: str, new: str) -> ModuleType:
    """Return a module with one thing changed."""
    source = Path(str(original.__file__)).read_text()
    assert source.count(old) == 1, f"there must be one {old!r}, got {source.count(old)}"
    module = ModuleType(original.__name__)
    module.__package__ = original.__package__
    exec(compile(source.replace(old, new), str(original.__file__), "exec"), vars(module))
    return module


@pytest.mark.parametrize("name", EXECUTE)
def test_bugs_in_the_execution_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, program = EXECUTE[name]
    module = with_a_bug(_execute, old, new)
    for part in ("execute", "Forward", "CannotBeWritten"):
        monkeypatch.setattr(_batched, part, getattr(module, part))
    with pytest.raises((RaceError, AssertionError)):
        run(program, "sim:0", "newest")


@pytest.mark.parametrize("name", [*OUTPUT, *HOST])
def test_bugs_in_the_output_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = "sim:0" if name in OUTPUT else "cpu"
    old, new, program = (OUTPUT | HOST)[name]
    monkeypatch.setattr(_execute, "output_on", with_a_bug(_output, old, new).output_on)
    with pytest.raises((RaceError, AssertionError)):
        run(program, base, "newest")


# Bugs in the plan: what becomes of each action.


def without_wait(kind: Kind, position: int | None = None) -> Callable[[Action], Action]:
    """Return what drops a wait of actions of a kind, or all."""

    def change(action: Action) -> Action:
        if action.kind is not kind:
            return action
        if position is None:
            return replace(action, after=())
        return replace(action, after=action.after[:position] + action.after[position + 1 :])

    return change


def dropping_nothing(action: Action) -> Action:
    return replace(action, drops=())


def in_one_slot(action: Action) -> Action:
    return action if action.slot is None else replace(action, slot=0)


def always_adding(action: Action) -> Action:
    return replace(action, adds=True)


def never_adding(action: Action) -> Action:
    return replace(action, adds=False)


ACTIONS: dict[str, tuple[Callable[[Action], Action], Program, str]] = {
    "an input is replaced before it is read": (without_wait(Kind.SEND), a_window, "sim:0"),
    "a tile works before its input is there": (without_wait(Kind.COMPUTE, 0), sums, "sim:0"),
    "a result is replaced before it is collected": (
        without_wait(Kind.COMPUTE, 1), a_window, "sim:0"),
    "a buffer is used again before it was added": (without_wait(Kind.COLLECT, 1), sums, "sim:0"),
    "what was collected is added before it is there": (without_wait(Kind.ADD, 0), sums, "sim:0"),
    "something is added before what it is added to": (without_wait(Kind.ADD, 1), sums, "sim:0"),
    "nothing is dropped": (dropping_nothing, a_window, "sim:0"),
    "nothing is dropped, for a host": (dropping_nothing, a_window, "cpu"),
    "results of the base are always added": (always_adding, sums_here_too, "sim:0"),
    "results of the base are never added": (never_adding, sums_here_too, "cpu"),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIONS)
def test_bugs_in_the_plan_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, program, base = ACTIONS[name]

    def changed(*args: Any) -> Plan:
        plan = planned(*args)
        return replace(plan, actions=tuple(map(change, plan.actions)))

    monkeypatch.setattr(_batched, "planned", changed)
    with pytest.raises((RaceError, AssertionError)):
        run(program, base, "newest")


PLANS: dict[str, tuple[Callable[..., Plan], Program]] = {
    "a window of one more": (
        lambda tiling, devices, base, n, lanes: planned(tiling, devices, base, n + 1, lanes),
        a_window),
    "two streams of a device are taken for one": (
        lambda tiling, devices, base, n, lanes: planned(tiling, devices, base, n), given_streams),
    "fewer buffers than are used at a time": (
        lambda *args: replace(_in_one_slot(planned(*args)), n_slots=1), sums_here_too),
}  # fmt: skip


def _in_one_slot(plan: Plan) -> Plan:
    return replace(plan, actions=tuple(map(in_one_slot, plan.actions)))


@pytest.mark.parametrize("name", PLANS)
def test_bugs_of_the_planner_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planner, program = PLANS[name]
    monkeypatch.setattr(_batched, "planned", planner)
    with pytest.raises((RaceError, AssertionError)):
        run(program, "sim:0", "newest")
