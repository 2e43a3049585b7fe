"""Batched operators on simulated devices: right under any schedule, no race, nothing left behind.

Shapes: C coils, K samples, M rows, N columns, Nx a grid.
"""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import (
    FFT,
    Add,
    Concat,
    Convolution,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Sampling,
    SimpleLinop,
    Stack,
)
from linops_core.testing.strategies import sums_of_views, trees
from linops_multigpu import (
    BatchedLinop,
    BatchSpec,
    DeviceSpec,
    ToDevice,
    create_batched_linop,
)
from linops_multigpu.testing import SCHEDULES, World, simulated
from linops_solvers import operator_norm, svd
from linops_split import Part, Tiles, split_linop
from linops_split.testing import batch_sizes
from nameddim import ND

pytestmark = [pytest.mark.usefixtures("simulation"), pytest.mark.each_value]

BASES = ["cpu", "sim:0"]
DEVICES = ["cpu", "sim:0", "sim:1", "sim:2"]
# A race is found under each of them, wrong values under one that does late what it can.
under_two_schedules = pytest.mark.parametrize("schedule", ["newest", "random"])
on_both_bases = pytest.mark.parametrize("base", BASES)


@contextmanager
def machine(schedule: str = "newest", seed: int = 0, memory: int | None = None) -> Iterator[World]:
    """Three devices, of which the first does not reach the last; nothing may be left on them."""
    with simulated(3, schedule=schedule, seed=seed, memory=memory) as world:
        world.cut_link("sim:0", "sim:2")
        yield world
        if any(map(world.allocated_nbytes, world.devices)):  # cycles may hold it
            gc.collect()
        assert [world.allocated_nbytes(device) for device in world.devices] == [0, 0, 0]


def sense(maps: Tensor | None = None) -> NamedLinop:
    maps = torch.rand(4, 6, dtype=torch.complex128) if maps is None else maps
    S = Dense(maps, ("C", "Nx"), ("Nx",), ("C", "Nx"))
    return Sampling([torch.tensor([0, 2, 5])], [6]) @ FFT(1, ("C",)) @ S


def there(x: Tensor, base: str) -> Tensor:
    """Return a vector of its own on the base device, made on the current stream."""
    return x.clone().to(base) + 0


def stream_of(world: World, device: str) -> Any:
    """Return a new stream, as one that a user has."""
    return world.new_stream(device)


def check_all(B: NamedLinop, A: NamedLinop, base: str) -> None:
    """Compare all directions, with vectors that are changed and results used at once."""
    x = torch.rand(6, dtype=torch.complex128)
    for batched, whole, vector in ((B, A, x), (B.H, A.H, A(x)), (B.N, A.N, x)):
        sent = there(vector, base)
        y = batched(sent)
        result = y + 0
        sent.zero_()
        y.zero_()
        del sent, y
        torch.testing.assert_close(result.cpu(), whole(vector))


# Any operator, any specs.


@st.composite
def device_matrices(draw: st.DrawFn, n_axes: int) -> Any:
    """Draw a device, or devices along one axis or two."""
    devices = st.sampled_from(DEVICES)
    n_axes = draw(st.integers(0, min(n_axes, 2)))
    if n_axes == 0:
        return draw(devices)
    if n_axes == 1:
        return draw(st.lists(devices, min_size=1, max_size=3))
    n = draw(st.integers(1, 2))
    return draw(st.lists(st.lists(devices, min_size=n, max_size=n), min_size=1, max_size=2))


@st.composite
def specs_for(draw: st.DrawFn, linop: NamedLinop, base: str) -> list[BatchSpec]:
    """Draw specs, of which the inner one may have a base of its own."""
    specs = []
    for level in range(draw(st.integers(1, 2))):
        sizes = draw(batch_sizes(linop))
        matrix = draw(st.none() | device_matrices(len(sizes)))
        inner = draw(st.none() | st.sampled_from(DEVICES))
        specs.append(BatchSpec(sizes, matrix, inner if level else base))
        linop = split_linop(linop, sizes)[0].flat[0]  # type: ignore[assignment]
    return specs


KINDS: dict[str, tuple[Callable[[NamedLinop], NamedLinop], Callable[[Tensor], Tensor]]] = {
    "forward": (lambda A: A, lambda M: M),
    "adjoint": (lambda A: A.H, lambda M: M.mH),
    "normal": (lambda A: A.N, lambda M: M.mH @ M),
    "normal of the adjoint": (lambda A: A.H.N, lambda M: M @ M.mH),
}


@settings(max_examples=settings().max_examples // 2)
@given(st.data())
def test_any_operator_equals_its_matrix(data: st.DataObject) -> None:
    known = data.draw(
        # What a function of a user's holds does not move with the operator.
        sums_of_views()
        | trees(1).filter(
            lambda known: not any(isinstance(part, SimpleLinop) for part in known.linop.modules())
        )
    )
    base = data.draw(st.sampled_from(BASES))
    specs = data.draw(specs_for(known.linop, base))
    kinds = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    has_streams, is_followed, is_conjugate = (data.draw(st.booleans()) for _ in range(3))
    max_in_flight = data.draw(st.integers(1, 3))
    results, wanted = list[Tensor](), list[Tensor]()
    with machine(data.draw(st.sampled_from(SCHEDULES)), data.draw(st.integers(0, 9))) as world:
        B = create_batched_linop(known.linop, specs, max_in_flight=max_in_flight)
        with ExitStack() as streams:
            for device in world.devices if has_streams else ():
                streams.enter_context(world.using(world.new_stream(device)))
            for kind in kinds:
                of_linop, of_matrix = KINDS[kind]
                A, M = of_linop(B), of_matrix(known.matrix)
                sizes = known.spaces.sizes
                shape = [sizes.get(str(dim), sizes.get(dim.name, 1)) for dim in A.ishape]
                x = torch.randn(shape, dtype=torch.complex128)
                n_rows = len(M) if M.is_complex() else len(M) // 2
                gradient = torch.randn(n_rows, dtype=torch.complex128)
                sent = there(x, base).requires_grad_(is_followed)
                y = A(sent.conj() if is_conjugate else sent)
                results.append(y.detach() + 0j)
                wanted.append(known.product(x.conj() if is_conjugate else x, M))
                if is_followed and y.requires_grad:
                    own = gradient if y.is_complex() else gradient.real
                    torch.autograd.backward(y, there(own, base).reshape(y.shape))
                    assert sent.grad is not None
                    results.append(sent.grad + 0)
                    of_x = known.product(gradient, M.mH)
                    wanted.append(of_x.conj() if is_conjugate else of_x)
                assert y.requires_grad or not is_followed or not M.any()
                with torch.no_grad():
                    sent.zero_()
                del sent, y, A
            del B
            results = [vector.cpu().flatten() for vector in results]
    torch.testing.assert_close(results, wanted)


# Devices.


@under_two_schedules
@on_both_bases
@pytest.mark.parametrize("devices", [["cpu", "sim:1"], ["sim:0", "cpu", "sim:2"], ["sim:2"]])
def test_tiles_work_on_the_base_device_and_on_the_host_too(
    base: str, devices: list[str], schedule: str
) -> None:
    A = sense()
    with machine(schedule):
        check_all(create_batched_linop(A, BatchSpec({"C": 1, "K": 2}, devices, base)), A, base)


def test_results_are_the_same_bits_under_every_schedule() -> None:
    maps, x = torch.rand(2, 4, 6, dtype=torch.complex128)
    spec = BatchSpec({"C": 1}, ["sim:1", "sim:2", "sim:0"], "sim:0")
    bits = []
    for schedule in SCHEDULES:
        with machine(schedule):
            bits.append(create_batched_linop(sense(maps), spec).N(x[0].to("sim:0")).cpu())
    assert all(torch.equal(other, bits[0]) for other in bits)


@under_two_schedules
def test_the_input_may_be_a_conjugate(schedule: str) -> None:
    A = Diagonal(torch.rand(6, dtype=torch.complex128), ("N",))
    x = torch.rand(6, dtype=torch.complex128)
    with machine(schedule):
        spec = BatchSpec({"N": 1}, ["sim:1", "sim:2"], "sim:0")
        y = create_batched_linop(A, spec, max_in_flight=1)(x.to("sim:0").conj())
        torch.testing.assert_close(y.cpu(), A(x.conj()))
        del y


@under_two_schedules
@on_both_bases
def test_tiles_that_read_and_write_overlapping_parts(base: str, schedule: str) -> None:
    A = Convolution(torch.rand(3, dtype=torch.complex128), (), ("X",), ("Y",), grid_size=[6])
    with machine(schedule):
        for sizes in ({"X": 2}, {"Y": 2}):
            B = create_batched_linop(A, BatchSpec(sizes, ["sim:1", "sim:0", "sim:2"], base))
            check_all(B, A, base)
            del B


@under_two_schedules
@on_both_bases
def test_a_part_of_the_output_is_written_here_and_all_of_it_elsewhere(
    base: str, schedule: str
) -> None:
    blocks = [Diagonal(torch.rand(3, dtype=torch.complex128), ("N",)) for _ in range(2)]
    whole = Diagonal(torch.rand(6, dtype=torch.complex128), ("N",))
    row = Concat(*blocks, idim="N", odim="N")
    with machine(schedule):
        (away,) = create_batched_linop(whole, BatchSpec({}, "sim:1", base)).tiles.parts
        with torch.no_grad():
            here = [
                Part(block.with_weights(lambda w: w.to(base)), {ND("N"): slice(3 * k, 3 * k + 3)})
                for k, block in enumerate(blocks)
            ]
        for parts in ([*here, away], [away, *here], [here[0], away, here[1]]):
            tiles = Tiles(whole.shape, parts, {ND("N"): 6})
            check_all(BatchedLinop(tiles, DeviceSpec(base)), Add(row, whole), base)
        del away, here, parts, tiles


@pytest.mark.parametrize("devices", [["sim:1", "sim:2"], ["sim:0", "sim:1"]])
def test_tiles_on_devices_take_further_dimensions_in_front(devices: list[str]) -> None:
    A = Dense(torch.rand(4, 6), ("M", "N"))
    D = Diagonal(torch.rand(3, 6), ("C", "N"))
    x = torch.rand(3, 6)
    with machine():
        B = create_batched_linop(A, BatchSpec({"M": 2}, devices, "cpu"))
        torch.testing.assert_close((B @ D)(x), (A @ D)(x))
        torch.testing.assert_close((D @ B.H @ B)(x), (D @ A.H @ A)(x))
        with torch.no_grad():
            A.weight.mul_(2)
        torch.testing.assert_close((B.N @ D)(x), (A.N @ D)(x))
        del B


# Streams.


@under_two_schedules
def test_streams_that_are_given_are_in_order_with_those_of_the_caller(schedule: str) -> None:
    A = sense()
    with machine(schedule) as world:
        specs = [DeviceSpec(d, stream_of(world, d), stream_of(world, d)) for d in DEVICES[1:]]
        base = stream_of(world, "sim:0"), stream_of(world, "sim:0")
        B = create_batched_linop(A, BatchSpec({"C": 1}, specs, None, *base), max_in_flight=1)
        check_all(B, A, "sim:0")
        x = torch.rand(6, dtype=torch.complex128)
        with torch.enable_grad():
            sent = there(x, "sim:0").requires_grad_()
            y = B.out_of_place(sent, B.tiles)  # as transforms would have it
            torch.testing.assert_close(y.detach().cpu(), A(x))
        del B, sent, y


@under_two_schedules
def test_one_device_has_several_streams(schedule: str) -> None:
    maps = torch.rand(4, 6, dtype=torch.complex128)
    with machine(schedule) as world:
        A = sense(maps.to("sim:0"))
        specs = [DeviceSpec("sim:1", stream_of(world, "sim:1")) for _ in range(2)]
        B = create_batched_linop(A, BatchSpec({"C": 1}, specs, "sim:0"), max_in_flight=1)
        for factor in (1, 2):
            for weight in A.buffers():
                if weight.is_complex():
                    weight.mul_(factor)
            check_all(B, sense(maps * factor), "sim:0")
        del A, B, weight


@under_two_schedules
@on_both_bases
def test_gradients_come_back_across_given_streams(base: str, schedule: str) -> None:
    maps = nn.Parameter(torch.rand(4, 6, dtype=torch.complex128))
    A = sense(maps)
    x = torch.rand(6, dtype=torch.complex128, requires_grad=True)
    wanted = torch.autograd.grad(A.N(A.H(A(x))).abs().sum(), [x, maps])
    with machine(schedule) as world:
        given = {device: stream_of(world, device) for device in DEVICES[1:]}
        specs = [DeviceSpec(d, stream, stream_of(world, d)) for d, stream in given.items()]
        of_base = () if base == "cpu" else (given[base], stream_of(world, base))
        B = create_batched_linop(A, BatchSpec({"C": 1}, specs, base, *of_base))
        for _ in range(2):
            loss = B.N(B.H(B(x.to(base)))).abs().sum()
            with ExitStack() as streams:
                # As a real device does it: each part of a backward on the stream of its forward.
                for device in given.keys() - {base}:
                    streams.enter_context(world.using(given[device]))
                result = torch.autograd.grad(loss, [x, maps])
            torch.testing.assert_close(result, wanted)
            with torch.no_grad():
                maps.mul_(1)  # so that it is sent again
        del B, loss


# What callers do between calls.


@under_two_schedules
@on_both_bases
def test_weights_may_be_changed_as_soon_as_the_operator_was_applied(
    base: str, schedule: str
) -> None:
    maps, x = torch.rand(4, 6, dtype=torch.complex128), torch.rand(6, dtype=torch.complex128)
    with machine(schedule):
        own = there(maps, base)
        A = sense(own)
        B = create_batched_linop(A, BatchSpec({"C": 1}, ["sim:1", "sim:0", "sim:2"], base))
        results = []
        for _ in range(3):
            results.append(B.N(there(x, base)))
            own.mul_(2)
        del A, B
        for power, y in enumerate(results):
            torch.testing.assert_close(y.cpu(), sense(maps * 2**power).N(x))
        del y, own
        results.clear()


@under_two_schedules
@on_both_bases
def test_gradients_reach_weights_from_every_device(base: str, schedule: str) -> None:
    maps = nn.Parameter(torch.rand(4, 6, dtype=torch.complex128))
    A = sense(maps)
    x = torch.rand(6, dtype=torch.complex128, requires_grad=True)
    wanted = torch.autograd.grad(A.N(A.H(A(x))).abs().sum(), [x, maps])
    with machine(schedule):
        B = create_batched_linop(A, BatchSpec({"C": 1}, ["sim:1", "sim:2", "sim:0", "cpu"], base))
        loss = B.N(B.H(B(x.to(base)))).abs().sum()
        torch.testing.assert_close(torch.autograd.grad(loss, [x, maps]), wanted)
        del B, loss


def test_an_operator_with_other_weights_sees_whether_autograd_follows_them() -> None:
    A = Add(*(Diagonal(torch.rand(4), ("N",)) for _ in range(2)))
    x = torch.rand(4, requires_grad=True)
    with machine():
        B = create_batched_linop(A, BatchSpec({"N": 2}, ["sim:1"], "cpu"))
        assert isinstance(B, BatchedLinop) and not B._is_trained()
        weights = []

        def followed(weight: Tensor) -> Tensor:
            weights.append(weight.clone().requires_grad_())
            return weights[-1]

        C = B.with_weights(followed)
        assert isinstance(C, BatchedLinop) and C._is_trained()
        result = torch.autograd.grad(C(x).sum(), weights)
        assert all(gradient.abs().max() > 0 for gradient in result)
        del B, C


# Hooks.


@pytest.mark.parametrize("is_followed", [False, True])
def test_hooks_of_tiles_on_other_devices_are_called(is_followed: bool) -> None:
    A = Dense(torch.rand(4, 6), ("M", "N"))
    x = torch.rand(6, requires_grad=is_followed)
    with machine():
        B = create_batched_linop(A, BatchSpec({"M": 2}, ["sim:1", "sim:2"], "cpu"))
        torch.testing.assert_close(B(x), A(x))
        tile = B.linops[0]
        doubled = tile.register_forward_hook(lambda _, args, result: 2 * result)
        torch.testing.assert_close(B(x), torch.cat([2 * A(x)[:2], A(x)[2:]]))
        doubled.remove()
        torch.testing.assert_close(B(x), A(x))
        seen: list[nn.Module] = []
        handle = nn.modules.module.register_module_forward_pre_hook(
            lambda module, _: seen.append(module)
        )
        B(x)
        handle.remove()
        assert [type(module) for module in seen].count(Dense) == 2  # what computes
        assert is_followed or seen.count(tile) == 1  # in training a copy is called in its place
        seen.clear()
        del B, tile


# Mistakes.


class Fragile(Diagonal):
    """Fails when it is called for the n-th time."""

    n_calls_left = 0

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        Fragile.n_calls_left -= 1
        if Fragile.n_calls_left == 0:
            raise KeyError("a tile fails")
        return Diagonal.fn(linop, x)


@on_both_bases
@pytest.mark.parametrize("n_calls", [1, 2, 5, 6])
def test_an_exception_midway_leaves_nothing_behind(base: str, n_calls: int) -> None:
    A = Fragile(torch.rand(6, dtype=torch.complex128), ("N",))
    x = torch.rand(6, dtype=torch.complex128)
    with machine("random", n_calls) as world:
        B = create_batched_linop(A, BatchSpec({"N": 1}, ["sim:1", "sim:2", base], base))
        sent = there(x, base)
        before = [world.allocated_nbytes(device) for device in world.devices]
        Fragile.n_calls_left = n_calls
        with pytest.raises(KeyError, match="a tile fails"):
            B(sent)
        sent.mul_(2)
        gc.collect()
        assert [world.allocated_nbytes(device) for device in world.devices] == before
        y = B(sent)
        del B, sent
        torch.testing.assert_close(y.cpu(), A(2 * x))
        del y


@on_both_bases
@pytest.mark.parametrize("devices", [["sim:1"], ["sim:0", "cpu"]])
def test_a_tile_that_returns_another_shape_is_refused(base: str, devices: list[str]) -> None:
    good = Diagonal(torch.rand(2), ("N",))
    short = SimpleLinop(lambda x: x[:1], lambda x: x, ishape=("N",))
    with machine():
        B = create_batched_linop(
            Concat(good, good, idim="N", odim="N"), BatchSpec({"N": 2}, devices, base)
        )
        first, second = B.tiles.parts
        parts = [first, Part(short, second.window, second.devices)]
        C = B.with_tiles(Tiles(B.shape, parts, B.tiles.lengths))
        with pytest.raises(ValueError, match=r"a tile must return shape \(2,\), got \(1,\)"):
            C(torch.rand(4).to(base))
        del B, C, first, second, parts


# Threads and memory.


@under_two_schedules
@on_both_bases
def test_two_threads_apply_one_operator_at_once(base: str, schedule: str) -> None:
    A = sense()
    vectors = torch.rand(2, 6, dtype=torch.complex128)
    result: dict[int, list[Tensor]] = {}
    with machine(schedule):
        spec = BatchSpec({"C": 1}, ["sim:1", "sim:2", base], base)
        operators = [create_batched_linop(A, spec, max_in_flight=1).N]
        together = threading.Barrier(2)

        def apply(number: int) -> None:
            together.wait()
            results = [operators[0](there(vectors[number], base)) for _ in range(4)]
            result[number] = [y.cpu() for y in results]

        threads = [threading.Thread(target=apply, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        operators.clear()
    for number, vector in enumerate(vectors):
        for y in result[number]:
            torch.testing.assert_close(y, A.N(vector))


@on_both_bases
@pytest.mark.parametrize("max_in_flight", [1, 2, 3])
@pytest.mark.parametrize("schedule", ["eager", "newest"])
def test_a_device_holds_its_weights_and_a_window_of_tiles(
    base: str, max_in_flight: int, schedule: str
) -> None:
    n, tile = 12, 2
    A = Diagonal(torch.rand(n, dtype=torch.float64), ("N",))
    x = torch.rand(n, dtype=torch.float64)
    bound = 8 * (n + 2 * max_in_flight * tile)  # of a tile: input and output
    spec = BatchSpec({"N": tile}, ["sim:1"], base)
    with machine(schedule) as world:
        B = create_batched_linop(A, spec, max_in_flight=max_in_flight)
        sent = there(x, base)
        B(sent)  # which tests the way, with memory of its own
        world.reset_peak()
        world.moved.clear()
        y = B(sent)
        assert sorted(world.moved) == sorted(
            [(base, "sim:1", 8 * tile)] * 6 + [("sim:1", base, 8 * tile)] * 6
        )
        assert world.peak_nbytes("sim:1") == bound
        assert world.peak_nbytes("sim:0") == (8 * 2 * n if base == "sim:0" else 0)
        torch.testing.assert_close(y.cpu(), A(x))
        del B, sent, y
    if base == "cpu":
        with machine(schedule, memory=bound):
            y = create_batched_linop(A, spec, max_in_flight=max_in_flight)(x)
            torch.testing.assert_close(y, A(x))


class Alive:
    """How many tensors of those that were noted are there at a time, at most."""

    def __init__(self) -> None:
        self.noted: list[weakref.ref[Tensor]] = []
        self.at_most = 0

    def note(self, tensor: Tensor) -> Tensor:
        self.noted.append(weakref.ref(tensor))
        self.at_most = max(self.at_most, sum(ref() is not None for ref in self.noted))
        return tensor


class Noted(Diagonal):
    """Has its results on the host noted."""

    alive = Alive()

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        y = Diagonal.fn(linop, x)
        return Noted.alive.note(y) if y.device.type == "cpu" else y


@pytest.mark.parametrize("max_in_flight", [1, 2, 3])
@pytest.mark.parametrize("devices", [["sim:1"], ["sim:1", "sim:2"], ["sim:1", "cpu", "cpu"]])
def test_so_many_results_as_are_in_flight_wait_on_the_host(
    devices: list[str], max_in_flight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty_pinned = World.empty_pinned
    n_lanes = len({*devices} - {"cpu"})
    x = torch.rand(12, dtype=torch.float64)

    def noted_if_a_result(world: World, like: Tensor) -> Tensor:
        pinned = empty_pinned(world, like)
        return pinned if pinned.dtype == torch.uint8 else Noted.alive.note(pinned)  # or staging

    with machine("oldest"):
        A = Noted(torch.rand(12, dtype=torch.float64), ("N",))
        spec = BatchSpec({"N": 1}, devices, "cpu")
        B = create_batched_linop(A, spec, max_in_flight=max_in_flight)
        B(x)  # which tests the way, with memory of its own
        monkeypatch.setattr(Noted, "alive", Alive())
        monkeypatch.setattr(World, "empty_pinned", noted_if_a_result)
        torch.testing.assert_close(B(x), x * A.weight)
        assert len(Noted.alive.noted) == 12
        # One that is put where it belongs, beside those that wait and the last of each device.
        n_lasting = n_lanes * max_in_flight if "cpu" in devices else 0
        assert Noted.alive.at_most <= n_lanes * max_in_flight + n_lasting + 1
        del B


@on_both_bases
@pytest.mark.parametrize("devices", [["sim:1"], ["sim:1", "sim:2"]])
def test_devices_work_while_vectors_travel(base: str, devices: list[str]) -> None:
    A = Diagonal(torch.rand(8), ("N",))
    with simulated(3) as world:
        B = create_batched_linop(A, BatchSpec({"N": 1}, devices, base))
        x = torch.rand(8).to(base)
        B(x)
        world.synchronize()
        world.set_cost(copy=1.0, kernel=lambda name, _: 2.0 * ("mul" in name))
        B(x)
        world.synchronize()
        # The first input, then work without a pause, then the last result.
        assert world.timeline().makespan == 1 + 2 * 8 / len(devices) + 1


@on_both_bases
def test_a_normal_sends_its_input_once_and_returns_one_sum_of_each_device(base: str) -> None:
    A = sense()
    x = torch.rand(6, dtype=torch.complex128)
    with machine() as world:
        B = create_batched_linop(A, BatchSpec({"C": 1}, ["sim:1", "sim:2"], base)).N
        sent = there(x, base)
        B(sent)
        world.moved.clear()
        y = B(sent)
        hops = {("cpu", "sim:1"), ("sim:1", "cpu"), ("cpu", "sim:2"), ("sim:2", "cpu")}
        if base == "sim:0":  # and to the last one by way of the host
            hops = {("sim:0", "sim:1"), ("sim:1", "sim:0"), ("sim:0", "cpu"), ("cpu", "sim:2")}
        assert {(here, there, n) for here, there, n in world.moved} >= {
            (*h, x.nbytes) for h in hops
        }
        n_hops = 4 if base == "cpu" else 5
        assert len(world.moved) == n_hops
        torch.testing.assert_close(y.cpu(), A.N(x))
        del B, sent, y


@pytest.mark.parametrize("schedule", ["newest", "oldest", "random"])
def test_tiles_on_two_streams_of_a_device_follow_the_weights(schedule: str) -> None:
    with simulated(2, schedule=schedule) as world:
        streams = [world.new_stream("sim:1") for _ in range(2)]
        weight, vector = torch.rand(6, 4), torch.rand(4)
        there = weight.to("sim:0")
        devices = [DeviceSpec("sim:1", cast(Any, stream)) for stream in streams]
        A = Dense(there, ("M", "N"))
        B = create_batched_linop(A, BatchSpec({"M": 3}, devices, base_device="sim:0"))
        x, results = vector.to("sim:0"), []
        for _ in range(3):
            results.append(B(x))
            there.mul_(2)
        for number, y in enumerate(results):
            torch.testing.assert_close(y.cpu(), 2**number * (weight @ vector))


def test_integers_are_summed_in_int64_over_devices() -> None:
    D = Diagonal(torch.ones(4, dtype=torch.bool), ("N",))
    A, x = Stack(D, D, D, odim_and_idx=("C", 0)), torch.full((4,), 100, dtype=torch.uint8)
    with machine():
        spec = BatchSpec({"C": 1}, ["sim:0", "sim:1", "cpu"], base_device="cpu")
        batched = create_batched_linop(A, spec)
        assert batched.N(x).tolist() == A.N(x).tolist() == [300] * 4
        del batched


def test_the_tiles_of_an_endomorphism_on_devices_make_one() -> None:
    normal, x = Dense(torch.rand(4, 3)).N, torch.rand(3)
    with machine():
        spec = BatchSpec({"N": 1}, ["sim:0", "sim:1"], base_device="cpu")
        batched = create_batched_linop(normal, spec)
        torch.testing.assert_close((batched + 0.1 * Identity())(x), normal(x) + 0.1 * x)
        del batched


def test_a_tile_is_told_the_sizes_that_only_another_one_knows() -> None:
    weight = torch.rand(1)
    one, other = Dense(weight, ("A",), ("A",), ("A",)), Dense(weight[0], (), ("A",), ("A",))
    A = Stack(one, other, odim_and_idx=("E", 1))
    specs = [BatchSpec({"E": 1}, ["cpu", "cpu"]), BatchSpec({"A": 1})]
    x = torch.rand(1)
    torch.testing.assert_close(create_batched_linop(A, specs)(x), A(x))


@pytest.mark.parametrize("form", ["A", "H", "N", "chain"])
def test_vectors_for_a_batched_operator_are_made_on_its_base(form: str) -> None:
    """And not where its weights are, or where its tiles compute."""
    weight = torch.rand(6, 4)
    with simulated(3):
        A = Dense(weight, ("M", "N"), ("N",), ("M",))
        spec = BatchSpec({"M": 2}, ["sim:1", "sim:2"], base_device="sim:0")
        B: NamedLinop = create_batched_linop(A, spec)
        if form == "chain":
            B = B @ Identity(("N",))
        elif form != "A":
            A, B = getattr(A, form), getattr(B, form)
        base = torch.device("sim:0")
        assert B.input_devices == (base,)
        matrix = A.to_dense(dtype=torch.float32)
        result = B.to_dense(dtype=torch.float32)
        assert result.device == base
        torch.testing.assert_close(result.cpu(), matrix)
        if form in ("A", "chain"):  # the others are inside of what they apply
            norms = torch.linalg.svdvals(matrix)
            assert operator_norm(B).item() == pytest.approx(norms[0].item(), rel=1e-3)
            torch.testing.assert_close(svd(B, 2).S.cpu(), norms[:2], rtol=1e-3, atol=1e-3)
        del B, result


# Operators that move between devices already.


@pytest.mark.parametrize(
    ("first", "again", "dim"),
    [
        (["cpu"], ["sim:0", "sim:1"], "M"),
        (["cpu"], None, "N"),
        (["sim:0"], ["sim:2"], "N"),
        (["sim:0"], ["cpu"], "M"),
        (["sim:0"], None, "M"),
        (["sim:0", "sim:1"], ["sim:2"], "M"),
        (["sim:0", "sim:1"], ["sim:0", "sim:1"], "N"),
        (["sim:0", "sim:1"], ["cpu"], "N"),
    ],
)
def test_what_is_batched_is_batched_again(first: Any, again: Any, dim: str) -> None:
    weight = nn.Parameter(torch.rand(4, 6, dtype=torch.complex128), requires_grad=False)
    A, x = Dense(weight, ("M", "N")), torch.rand(6, dtype=torch.complex128)
    with machine():
        once = create_batched_linop(A, BatchSpec({"M": 2}, first, "cpu"))
        B = create_batched_linop(once, BatchSpec({dim: 1}, again, "cpu"))
        check_all(B, A, "cpu")
        with torch.no_grad():
            weight.mul_(2)
        torch.testing.assert_close(B.N(x), A.N(x))
        weight.requires_grad_()
        torch.autograd.backward(B(x).abs().sum())
        result, weight.grad = weight.grad, None
        torch.autograd.backward(A(x).abs().sum())
        assert result is not None and weight.grad is not None
        torch.testing.assert_close(result, weight.grad)
        del once, B


def test_what_moves_between_devices_is_batched_on_another() -> None:
    weight = torch.rand(4, 6, dtype=torch.complex128)
    with machine():
        there = Dense(weight.to("sim:0"), ("M", "N"))
        A = ToDevice("sim:0", "cpu", ("M",)) @ there @ ToDevice("cpu", "sim:0", ("N",))
        B = create_batched_linop(A, BatchSpec({"M": 2}, ["sim:1", "sim:2"], "cpu"))
        check_all(B, Dense(weight, ("M", "N")), "cpu")
        del there, A, B


def _moved_weights_are_refused(
    first: str, devices: list[str], moved: str, is_trained: bool
) -> None:
    weight = nn.Parameter(torch.ones(4, 5), requires_grad=is_trained)
    A = Dense(weight, ("M", "N")).to(first)
    base = "cpu" if first == "cpu" else "sim:0"
    B = create_batched_linop(A, BatchSpec({"M": 2}, devices, base_device=base))
    x = torch.ones(5, device=base)
    assert torch.equal(B(x).detach().cpu(), torch.full((4,), 5.0))
    A.to(moved)
    if first in devices and not is_trained:  # in training all tiles follow their weights
        message = (
            rf"the weights of Dense \(N\) -> \(M\) must stay on {first}, where they were when "
            rf"it was batched, got weights on {moved}; call create_batched_linop again"
        )
        with pytest.raises(ValueError, match=message):
            B(x)
        B = create_batched_linop(A, BatchSpec({"M": 2}, devices, base_device=base))
    assert torch.equal(B(x).detach().cpu(), torch.full((4,), 5.0))


@pytest.mark.parametrize(
    ("first", "devices", "moved"),
    [("cpu", ["cpu", "sim:0"], "sim:1"), ("sim:0", ["sim:0"], "cpu"), ("sim:0", ["cpu"], "sim:1")],
)
@pytest.mark.parametrize("is_trained", [False, True])
def test_weights_that_were_moved_away_from_their_tile_are_refused(
    first: str, devices: list[str], moved: str, is_trained: bool
) -> None:
    with machine():
        _moved_weights_are_refused(first, devices, moved, is_trained)
        gc.collect()


@on_both_bases
@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.torch.jit.script:FutureWarning")
def test_transforms_of_functions_see_the_matrix(base: str) -> None:
    weight = torch.rand(4, 3, dtype=torch.float64)
    A = Dense(weight, ("M", "N"), ("N",), ("M",))
    with simulated(3):
        B = create_batched_linop(A, BatchSpec({"M": 2}, ["sim:0", "sim:1"], base_device=base))
        x = torch.rand(3, dtype=torch.float64).to(base)
        torch.testing.assert_close(torch.func.jvp(B, (x,), (x,))[1].cpu(), weight @ x.cpu())
        for jacobian in (torch.func.jacrev, torch.func.jacfwd):
            torch.testing.assert_close(jacobian(B)(x).cpu(), weight)
        curvature = torch.func.hessian(lambda x: B(x).square().sum())(x).cpu()
        torch.testing.assert_close(curvature, 2 * weight.T @ weight)
        with pytest.raises(NotImplementedError, match="streams and transfers must not be traced"):
            torch.func.linearize(B, x)
