"""Gradients to weights and input of batched operators, tile by tile, against the whole operators.

Shapes: C coils, K samples, M rows, N columns, Nx a grid.
"""

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from linops_core import (
    FFT,
    Add,
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
from linops_multigpu import BatchedLinop, BatchSpec, DeviceSpec, create_batched_linop
from linops_multigpu.testing import SCHEDULES, World, simulated
from linops_split import Part, Tiles
from linops_split.testing import batch_sizes
from nameddim import NamedShape

pytestmark = [pytest.mark.usefixtures("simulation"), pytest.mark.each_value]

BASES = ["cpu", "sim:0"]
DEVICES = ["cpu", "sim:0", "sim:1", "sim:2"]
on_both_bases = pytest.mark.parametrize("base", BASES)
# A race is found under each schedule, wrong values under one that does late what it can.
IS_THOROUGH = settings.get_current_profile_name() == "thorough"
CHOSEN = SCHEDULES if IS_THOROUGH else ("newest", "random")
under_all_schedules = pytest.mark.parametrize("schedule", CHOSEN)


@contextmanager
def machine(schedule: str = "newest", seed: int = 0) -> Iterator[World]:
    """Three devices, of which the first does not reach the last; nothing may be left on them."""
    with simulated(3, schedule=schedule, seed=seed) as world:
        world.cut_link("sim:0", "sim:2")
        yield world
        if any(map(world.allocated_nbytes, world.devices)):  # cycles may hold it
            gc.collect()
        assert [world.allocated_nbytes(device) for device in world.devices] == [0, 0, 0]


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.rand(shape, dtype=torch.complex128))


def sense(maps: nn.Parameter) -> NamedLinop:
    S = Dense(maps, ("C", "Nx"), ("Nx",), ("C", "Nx"))
    return Sampling([torch.tensor([0, 2, 5])], [6]) @ FFT(1, ("C",)) @ S


def runs_the_plan(linop: NamedLinop, x: Tensor) -> Tensor:
    """Apply an operator; its gradients must be by tiles."""
    y: Tensor = linop(x)
    assert type(y.grad_fn).__name__ == "_RecordedBackward"
    return y


def planned(linop: NamedLinop) -> Callable[[Tensor], Tensor]:
    """Return an operator as a function that must run the plan."""
    return partial(runs_the_plan, linop)


def gradients(
    linop: Callable[[Tensor], Tensor], x: Tensor, weights: Sequence[Tensor], base: str = "cpu"
) -> list[Tensor]:
    """Return the gradients of a sum of random weight to the input, if it has one, and weights."""
    of = [x, *weights] if x.requires_grad else [*weights]
    y = linop(x.to(base))
    generator = torch.Generator().manual_seed(0)
    factor = torch.rand(y.shape, dtype=torch.complex128, generator=generator).to(base)
    loss = (factor * y).abs().pow(2).sum()
    if not loss.requires_grad:  # of a Zero
        return [torch.zeros_like(tensor) for tensor in of]
    result = torch.autograd.grad(loss, of, allow_unused=True)
    return [
        torch.zeros_like(tensor) if gradient is None else gradient
        for tensor, gradient in zip(of, result, strict=True)
    ]


def check(
    B: NamedLinop, A: NamedLinop, base: str, n: int = 6, weights: Sequence[Tensor] = ()
) -> None:
    """Compare gradients of all directions, and of the normal where the input has none."""
    weights = weights or [weight for weight in A.parameters() if weight.requires_grad]
    for is_followed in (True, False):
        x = torch.rand(n, dtype=torch.complex128)
        y = A(x).detach()
        of_all = ((B.N, A.N, x), (B, A, x), (B.H, A.H, y))
        for batched, whole, vector in of_all[: 3 if is_followed else 1]:
            start = vector.clone().requires_grad_(is_followed)
            wanted = gradients(whole, start, weights)
            result = gradients(planned(batched), start, weights, base)
            torch.testing.assert_close(result, wanted)


# Any operator.


def holds_what_moves(linop: NamedLinop) -> bool:
    """Whether it is made of operators that can be placed; what functions hold does not move."""
    return not any(isinstance(part, SimpleLinop) for part in linop.modules())


@settings(max_examples=settings().max_examples // 2)
@given(st.data())
def test_gradients_of_any_operator_are_those_of_the_whole(data: st.DataObject) -> None:
    known = data.draw(
        trees(2).filter(lambda known: holds_what_moves(known.linop)) | sums_of_views()
    )
    A = known.linop
    weights = [weight for weight in A.parameters() if weight.requires_grad]
    base = data.draw(st.sampled_from(BASES))
    devices = data.draw(st.lists(st.sampled_from(DEVICES), min_size=1, max_size=3))
    sizes = data.draw(batch_sizes(A))
    which = data.draw(st.sampled_from([lambda A: A, lambda A: A.H, lambda A: A.N]))
    of = known.spaces.sizes
    lengths = [of.get(str(dim), of.get(dim.name, 1)) for dim in which(A).ishape]
    dtype = data.draw(st.sampled_from([torch.complex128, torch.float64]))
    x = torch.randn(lengths, dtype=dtype).requires_grad_(data.draw(st.booleans()))
    has_streams = data.draw(st.booleans())
    max_in_flight = data.draw(st.integers(1, 3))
    if not weights and not x.requires_grad:
        return
    wanted = gradients(which(A), x, weights)
    with machine(data.draw(st.sampled_from(SCHEDULES)), data.draw(st.integers(0, 9))) as world:
        spec = BatchSpec(sizes, devices if sizes else devices[0], base)
        B = create_batched_linop(A, spec, max_in_flight=max_in_flight)
        with ExitStack() as streams:
            for device in world.devices if has_streams else ():
                streams.enter_context(world.using(world.new_stream(device)))
            for _ in range(2):
                result = gradients(which(B), x, weights, base)
                torch.testing.assert_close(result, wanted)
        del B


WAYS: list[list[Callable[[NamedLinop], NamedLinop]]] = [
    [lambda A: A],
    [lambda A: A.N],
    [lambda A: A, lambda A: A.H],
    [lambda A: A.N, lambda A: A],
]


@settings(max_examples=settings().max_examples // 2)
@given(st.data())
def test_any_weights_train_any_gradients_are_asked_for_and_vectors_are_freed_at_any_time(
    data: st.DataObject,
) -> None:
    draw = data.draw
    trained = draw(st.lists(st.booleans(), min_size=2, max_size=3).filter(any))
    along: dict[str, Any] = {draw(st.sampled_from(["idim_and_idx", "odim_and_idx"])): ("K", 0)}
    base, home = "sim:0", draw(st.sampled_from(BASES))  # a host waits for its copies
    devices = draw(st.permutations([*DEVICES, "sim:1"]))[: len(trained)]
    way = draw(st.sampled_from(WAYS))
    uses = draw(st.lists(st.booleans(), min_size=len(way), max_size=len(way)).filter(any))
    x_trains, is_held = draw(st.sampled_from([False, False, True])), draw(st.booleans())
    asked = draw(st.sets(st.integers(0, sum(trained) + x_trains - 1), min_size=1))
    values = torch.rand(len(trained), 3, 4, dtype=torch.complex128)

    def made(home: str) -> NamedLinop:
        weights = zip(values, trained, strict=True)
        return Stack(
            *[Dense(nn.Parameter(v.to(home), is_trained), ("M", "N")) for v, is_trained in weights],
            **along,
        )

    def found(A: NamedLinop, B: NamedLinop, base: str) -> list[Tensor]:
        x = torch.ones([n or 0 for n in A.sizes("input")], dtype=torch.complex128).to(base)
        x.requires_grad_(x_trains)
        of = [tensor for tensor in (*A.parameters(), x) if tensor.requires_grad]
        y, loss, held = x + 1, torch.zeros(()).to(base), list[Tensor]()
        for step, is_used in zip(way, uses, strict=True):
            y = step(B)(y)
            loss = loss + y.abs().square().sum() * is_used
            held += [y] * is_held
        del x, y
        gradients = torch.autograd.grad(loss, [of[number] for number in asked], allow_unused=True)
        return [torch.zeros(1) if g is None else g.cpu() for g in gradients]

    A = made("cpu")
    wanted = found(A, A, "cpu")
    with machine(draw(st.sampled_from(SCHEDULES)), draw(st.integers(0, 9))):
        A = made(home)
        B = create_batched_linop(A, BatchSpec({"K": 1}, devices, base))
        torch.testing.assert_close(found(A, B, base), wanted)
        del A, B


# The plan.


@on_both_bases
@pytest.mark.parametrize("n_devices", [1, 2, 3])
def test_weights_that_train_cost_no_time_and_no_transfers_forward(
    base: str, n_devices: int
) -> None:
    results = []
    for is_trained in (False, True):
        weight = nn.Parameter(torch.rand(8), is_trained)
        with simulated(4) as world:
            devices = [f"sim:{k}" for k in range(1, n_devices + 1)]
            spec = BatchSpec({"N": 1}, devices, base)
            B = create_batched_linop(Diagonal(weight, ("N",)), spec)
            x = torch.rand(8).to(base)
            B(x)  # which tests the way
            world.synchronize()
            world.moved.clear()
            world.set_cost(copy=1.0, kernel=lambda name, _: 2.0 * ("mul" in name))
            y = B(x)
            world.synchronize()
            assert y.requires_grad is is_trained
            results.append((world.timeline().makespan, sorted(world.moved)))
            assert world.timeline().makespan == 1 + 2 * -(-8 // n_devices) + 1
            del B, x, y
    assert results[0] == results[1]


@on_both_bases
def test_a_gradient_to_weights_alone_sends_nothing_to_tiles_that_train_nothing(base: str) -> None:
    with simulated(3) as world:
        weights = [nn.Parameter(torch.rand(6), n == 1) for n in range(4)]
        stacked = Stack(*[Diagonal(weight, ("N",)) for weight in weights], odim_and_idx=("C", 0))
        spec = BatchSpec({"C": 1}, ["sim:1", "sim:2", "sim:1", "sim:2"], base)
        B = create_batched_linop(stacked, spec)
        x = torch.rand(6).to(base)
        y = runs_the_plan(B, x)
        world.synchronize()
        world.moved.clear()
        torch.autograd.backward(y, torch.ones(4, 6).to(base))
        world.synchronize()
        n_sent = [world.moved.count((base, f"sim:{number}", 24)) for number in (1, 2)]
        assert n_sent == [0, 2]  # tile 1 needs its gradient and x
        assert weights[1].grad is not None
        torch.testing.assert_close(weights[1].grad, x.cpu())
        del B, x, y


@on_both_bases
def test_a_training_step_of_a_normal_sends_what_must_be_sent_once(base: str) -> None:
    maps = parameter(4, 6)
    with machine() as world:
        spec = BatchSpec({"C": 1}, ["sim:1", "sim:1"], base)
        B = create_batched_linop(sense(maps), spec).N
        x = torch.rand(6, dtype=torch.complex128).to(base).requires_grad_()
        runs_the_plan(B, x)
        world.moved.clear()
        y = runs_the_plan(B, x)
        there, back = (base, "sim:1", 6 * 16), ("sim:1", base, 6 * 16)
        assert world.moved == [there, back]
        world.moved.clear()
        gradient = torch.ones(6, dtype=torch.complex128).to(base)
        world.moved.clear()
        torch.autograd.backward(y, gradient)
        of_weights = [("sim:1", "cpu", 6 * 16)] * 4
        assert sorted(world.moved) == sorted([there, there, back, *of_weights])
        assert maps.grad is not None
        del B, x, y, gradient


@pytest.mark.parametrize("max_in_flight", [1, 2])
@on_both_bases
def test_a_training_step_needs_weights_their_gradients_and_the_tiles_in_flight(
    base: str, max_in_flight: int
) -> None:
    n_coils, n = 16, 64
    maps = parameter(n_coils, n)
    S = Dense(maps, ("C", "Nx"), ("Nx",), ("C", "Nx"))
    tile = 16 * n
    with machine("eager") as world:
        A = FFT(1, ("C",)) @ S
        B = create_batched_linop(
            A, BatchSpec({"C": 1}, ["sim:1"], base), max_in_flight=max_in_flight
        )
        x = torch.rand(n, dtype=torch.complex128).to(base).requires_grad_()
        y = torch.rand(n_coils, n, dtype=torch.complex128).to(base)
        for _ in range(2):
            maps.grad = x.grad = None
            world.synchronize()
            world.reset_peak()
            loss = (runs_the_plan(B, x) - y).abs().square().sum()
            torch.autograd.backward(loss)
        del loss
        # The input; of each tile in flight a gradient; the workspace of one; the sum for the input.
        n_tiles = 1 + max_in_flight + 8 + 1
        assert world.peak_nbytes("sim:1") <= 2 * maps.nbytes + n_tiles * tile
        del B, x, y


def test_a_training_step_on_one_device_goes_tile_by_tile() -> None:
    n_coils, n = 16, 64
    maps = parameter(n_coils, n)
    with machine("eager") as world:
        there = nn.Parameter(maps.detach().to("sim:0"))
        A = FFT(1, ("C",)) @ Dense(there, ("C", "Nx"), ("Nx",), ("C", "Nx"))
        B = create_batched_linop(A, BatchSpec({"C": 1}, ["sim:0"], "sim:0")).N
        x = torch.rand(n, dtype=torch.complex128).to("sim:0").requires_grad_()
        y = runs_the_plan(B, x)
        world.synchronize()
        world.reset_peak()
        torch.autograd.backward(y, torch.ones_like(y))
        image = 16 * n
        # Weights and their gradient; x, y, the gradients to both; the workspace of one tile.
        assert world.peak_nbytes("sim:0") <= 2 * maps.nbytes + 4 * image + 8 * image
        del A, B, x, y, there


# Under every schedule.


@pytest.mark.parametrize(("base", "schedule"), [*zip(cycle(BASES), CHOSEN), ("sim:0", CHOSEN[0])])
@pytest.mark.parametrize("devices", [["sim:1", "sim:2", "sim:0", "cpu"], ["sim:1"]])
def test_gradients_are_right_whatever_is_done_first(
    devices: list[str], base: str, schedule: str
) -> None:
    maps = parameter(3, 6)
    A = sense(maps)
    with machine(schedule):
        spec = BatchSpec({"C": 1, "K": 2}, devices, base)
        B = create_batched_linop(A, spec, max_in_flight=1)
        check(B, A, base)
        del B


@under_all_schedules
def test_gradients_are_right_on_streams_that_are_given(schedule: str) -> None:
    maps = parameter(3, 6)
    with machine(schedule) as world:
        streams: list[Any] = [world.new_stream(d) for d in ("sim:0", "sim:1", "sim:1")]
        devices: list[Any] = [*(DeviceSpec("sim:1", stream) for stream in streams[1:]), "sim:0"]
        spec = BatchSpec({"C": 1}, devices, "sim:0", streams[0])
        check(create_batched_linop(sense(maps), spec, max_in_flight=1), sense(maps), "sim:0")
        # Weights that are on the devices, and on the streams of the caller.
        there = nn.Parameter(maps.detach().to("sim:1"))
        B = create_batched_linop(sense(there), spec, max_in_flight=1)
        for _ in range(2):
            x = torch.rand(6, dtype=torch.complex128)
            start = x.clone().requires_grad_()
            wanted = gradients(sense(maps), start, [maps])
            result = gradients(planned(B), start, [there], "sim:0")
            torch.testing.assert_close([v.cpu() for v in result], wanted)
            with torch.no_grad():
                there.mul_(2)
                maps.mul_(2)
        del B, there, result


@under_all_schedules
def test_weights_are_waited_for_on_the_stream_of_the_backward_pass(schedule: str) -> None:
    maps = parameter(4, 6)
    A = sense(maps)
    with machine(schedule) as world:
        B = create_batched_linop(A, BatchSpec({"C": 1}, ["sim:1"], "cpu"))
        x = torch.rand(6, dtype=torch.complex128)
        y = runs_the_plan(B, x).abs().sum()
        with world.using(world.new_stream("sim:1")):
            result = torch.autograd.grad(y, maps)
        torch.testing.assert_close(result, torch.autograd.grad(A(x).abs().sum(), maps))
        del B, y


@under_all_schedules
def test_sums_that_begin_with_a_view_of_a_gradient(schedule: str) -> None:
    factor = parameter(4)
    A = Stack(*[Identity(("N",))] * 3, *[Diagonal(factor, ("N",))] * 3, idim_and_idx=("K", 0))
    with machine(schedule):
        B = create_batched_linop(A, BatchSpec({"K": 1}, ["sim:1"], "sim:0"), max_in_flight=1)
        for operator, whole, lengths in ((B, A, [6, 4]), (B.H, A.H, [4])):
            x = torch.rand(lengths, dtype=torch.complex128, requires_grad=True)
            result = gradients(planned(operator), x, [factor], "sim:0")
            torch.testing.assert_close(result, gradients(whole, x, [factor]))
        del B, operator


@pytest.mark.parametrize("n_streams", [0, 1])
@under_all_schedules
def test_inputs_and_gradients_may_be_conjugates(schedule: str, n_streams: int) -> None:
    A = Diagonal(parameter(6), ("N",))
    with machine(schedule) as world:
        streams: list[Any] = [world.new_stream("sim:0") for _ in range(n_streams)]
        spec = BatchSpec({"N": 1}, ["sim:1"], "sim:0", *streams)
        B = create_batched_linop(A, spec, max_in_flight=1)
        x = torch.rand(6, dtype=torch.complex128, requires_grad=True)
        gradient = torch.rand(6, dtype=torch.complex128)
        y = runs_the_plan(B, x.to("sim:0").conj())
        result = torch.autograd.grad(y, [x, A.weight], gradient.to("sim:0").conj())
        wanted = torch.autograd.grad(A(x.conj()), [x, A.weight], gradient.conj())
        torch.testing.assert_close(result, wanted)
        del B, y


class Shifted(Diagonal):
    """Adds its weight, whose gradient is the one that comes in."""

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        y: Tensor = x + linop.weight
        return y


@under_all_schedules
def test_a_gradient_of_a_weight_may_be_the_one_that_was_sent(schedule: str) -> None:
    weight = parameter(4)
    A = Stack(*[Shifted(weight, ("N",))] * 6, odim_and_idx=("K", 0))
    x = torch.rand(4, dtype=torch.complex128)
    with machine(schedule):
        B = create_batched_linop(A, BatchSpec({"K": 1}, ["sim:1"], "sim:0"), max_in_flight=1)
        result = gradients(planned(B), x, [weight], "sim:0")
        torch.testing.assert_close(result, gradients(A, x, [weight]))
        del B


# Weights.


@on_both_bases
def test_a_weight_that_operands_and_tiles_share_has_one_gradient(base: str) -> None:
    weight = parameter(6)
    D = Diagonal(weight, ("C", "N"), weight_shape=("N",))
    A = D @ D.conj() @ Dense(parameter(5), ("C",), ("N",), ("C", "N"))
    with machine():
        B = create_batched_linop(A, BatchSpec({"C": 1}, ["sim:1", "sim:2", base, "cpu"], base))
        check(B, A, base)
        del B


@on_both_bases
@pytest.mark.parametrize("cut", ["X", "Y"])
def test_tiles_read_parts_of_weights_that_overlap_and_parts_of_inputs(cut: str, base: str) -> None:
    kernel = parameter(3)
    A = Convolution(kernel, (), ("X",), ("Y",), grid_size=[6])
    with machine():
        B = create_batched_linop(A, BatchSpec({cut: 3}, ["sim:1", "sim:0", "sim:2"], base))
        check(B, A, base)
        del B


@on_both_bases
def test_what_weights_are_computed_from_has_gradients(base: str) -> None:
    leaf = parameter(4, 6)
    expanded = parameter(1)
    for weight in (leaf * 2, leaf.T.mul(2).T, leaf.conj(), expanded.expand(4, 6)):
        A = Dense(weight, ("M", "N"))
        of = expanded if weight is not leaf and weight.stride() == (0, 0) else leaf
        x = torch.rand(6, dtype=torch.complex128, requires_grad=True)
        with machine():
            B = create_batched_linop(A, BatchSpec({"M": 1}, ["sim:1", "sim:2", base], base))
            of_tiles = torch.autograd.grad(
                runs_the_plan(B.N, x.to(base)).abs().pow(3).sum(), [x, of], retain_graph=True
            )
            of_whole = torch.autograd.grad(A.N(x).abs().pow(3).sum(), [x, of], retain_graph=True)
            torch.testing.assert_close(of_tiles, of_whole)
            del B


@on_both_bases
def test_integer_weights_and_inputs(base: str) -> None:
    weight = nn.Parameter(torch.rand(4, 6, dtype=torch.float64))
    A = Dense(weight, ("M", "N")) @ Diagonal(torch.arange(6), ("N",))
    x = torch.arange(6)
    with machine():
        B = create_batched_linop(A, BatchSpec({"M": 1}, ["sim:1", "sim:2", base], base))
        result = gradients(planned(B), x, [weight], base)
        torch.testing.assert_close(result, gradients(A, x, [weight]))
        del B


@pytest.mark.parametrize("change", ["write", "data"])
@pytest.mark.parametrize("device", ["sim:0", "sim:1"])
def test_weights_must_stay_until_the_gradient_was_computed(change: str, device: str) -> None:
    maps = parameter(4, 6)
    with machine():
        weight = nn.Parameter(maps.detach().to("sim:0"))
        A = Dense(weight, ("M", "N"))
        B = create_batched_linop(A, BatchSpec({"M": 1}, [device], "sim:0"))
        y = B(torch.rand(6, dtype=torch.complex128).to("sim:0")).abs().sum()
        if change == "write":
            with torch.no_grad():
                weight.mul_(2)
        else:
            weight.data = 2 * weight.detach()
        with pytest.raises(RuntimeError, match=r"weights must not change before the gradient"):
            torch.autograd.grad(y, weight)
        del A, B, y, weight


@pytest.mark.parametrize("device", ["cpu", "sim:1"])
def test_weights_that_were_replaced_have_the_gradient_of_their_call(device: str) -> None:
    """As by an assignment, or at the end of ``functional_call``; also for second derivatives."""
    A = Dense(torch.rand(4, 6, dtype=torch.complex128), ("M", "N"))
    x = torch.rand(6, dtype=torch.complex128)
    with machine():
        B = create_batched_linop(A, BatchSpec({"M": 1}, [device], "cpu"))
        results = []
        for linop in (A, B):
            weight = torch.ones(4, 6, dtype=torch.complex128, requires_grad=True)
            ((name, _),) = linop.named_buffers()
            y = functional_call(linop, {name: weight}, (weight[0] * x,))
            (first,) = torch.autograd.grad(y.abs().pow(3).sum(), weight, retain_graph=True)
            (same,) = torch.autograd.grad(y.abs().pow(3).sum(), weight, create_graph=True)
            results.append([first, same, *torch.autograd.grad(same.abs().pow(2).sum(), weight)])
        torch.testing.assert_close(*results)
        del B, linop, y, results, first, same


def test_the_input_must_stay_until_the_gradient_was_computed() -> None:
    with machine():
        B = create_batched_linop(sense(parameter(4, 6)), BatchSpec({"C": 1}, ["sim:1"], "cpu"))
        x = torch.rand(6, dtype=torch.complex128)
        y = runs_the_plan(B, x).abs().sum()
        x.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.backward(y)
        del B, y


# Operators of users.


class Dropout(Diagonal):
    """Leaves out what chance says."""

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        return Diagonal.fn(linop, x * (torch.rand(x.shape) < 0.5))


def test_operators_that_draw_random_numbers_have_the_gradient_of_what_was_drawn() -> None:
    weight = nn.Parameter(torch.rand(8, dtype=torch.float64) + 1)
    with machine():
        B = create_batched_linop(Dropout(weight, ("N",)), BatchSpec({"N": 1}, ["cpu"], "cpu"))
        for _ in range(5):
            y = B(torch.ones(8, dtype=torch.float64))
            (result,) = torch.autograd.grad(y.sum(), weight)
            assert torch.equal(result, (y != 0).double())
        del B, y


class Counting(Diagonal):
    """Remembers in a buffer how often it was called, and makes use of it."""

    n_calls: Tensor

    def __init__(self, weight: Tensor, ioshape: tuple[str, ...]) -> None:
        super().__init__(weight, ioshape)
        self.register_buffer("n_calls", torch.ones(()))

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        linop.n_calls.add_(1)
        return Diagonal.fn(linop, x) * float(linop.n_calls)


@pytest.mark.parametrize("device", ["cpu", "sim:1"])
def test_operators_that_change_what_they_read_are_refused(device: str) -> None:
    A = Counting(nn.Parameter(torch.rand(8)), ("N",))
    with machine():
        B = create_batched_linop(A, BatchSpec({"N": 4}, device, "cpu"))
        y = B(torch.ones(8)).sum()
        with pytest.raises(RuntimeError, match="weights must not change"):
            torch.autograd.backward(y)
        del B, y


def test_gradients_reach_what_a_function_holds() -> None:
    w = torch.rand(4, dtype=torch.complex128, requires_grad=True)
    held = SimpleLinop(lambda x: w * x, lambda x: w.conj() * x, ishape=("N",))
    weight = parameter(4)
    terms = held @ Diagonal(weight, ("N",)), Diagonal(weight, ("N",))
    A = Add(*terms)
    B = BatchedLinop(Tiles(A.shape, [Part(term) for term in terms], {}), DeviceSpec("cpu"))
    x = torch.rand(4, dtype=torch.complex128, requires_grad=True)
    torch.testing.assert_close(gradients(B, x, [w, weight]), gradients(A, x, [w, weight]))


@pytest.mark.parametrize("is_followed", [False, True])
def test_hooks_of_parts_are_called_and_may_change_what_they_see(is_followed: bool) -> None:
    weight = parameter(4, 6)
    A = Dense(weight, ("M", "N"))
    x = torch.rand(6, dtype=torch.complex128, requires_grad=is_followed)
    with machine():
        B = create_batched_linop(A, BatchSpec({"M": 2}, ["sim:1", "cpu"], "cpu"))
        runs_the_plan(B, x)
        for tile in B.linops:
            n_calls = 0

            def doubled(_: nn.Module, args: Any, result: Tensor) -> Tensor:
                nonlocal n_calls
                n_calls += 1
                return 2 * result

            handle = tile.register_forward_hook(doubled)
            y = B(x)
            assert n_calls == 1
            rows = slice(2) if y[0] != A(x)[0] else slice(2, 4)
            factor = torch.ones(4, dtype=torch.complex128)
            factor[rows] = 2
            actual = gradients(B, x, [weight])
            scaled = Diagonal(factor, ("M",)) @ A
            torch.testing.assert_close(actual, gradients(scaled, x, [weight]))
            handle.remove()
        runs_the_plan(B, x)
        del B, tile, y


def test_autocast_is_that_of_the_forward_pass() -> None:
    weight = nn.Parameter(torch.rand(4, 6))
    A, x = Dense(weight, ("M", "N")), torch.rand(6, requires_grad=True)
    B = create_batched_linop(A, BatchSpec({"M": 2}))
    assert isinstance(B, BatchedLinop)
    results = []
    for linop in (A, B):
        with torch.autocast("cpu", torch.bfloat16):
            y = linop(x)
        results.append([y, *torch.autograd.grad(y.float().sum(), [x, weight])])
    torch.testing.assert_close(results[1], results[0])


def test_gradient_checkpointing_has_the_gradients_of_the_whole() -> None:
    weight = parameter(4, 6)
    A, x = Dense(weight, ("M", "N")), torch.rand(6, dtype=torch.complex128, requires_grad=True)
    with machine():
        B = create_batched_linop(A, BatchSpec({"M": 2}, ["sim:1", "cpu"], "cpu"))
        y = checkpoint(B, x, use_reentrant=False)
        actual = torch.autograd.grad(y.abs().sum(), [x, weight])
        torch.testing.assert_close(actual, torch.autograd.grad(A(x).abs().sum(), [x, weight]))
        del B, y


# Other ways of autograd.


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own formulas
@pytest.mark.parametrize(("device", "dtype"), [("cpu", torch.complex128), ("sim:1", torch.float64)])
def test_gradients_of_gradients_are_those_of_torch(dtype: torch.dtype, device: str) -> None:
    weight = nn.Parameter(torch.rand(2, 3, dtype=torch.complex128))
    A = Dense(weight, ("M", "N"))
    with machine():
        B = create_batched_linop(A, BatchSpec({"M": 2, "N": 2}, [device, "cpu"], "cpu"))
        x = torch.rand(3, dtype=dtype, requires_grad=True)

        held = [B]

        def of(x: Tensor, weight: Tensor) -> Tensor:
            return runs_the_plan(held[0], x)

        assert torch.autograd.gradcheck(of, (x, weight), fast_mode=True)
        assert torch.autograd.gradgradcheck(of, (x, weight), fast_mode=True)
        results = []
        for linop in (A, B):
            (first,) = torch.autograd.grad(linop(x).abs().pow(3).sum(), weight, create_graph=True)
            results.append(torch.autograd.grad(first.abs().pow(2).sum(), [x, weight]))
        torch.testing.assert_close(*results)
        held.clear()
        del B, first, linop


@pytest.mark.parametrize(
    "devices", [["cpu"] * 3, ["sim:0", "sim:1", "sim:2"], ["cpu", "sim:1", "cpu"]]
)
@pytest.mark.parametrize("trains", [False, True])
def test_many_gradients_at_once(devices: list[str], trains: bool) -> None:
    base, *others = devices
    with simulated(3):
        weight = nn.Parameter(torch.rand(4, 6, dtype=torch.float64).to(base), trains)
        A = Dense(weight, ("M", "N"))
        x = torch.rand(6, dtype=torch.float64).to(base).requires_grad_()
        B = create_batched_linop(A, BatchSpec({"M": 2}, others, base))
        leaves = [x, weight] if trains else [x]
        basis, y = torch.eye(4, dtype=torch.float64).to(base), runs_the_plan(B, x)
        result = torch.autograd.grad(y, leaves, basis, is_grads_batched=True)
        wanted = torch.autograd.grad(A(x), leaves, basis, is_grads_batched=True)
        for one, other in zip(result, wanted, strict=True):
            torch.testing.assert_close(one.cpu(), other.cpu())


def test_the_graph_may_be_gone_through_twice_if_it_is_kept() -> None:
    weight = parameter(4, 6)
    with machine():
        B = create_batched_linop(sense(weight), BatchSpec({"C": 1}, ["sim:1"], "cpu"))
        y = runs_the_plan(B, torch.rand(6, dtype=torch.complex128)).abs().sum()
        first, second = (torch.autograd.grad(y, weight, retain_graph=not k)[0] for k in range(2))
        assert torch.equal(first, second)
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            torch.autograd.grad(y, weight)
        del B, y


def test_a_call_leaves_nothing_behind() -> None:
    maps = parameter(4, 6)
    with machine() as world:
        B = create_batched_linop(sense(maps), BatchSpec({"C": 1}, ["sim:1", "sim:2"], "sim:0"))
        x = torch.rand(6, dtype=torch.complex128).to("sim:0")
        B(x)
        gc.collect()
        before = [world.allocated_nbytes(device) for device in world.devices]
        gc.disable()
        try:
            y = runs_the_plan(B, x)
            ref = weakref.ref(y.grad_fn)
            torch.autograd.backward(y.abs().sum())
            del y
            assert ref() is None
            assert [world.allocated_nbytes(device) for device in world.devices] == before
        finally:
            gc.enable()
        del B, x


@pytest.mark.parametrize("n_calls", [1, 2, 3, 4])
def test_an_exception_in_the_backward_pass_leaves_nothing_behind(n_calls: int) -> None:
    class Fragile(Diagonal):
        n_left = 0

        @staticmethod
        def fn(linop: Any, x: Tensor, /) -> Tensor:
            Fragile.n_left -= 1
            if Fragile.n_left == 0:
                raise KeyError("a tile fails")
            return Diagonal.fn(linop, x)

    weight = parameter(4)
    with machine("random", n_calls):
        spec = BatchSpec({"N": 1}, ["sim:1", "sim:2", "sim:0"], "sim:0")
        B = create_batched_linop(Fragile(weight, ("N",)), spec)
        x = torch.rand(4, dtype=torch.complex128).to("sim:0").requires_grad_()
        y = runs_the_plan(B, x).abs().sum()
        Fragile.n_left = n_calls
        with pytest.raises(KeyError, match="a tile fails"):
            torch.autograd.backward(y)
        del y
        y = runs_the_plan(B, x).abs().sum()
        torch.autograd.backward(y)
        assert weight.grad is not None and weight.grad.abs().max() > 0
        del B, x, y


@pytest.mark.parametrize("asks_for_x", [False, True])
def test_a_backward_pass_moves_x_only_to_tiles_that_train(asks_for_x: bool) -> None:
    """A tile that trains nothing gets its slice of the gradient to the output, and no x."""
    weights = [torch.rand(4, 3, dtype=torch.float64).requires_grad_(each) for each in (True, False)]
    A = Stack(*[Dense(w, ("M", "N"), ("N",), ("M",)) for w in weights], odim_and_idx=("C", 0))
    x = torch.rand(3, dtype=torch.float64, requires_grad=asks_for_x)
    asked = [weights[0]] + [x] * asks_for_x
    wanted = torch.autograd.grad(A(x).square().sum(), asked)
    with simulated(3) as world:
        B = create_batched_linop(A, BatchSpec({"C": 1}, ["sim:1", "sim:2"], base_device="cpu"))
        loss = B(x).square().sum()
        world.moved.clear()
        result = torch.autograd.grad(loss, asked)
        torch.testing.assert_close(result, wanted)
        del loss
        moved = sorted(world.moved)
    dim = 8  # bytes of a number
    there = [("cpu", "sim:1", 3 * dim), ("cpu", "sim:1", 4 * dim)]
    back = [("sim:1", "cpu", 12 * dim)]
    if asks_for_x:
        there += [("cpu", "sim:2", 4 * dim)]
        back += [("sim:1", "cpu", 3 * dim), ("sim:2", "cpu", 3 * dim)]
    assert moved == sorted(there + back)


class WithoutAdjoint(NamedLinop):
    """Three times x, of which only autograd knows the adjoint."""

    def __init__(self) -> None:
        super().__init__(NamedShape(("N",)))

    @staticmethod
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        return 3 * x


def test_a_tile_without_an_adjoint_gets_no_x_either() -> None:
    weight = torch.rand(3, dtype=torch.float64, requires_grad=True)
    A = Stack(Diagonal(weight, ("N",)), WithoutAdjoint(), odim_and_idx=("C", 0))
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    with simulated(3) as world:
        B = create_batched_linop(A, BatchSpec({"C": 1}, ["sim:1", "sim:2"], base_device="cpu"))
        y = B(x)
        world.moved.clear()
        (result,) = torch.autograd.grad(y.sum(), x)
        assert world.moved.count(("cpu", "sim:2", 24)) == 1
        torch.testing.assert_close(result, weight.detach() + 3)
        del y
