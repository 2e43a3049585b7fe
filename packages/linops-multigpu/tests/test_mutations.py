"""Bugs that are planted in the execution of batched operators, one at a time: each is seen.

By the checker of races, by values, or by the bound on memory.

Shapes: M rows, N columns, X and Y a grid.
"""

import ast
import inspect
from collections.abc import Callable
from dataclasses import replace
from itertools import product
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
    create_batched_linop,
)
from linops_multigpu._batches import _batched_linop
from linops_multigpu._execution import _execute, _output
from linops_multigpu._execution._device_tiles import DevicePair
from linops_multigpu._execution._planner import planned
from linops_multigpu._weights import _replica, _training
from linops_multigpu.testing import RaceError, World, simulated
from linops_split import Part, Tiles

pytestmark = pytest.mark.usefixtures("simulation")

# The programs: each uses an operator as a caller may.


def used(A: NamedLinop, B: NamedLinop, base: str, n: int = 6) -> None:
    """Change what was sent at once, use the result at once, and again with the same memory."""
    for _ in range(2):
        x = torch.rand(n, dtype=torch.complex128)
        sent = x.clone().to(base) + 0
        y = B(sent)
        result = y + 0
        y.zero_()
        sent.zero_()
        del y, sent
        (torch.empty(n, dtype=torch.complex128, device=base) + 1).zero_()
        torch.testing.assert_close(result.cpu(), A(x))
        del result


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


def away(base: str, *linops: NamedLinop) -> BatchedLinop:
    """Return the sum of operators that work on another device, one at a time."""
    place = DevicePair(DeviceSpec("sim:1"), DeviceSpec(base))
    tiles = Tiles(linops[0].shape, [Part(linop, {}, place) for linop in linops], {})
    return BatchedLinop(tiles, place.base, 1)


def identities(world: World, base: str) -> None:
    """Tiles that return their input itself."""
    same, D = SimpleLinop(_same, _same, ishape=("N",)), Diagonal(torch.rand(6), ("N",))
    with torch.no_grad():
        on_device = D.with_weights(lambda weight: weight.to("sim:1"))
    used(Add(same, D, same), away(base, same, on_device, same), base)
    used(same, away(base, same), base)


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
    B = away(base, tile, tile, tile)
    x = torch.rand(6).to(base) + 0
    with pytest.raises(KeyError, match="a tile fails"):
        B(x)
    x.zero_()


def training(world: World, base: str) -> None:
    """A backward pass on other streams than the call; the copies go as soon as it is issued."""
    given: list[list[Any]] = [[], [world.new_stream("sim:1")]]
    for streams in given:
        weight = torch.nn.Parameter(torch.rand(4, 6, dtype=torch.complex128).to(base))
        x = torch.rand(6, dtype=torch.complex128)
        sent, A = x.to(base), Dense(weight, ("M", "N"))
        with world.using(world.new_stream("sim:1")):
            spec = BatchSpec({"M": 2}, [DeviceSpec("sim:1", *streams)], base)
            B = create_batched_linop(A, spec)
            y = B(sent)
        (result,) = torch.autograd.grad(y, weight, torch.ones_like(y))
        del B, y
        torch.testing.assert_close(result.cpu(), x.conj().resolve_conj().expand(4, 6))


def training_in_part(world: World, base: str) -> None:
    """A backward pass in which the gradient of a part stays on another device."""
    places = (base, "sim:2")
    weights = [torch.nn.Parameter(torch.rand(4, 3).to(place)) for place in places]
    A = Stack(*[Dense(weight, ("M", "N")) for weight in weights], odim_and_idx=("K", 0))
    x = torch.rand(3)
    y = create_batched_linop(A, BatchSpec({"K": 1}, ["sim:1", "sim:2"], base))(x.to(base))
    result = torch.autograd.grad(y, weights, torch.ones_like(y))
    del y
    for one in result:
        torch.testing.assert_close(one.cpu(), x.expand(4, 3))


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
    (training, "sim:0"),
    (training_in_part, "sim:0"),
]


@pytest.mark.each_value
@pytest.mark.parametrize("schedule", ["newest", "random"])
@pytest.mark.parametrize(("program", "base"), PROGRAMS)
def test_nothing_is_seen_where_nothing_is_with_a_bug(
    program: Program, base: str, schedule: str
) -> None:
    run(program, base, schedule)


# Bugs in the code: what is replaced by what, and where it must be seen.

# `where` is a function, in which `old` stands once, and is replaced by `new`. They are compared as
# syntax trees, so layout and comments do not matter. `_1` stands for any expression, and `...`, as
# the only argument or statement, for any number of them.
EXECUTE: dict[str, tuple[str, str, str, Program]] = {
    "the memory of an input that is a result is used again": (
        "_Execution.compute_on_lane", "keep_view_of(...)", "None", identities),
    "the memory of an input that a sum begins with is used again": (
        "_Execution.compute_on_lane", "keep_view_of(...)", "None", views),
    "a sum is made in the input": (
        "_Execution.summed", "_1 + _2", "_1.add_(_2)", identities),
    "the memory of inputs is used again after the call": (
        "_Execution.joined", "_1.remote.incoming.wait_event(_2)", "None", a_window),
    "the memory of results is used again after the call": (
        "_Execution.joined", "_1.remote.compute.wait_event(_2)", "None", a_window),
    "the memory of vectors is used again before they are sent": (
        "_Execution.joined", "(Kind.SEND, Kind.COLLECT)", "(Kind.COLLECT,)", training_in_part),
    "the caller does not wait for the output": (
        "_Execution.joined", "self.base.compute.wait_event(_1)", "None", a_window),
    "transfers start at the event of another stream": (
        "_Execution.__init__", "record_start(_1.compute)", "record_start(_1.incoming)", sums),
    "a transfer starts at once": (
        "_Execution.send", "self.start", "self.base.backend.new_event(self.base.device)", sums),
    "a tile works on the stream for what comes in": (
        "_Execution.compute_on_lane", "_1.using(streams.compute)", "_1.using(streams.incoming)",
        sums),
    "a tile works on the stream that is current": (
        "_Execution.compute_on_lane", "with _1.using(_2): ...", "if True: ...", given_streams),
    "a tile of the base works on the stream that is current": (
        "_Execution.compute_on_base", "with _1.using(_2): ...", "if True: ...", given_streams),
    "the event of another stream tells that a tile is done": (
        "_Execution.compute_on_lane", "recorded_on(_1.compute, _2)", "recorded_on(_1.incoming, _2)",
        sums),
    "the event of another stream tells that a sum is done": (
        "_Execution.add", "recorded_on(_1.compute, _2)", "recorded_on(_1.incoming, _2)", sums),
    "nobody waits for anybody": ("_Execution.prepare", "stream.wait_event(_1)", "None", sums),
    "copies are received on the stream that computes": (
        "_Execution.send", "self.prepare(_1.incoming, action)", "self.prepare(_1.compute, action)",
        a_window),
    "given streams do not wait for the caller": (
        "_Execution.__init__", "follow_caller(_1)", "None", given_streams),
    "the caller does not wait for given streams": (
        "_Execution.joined", "let_caller_follow(_1, _2)", "None", given_streams),
    "the memory of the output is used again by given streams": (
        "_Execution.joined", "let_caller_follow(_1, _2)", "let_caller_follow(_1)", given_streams),
    "transfers start at the event of the stream that is current": (
        "_Execution.__init__", "record_start(_1)",
        "record_start(self.base.backend.current_stream(plan.base))", conjugates_on_a_stream),
    "a conjugate is made for each tile": (
        "_Execution.__init__", "_1.resolve_conj().resolve_neg()", "_1", conjugates),
    "the sign of an input is made for each tile": (
        "_Execution.__init__", "_1.resolve_neg()", "_1", negatives),
    "what is dropped before all is computed again is in use": (
        "execute", "execution.synchronize()", "None", two_dtypes),
    "what is dropped after an exception is in use": (
        "execute", "execution.synchronize()", "None", failures),
}  # fmt: skip
OUTPUT: dict[str, tuple[str, str, str, Program]] = {
    "places are vacant at once": (
        "DeviceOutput.use", "recorded_on(_1.compute, _2)",
        "recorded_on(_1.incoming, _2)", sums),
    "output and buffers are allocated for another stream": (
        "DeviceOutput.admitted", "_1.using(_2.compute)", "_1.using(_2.incoming)", sums),
    "a later result is of another dtype": (
        "DeviceOutput.promoted", "raise WiderDtype(_1)", "return y", two_dtypes),
    "what is added is added to nothing": (
        "DeviceOutput.make", "torch.empty if _1 else torch.zeros", "torch.empty", overlaps),
    "what is to be added is written": ("DeviceOutput.write", "_1.add_(_2)", "_1.copy_(_2)", sums),
    "what is to be written is added": (
        "DeviceOutput.write", "_1.copy_(_2)", "_1.add_(_2)", sums_here_too),
    "results of the base are added before what they are added to": (
        "DeviceOutput.take", "_1.wait_event(_2)", "None", sums_here_too),
    "a buffer is written as a place": (
        "DeviceOutput.collect", "_1 if action.slot is None else _2", "_1", sums),
}  # fmt: skip
HOST: dict[str, tuple[str, str, str, Program]] = {
    "the host does not wait for results": (
        "HostOutput.land", "_1.synchronize()", "None", sums),
    "the host puts its own results first": (
        "HostOutput.take", "if self.on_the_way: ...\nelse: self.write(_1, _2)",
        "self.write(_1, _2)", sums_here_too),
    "results stay on the devices until they land": (
        "HostOutput.collect", "return transfer",
        "transfer.arrived.sent = transfer\nreturn transfer", a_window),
    "the newest result lands first": ("HostOutput.land", "_1.popleft()", "_1.pop()", sums),
    "results never land": ("HostOutput.finish", "while _1: ...", "pass", sums),
}  # fmt: skip

TRAINING: dict[str, tuple[ModuleType, ModuleType, str, str, str]] = {
    "nobody says that a backward pass uses a copy": (
        _training, _batched_linop, "DeviceCopies.trained", "sent.use()", "None"),
    "the memory of a copy is used again while a stream reads it": (
        _replica, _replica, "CopiedOperators.use", "self._backend.record_use(_1, _2)", "None"),
}  # fmt: skip


def matches(old: Any, result: Any, bound: dict[str, Any]) -> bool:
    """Return whether a tree is like a pattern, and note what its wildcards stand for."""
    if isinstance(old, ast.Name) and old.id[:1] == "_" and old.id[1:].isdigit():
        return ast.dump(bound.setdefault(old.id, result)) == ast.dump(result)
    if isinstance(old, list):
        if len(old) == 1 and is_anything(old[0]):
            bound["..."] = result
            return True
        return len(old) == len(result) and all(
            matches(*pair, bound) for pair in zip(old, result, strict=True)
        )
    if isinstance(old, ast.AST):
        return type(old) is type(result) and all(
            matches(getattr(old, name), getattr(result, name), bound)
            for name in old._fields
            if name != "ctx"
        )
    return bool(old == result)


def is_anything(tree: object) -> bool:
    tree = tree.value if isinstance(tree, ast.Expr) else tree
    return isinstance(tree, ast.Constant) and tree.value is ...


class Filled(ast.NodeTransformer):
    """A tree with what the wildcards of a pattern stand for."""

    def __init__(self, bound: dict[str, Any]) -> None:
        self.bound = bound

    def visit_Name(self, node: ast.Name) -> Any:
        return self.bound.get(node.id, node)

    def visit_Expr(self, node: ast.Expr) -> Any:
        return self.bound["..."] if is_anything(node) else self.generic_visit(node)


class Replaced(ast.NodeTransformer):
    """A tree with what is like a pattern replaced, and how often it was found."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new, self.n_found = pattern(old), new, 0

    def visit(self, node: ast.AST) -> Any:
        bound: dict[str, Any] = {}
        if matches(self.old, node, bound):
            self.n_found += 1
            if isinstance(self.old, ast.expr):
                return Filled(bound).visit(pattern(self.new))
            return Filled(bound).visit(ast.parse(self.new)).body
        return self.generic_visit(node)


def pattern(text: str) -> ast.AST:
    (tree,) = ast.parse(text).body
    return tree.value if isinstance(tree, ast.Expr) else tree


def function_named(tree: ast.Module, where: str) -> ast.AST:
    result: Any = tree
    for name in where.split("."):
        (result,) = (part for part in result.body if getattr(part, "name", None) == name)
    return result  # type: ignore[no-any-return]


def with_a_bug(original: ModuleType, where: str, old: str, new: str) -> ModuleType:
    """Return a module with one thing in one function changed."""
    tree = ast.parse(inspect.getsource(original))
    change = Replaced(old, new)
    change.generic_visit(function_named(tree, where))
    assert change.n_found == 1, f"{where} must have one {old!r}, got {change.n_found}"
    module = ModuleType(original.__name__)
    module.__package__ = original.__package__
    exec(compile(ast.fix_missing_locations(tree), str(original.__file__), "exec"), vars(module))
    return module


def test_what_is_replaced_is_found_by_its_syntax() -> None:
    change = Replaced("f(_1, g(...))", "h(_1)")
    tree = change.visit(ast.parse("x = 1 + f(a.b,  # a comment\n  g(1, 2))"))
    assert change.n_found == 1 and ast.unparse(tree) == "x = 1 + h(a.b)"
    change = Replaced("while _1: ...", "if _1: ...")
    assert ast.unparse(change.visit(ast.parse("while a:\n    b\n    c"))) == "if a:\n    b\n    c"
    change = Replaced("f(_1, _1)", "g")
    assert ast.unparse(change.visit(ast.parse("f(a, b) + f(a, a)"))) == "f(a, b) + g"
    with pytest.raises(AssertionError, match=r"HostOutput\.land must have one 'none', got 0"):
        with_a_bug(_output, "HostOutput.land", "none", "None")


@pytest.mark.parametrize("name", EXECUTE)
def test_bugs_in_the_execution_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *change, program = EXECUTE[name]
    monkeypatch.setattr(_batched_linop, "execute", with_a_bug(_execute, *change).execute)
    with pytest.raises((RaceError, AssertionError)):
        run(program, "sim:0", "newest")


@pytest.mark.parametrize("name", [*OUTPUT, *HOST])
def test_bugs_in_the_output_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = "sim:0" if name in OUTPUT else "cpu"
    *change, program = (OUTPUT | HOST)[name]
    monkeypatch.setattr(_execute, "output_on", with_a_bug(_output, *change).output_on)
    with pytest.raises((RaceError, AssertionError)):
        run(program, base, "newest")


@pytest.mark.parametrize("name", TRAINING)
def test_bugs_in_training_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original, user, *change = TRAINING[name]
    changed, _, _ = change[0].partition(".")
    monkeypatch.setattr(user, changed, getattr(with_a_bug(original, *change), changed))
    with pytest.raises((RaceError, AssertionError)):
        run(training, "sim:0", "newest")


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

    monkeypatch.setattr(_batched_linop, "planned", changed)
    with pytest.raises((RaceError, AssertionError)):
        run(program, base, "newest")


PLANS: dict[str, tuple[Callable[..., Plan], Program]] = {
    "a window of one more": (
        lambda work, devices, base, n, lanes: planned(work, devices, base, n + 1, lanes),
        a_window),
    "two streams of a device are taken for one": (
        lambda work, devices, base, n, lanes: planned(work, devices, base, n), given_streams),
    "fewer buffers than are used at a time": (
        lambda *args: replace(_in_one_slot(planned(*args)), n_slots=1), sums_here_too),
}  # fmt: skip


def _in_one_slot(plan: Plan) -> Plan:
    return replace(plan, actions=tuple(map(in_one_slot, plan.actions)))


@pytest.mark.parametrize("name", PLANS)
def test_bugs_of_the_planner_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planner, program = PLANS[name]
    monkeypatch.setattr(_batched_linop, "planned", planner)
    with pytest.raises((RaceError, AssertionError)):
        run(program, "sim:0", "newest")
