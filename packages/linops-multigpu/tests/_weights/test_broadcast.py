"""Weights on other devices that autograd follows: against the same operators at home.

Shapes: M rows, N columns, C coils.
"""

import gc
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import FFT, Dense, Diagonal, NamedLinop, Sampling
from linops_core.siblings import one_call
from linops_multigpu import BatchSpec, create_batched_linop
from linops_multigpu._weights._device_replica import DeviceReplica, replicated_together
from linops_multigpu.testing import SCHEDULES, World, simulated
from nameddim import ND


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.rand(shape, dtype=torch.complex128))


@st.composite
def tiles_of_a_matrix(draw: st.DrawFn) -> tuple[Tensor, list[NamedLinop]]:
    """Draw a leaf, and operators that read parts of what is made of it; they may overlap."""
    leaf = parameter(5, 4)
    whole = draw(st.sampled_from(made_of(leaf)))
    A = Dense(whole, ("M", "N"))
    tiles: list[NamedLinop] = [A] * draw(st.integers(0, 1))
    for _ in range(draw(st.integers(1, 4))):
        m, n = draw(st.integers(0, 3)), draw(st.integers(0, 1))
        part = {ND("M"): slice(m, draw(st.integers(m + 1, 5)))}
        if draw(st.booleans()):
            part[ND("N")] = slice(n, draw(st.integers(n + 1, 3)))
        tiles.append(A.split(A, part))
    return leaf, tiles


def gradients(tiles: Sequence[NamedLinop], leaf: Tensor, device: str) -> list[Tensor]:
    loss = torch.zeros((), dtype=torch.float64)
    for k, tile in enumerate(tiles):
        x = torch.full([tile.size("N") or 1], 1.0 + k, dtype=torch.complex128)
        loss = loss + tile(x.to(device)).abs().pow(3).sum().cpu()
    (first,) = torch.autograd.grad(loss, leaf, create_graph=True)
    (second,) = torch.autograd.grad(first.abs().pow(2).sum(), leaf, retain_graph=True)
    return [first.detach(), second]


@given(tiles_of_a_matrix(), st.booleans())
def test_gradients_of_parts_that_overlap_are_those_at_home(
    drawn: tuple[Tensor, list[NamedLinop]], within_a_call: bool
) -> None:
    leaf, tiles = drawn
    wanted = gradients(tiles, leaf, "cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("linops_multigpu._weights._replica.is_on", lambda *_: False)
        placed = replicated_together(tiles, torch.device("cpu"))
    with one_call() if within_a_call else nullcontext():
        result = gradients(placed, leaf, "cpu")
    for one, other in zip(result, wanted, strict=True):
        torch.testing.assert_close(one, other)


def made_of(leaf: Tensor) -> list[Tensor]:
    """Return weights that are views of a leaf, or computed from it, in several ways."""
    return [leaf, leaf.mul(2), leaf.T.mul(2).T, leaf[:, 1:], leaf.conj(), leaf * 1j]


@pytest.mark.parametrize("which", range(6))
def test_a_part_that_does_not_begin_where_the_weight_does(which: int) -> None:
    leaf = parameter(5, 4)
    A = Dense(made_of(leaf)[which], ("M", "N"))
    tiles = [A.split(A, {ND("M"): slice(1, 3), ND("N"): slice(1, 3)})]
    wanted = gradients(tiles, leaf, "cpu")
    with simulated(1):
        result = gradients(replicated_together(tiles, torch.device("sim:0")), leaf, "sim:0")
    for one, other in zip(result, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_of_gradients_may_be_one_number_for_all() -> None:
    weight = nn.Parameter(torch.rand(4, dtype=torch.float64))
    with simulated(1):
        placed = DeviceReplica(Diagonal(weight, ("N",)), torch.device("sim:0"))
        x = torch.ones(4, dtype=torch.float64, device="sim:0")
        (first,) = torch.autograd.grad(placed(x).pow(3).sum(), weight, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), weight)
        torch.testing.assert_close(second, 6 * weight.detach())
        del placed, x, first


def test_second_derivatives_of_one_operator_of_a_call() -> None:
    leaf = parameter(5, 4)
    A = Dense(leaf, ("M", "N"))
    tiles = [A.split(A, {ND("M"): slice(m, m + 2)}) for m in range(2)]
    wanted = gradients(tiles[:1], leaf, "cpu")
    with simulated(1):
        placed = replicated_together(tiles, torch.device("sim:0"))
        with one_call():
            placed[1](torch.ones(4, dtype=torch.complex128, device="sim:0"))
            result = gradients(placed[:1], leaf, "sim:0")
        del placed
    for one, other in zip(result, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_what_autograd_does_not_follow_is_made_apart_in_a_call() -> None:
    weight = parameter(4)
    with simulated(1):
        placed = DeviceReplica(Diagonal(weight, ("N",)), torch.device("sim:0"))
        x = torch.ones(4, dtype=torch.complex128, device="sim:0")
        with one_call():
            with torch.no_grad():
                assert not placed(x).requires_grad
            assert placed(x).requires_grad
        del placed, x


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_they_are_that_in_any_order_of_work(schedule: str) -> None:
    leaf = parameter(5, 4)
    A = Dense(leaf.T.mul(2).T, ("M", "N"))
    tiles = [A, *(A.split(A, {ND("M"): slice(m, m + 2), ND("N"): slice(m, 4)}) for m in range(3))]
    wanted = gradients(tiles, leaf, "cpu")
    with simulated(2, schedule=schedule):
        placed = replicated_together(tiles, torch.device("sim:1"))
        result = gradients(placed, leaf, "sim:1")
        del placed
    for one, other in zip(result, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_of_parts_that_overlap_on_another_device_are_counted_once() -> None:
    leaf = parameter(5, 4)
    A = Dense(leaf, ("M", "N"))
    tiles = [A, *(A.split(A, {ND("M"): slice(m, m + 2), ND("N"): slice(m, 4)}) for m in range(3))]
    wanted = gradients(tiles, leaf, "cpu")
    with simulated(1), one_call():
        placed = replicated_together(tiles, torch.device("sim:0"))
        result = gradients(placed, leaf, "sim:0")
        del placed
    for one, other in zip(result, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_what_is_kept_of_weights_is_kept_of_the_copies_of_each_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tiles share what is kept of a weight, and its copy; the original and other copies do not."""
    S = Sampling((torch.tensor([0, 2]),), (4,))
    monkeypatch.setattr("linops_multigpu._weights._replica.is_on", lambda *_: False)
    devices = [replicated_together([S, S], torch.device("cpu")) for _ in range(2)]
    pairs = [[tile.up_to_date() for tile in tiles] for tiles in devices]
    kept = [[vars(tile)["_counted"] for tile in pair] for pair in pairs]
    assert [one is other for one, other in kept] == [True, True]
    assert len({id(vars(S)["_counted"]), *(id(each) for pair in kept for each in pair)}) == 3
    for one, other in pairs:
        assert [*map(id, one.buffers())] == [*map(id, other.buffers())]


def bytes_moved(world: World) -> dict[tuple[str, str], int]:
    moved = Counter[tuple[str, str]]()
    for source, destination, nbytes in world.moved:
        moved[source, destination] += nbytes
    world.moved.clear()
    return moved


def step(tiles: Sequence[NamedLinop], device: str) -> None:
    """Apply tiles in one call, and go back."""
    with one_call():
        outputs = [
            tile(torch.ones(tile.size("N") or 1, dtype=torch.complex128, device=device))
            for tile in tiles
        ]
    torch.autograd.backward([y.abs().sum() for y in outputs])


def test_in_training_each_byte_goes_once_when_it_changed_and_its_gradient_returns_once() -> None:
    weight = parameter(6, 4)
    A = Dense(weight, ("M", "N"))
    rows = [A.split(A, {ND("M"): slice(m, m + 3)}) for m in range(3)]  # they overlap
    with simulated(1) as world:
        placed = replicated_together(rows, torch.device("sim:0"))
        assert bytes_moved(world) == {("cpu", "sim:0"): 5 * 4 * 16}
        for _ in range(2):
            step(placed, "sim:0")
            assert bytes_moved(world) == {("sim:0", "cpu"): 5 * 4 * 16}
        with torch.no_grad():
            weight.mul_(2)
        step(placed, "sim:0")
        assert bytes_moved(world) == {
            ("cpu", "sim:0"): 5 * 4 * 16,
            ("sim:0", "cpu"): 5 * 4 * 16,
        }
        del placed


def test_a_weight_that_all_share_goes_once_and_its_gradient_returns_once() -> None:
    weight = parameter(4)
    D = Diagonal(weight, ("C", "N"), weight_shape=("N",))
    with simulated(1) as world:
        placed = replicated_together([D] * 5, torch.device("sim:0"))
        x = torch.ones(1, 4, dtype=torch.complex128, device="sim:0")
        with one_call():
            y = [tile(x).real.sum() for tile in placed]
        torch.autograd.backward(y)
        assert bytes_moved(world) == {("cpu", "sim:0"): 64, ("sim:0", "cpu"): 64}
        del placed, y
    assert weight.grad is not None
    assert torch.equal(weight.grad, torch.full((4,), 5.0, dtype=torch.complex128))


def test_weights_that_share_memory_have_gradients_of_their_own() -> None:
    flat = torch.rand(6, dtype=torch.complex128)
    upper, lower = nn.Parameter(flat[:4]), nn.Parameter(flat[2:])
    linops = [Diagonal(weight, ("N",)) for weight in (upper, lower, upper)]
    with simulated(1) as world:
        placed = replicated_together(linops, torch.device("sim:0"))
        assert bytes_moved(world) == {("cpu", "sim:0"): 6 * 16}
        x = torch.ones(4, dtype=torch.complex128, device="sim:0")
        with one_call():
            y = [k * tile(x).real.sum() for k, tile in enumerate(placed, 1)]
        torch.autograd.backward(y)
        del placed, y
    assert upper.grad is not None and lower.grad is not None
    assert torch.equal(upper.grad, torch.full((4,), 4.0, dtype=torch.complex128))
    assert torch.equal(lower.grad, torch.full((4,), 2.0, dtype=torch.complex128))


def test_what_is_there_already_is_not_copied() -> None:
    away = nn.Parameter(torch.rand(4, dtype=torch.complex128))
    with simulated(1) as world:
        there = torch.rand(4).to("sim:0", torch.complex128).requires_grad_()
        A = Diagonal(away, ("N",)) @ Diagonal(there, ("N",))
        world.moved.clear()
        placed = DeviceReplica(A, torch.device("sim:0"))
        assert bytes_moved(world) == {("cpu", "sim:0"): 64}
        with torch.no_grad():
            copies = placed.up_to_date().buffers()
            assert [t.data_ptr() == there.data_ptr() for t in copies] == [True, False]
        x = torch.ones(4, dtype=torch.complex128, device="sim:0")
        torch.autograd.backward(placed(x).real.sum())
        assert there.grad is not None and away.grad is not None
        torch.testing.assert_close(there.grad.cpu(), away.detach().conj())
        torch.testing.assert_close(away.grad, there.detach().cpu().conj())
        del placed, A, there, x


def test_a_part_whose_elements_lie_in_one_place_is_followed() -> None:
    weight = nn.Parameter(torch.rand(1, dtype=torch.complex128))
    D = Diagonal(weight.expand(4), ("N",))
    with simulated(1):
        placed = DeviceReplica(D, torch.device("sim:0"))
        x = torch.ones(4, dtype=torch.complex128, device="sim:0")
        torch.autograd.backward(placed(x).real.sum())
        del placed
    assert weight.grad is not None and weight.grad == 4


def test_transforms_of_torch_follow() -> None:
    D = Diagonal(nn.Parameter(torch.rand(4, dtype=torch.float64)), ("N",))
    placed = DeviceReplica(D, torch.device("cpu"))
    x = torch.rand(4, dtype=torch.float64)

    def loss(weights: dict[str, Tensor]) -> Tensor:
        y: Tensor = torch.func.functional_call(placed, weights, (x,))
        return (y**2).sum()

    weights = {name: weight.detach() for name, weight in placed.named_parameters()}
    result = torch.func.grad(loss)(weights)
    for name, gradient in result.items():
        torch.testing.assert_close(gradient, 2 * x**2 * weights[name])


def test_weights_that_autograd_follows_from_now_on_are_followed() -> None:
    one, other = parameter(4), parameter(4)
    other.requires_grad_(False)
    A = Diagonal(one, ("N",)) @ Diagonal(other, ("N",))
    x = torch.ones(4, dtype=torch.complex128)
    with simulated(1):
        placed = DeviceReplica(A, torch.device("sim:0"))
        for followed in (one, other, one):
            one.requires_grad_(followed is one)
            other.requires_grad_(followed is other)
            one.grad = other.grad = None
            torch.autograd.backward(placed(x.to("sim:0")).real.sum())
            assert (one.grad is not None, other.grad is not None) == (
                followed is one,
                followed is other,
            )
        del placed


class Squared(Diagonal):
    """Computes what it reads, for each call anew."""

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        return super().with_weights(lambda weight: change(weight * weight))


def test_what_is_computed_for_a_call_belongs_to_it() -> None:
    weight = parameter(4)
    with simulated(1):
        placed = DeviceReplica(Squared(weight, ("N",)), torch.device("sim:0"))
        x = torch.ones(4, dtype=torch.complex128, device="sim:0")
        for _ in range(2):  # the graph of a call can be gone through once
            torch.autograd.backward(placed(x).real.sum())
        del placed, x
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, 4 * weight.detach().conj())


def test_a_shifted_weight_that_tiles_share_goes_once() -> None:
    mask = parameter(4)
    A = FFT(1, ("C",), centered=True) @ Dense(parameter(5, 4), ("C", "Nx"), ("Nx",), ("C", "Nx"))
    N = (Diagonal(mask, ("C", "Kx"), weight_shape=("Kx",)) @ A).N
    tiles = [N.split(N, {ND("C"): slice(k, k + 1)}) for k in range(5)]
    with simulated(1) as world:
        placed = replicated_together(tiles, torch.device("sim:0"))
        assert bytes_moved(world) == {("cpu", "sim:0"): (5 * 4 + 4) * 16}
        x = torch.rand(4, dtype=torch.complex128)
        with one_call():
            y = [tile(x.to("sim:0")) for tile in placed]
        world.moved.clear()
        torch.autograd.backward([one.real.sum() for one in y])
        assert bytes_moved(world) == {("sim:0", "cpu"): (5 * 4 + 4) * 16}
        result, mask.grad = mask.grad, None
        torch.testing.assert_close(sum(one.cpu() for one in y), N(x))
        del placed, y
    torch.autograd.backward(N(x).real.sum())
    torch.testing.assert_close(result, mask.grad)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_gradients_that_return_to_another_device_are_not_freed_on_the_way(schedule: str) -> None:
    with simulated(2, schedule=schedule):
        weight = torch.rand(40, dtype=torch.float64).to("sim:0").requires_grad_()
        x = torch.ones(40, dtype=torch.float64).to("sim:1")
        placed = DeviceReplica(Diagonal(weight, ("N",)), torch.device("sim:1"))
        for _ in range(3):
            (result,) = torch.autograd.grad(placed(x).pow(2).sum(), weight)
            torch.zeros(40, dtype=torch.float64, device="sim:1")
            torch.testing.assert_close(result.cpu(), 2 * weight.detach().cpu())
        del placed, x, weight, result


def n_recorded() -> int:
    """Return how many tensors there are of which autograd has a history."""
    return sum(type(kept) is Tensor and kept.grad_fn is not None for kept in gc.get_objects())


def test_a_call_leaves_nothing_behind() -> None:
    A = Dense(parameter(3, 4), ("M", "N"))
    with simulated(1) as world:
        placed = DeviceReplica(A, torch.device("sim:0"))
        x = torch.ones(4, dtype=torch.complex128, device="sim:0")
        before, n_before = world.allocated_nbytes("sim:0"), n_recorded()
        gc.disable()
        try:
            for linop in (placed, placed.H @ placed, placed.N):
                with one_call():
                    y = linop(x)
                torch.autograd.backward(y.abs().sum())
                del y
                assert n_recorded() == n_before
                assert world.allocated_nbytes("sim:0") == before
        finally:
            gc.enable()
        del placed, x, linop


def test_copies_made_on_one_stream_are_there_for_another() -> None:
    for schedule in SCHEDULES:
        with simulated(1, schedule=schedule) as world:
            A = Diagonal(torch.rand(400, dtype=torch.float64), ("N",))
            placed = DeviceReplica(A, torch.device("sim:0"))
            for _ in range(2):
                with world.using(world.new_stream("sim:0")):
                    x = torch.ones(400, dtype=torch.float64).to("sim:0")
                    assert torch.equal(placed(x).cpu(), A.weight)
                    placed(x)
                    A.weight.mul_(2)
                    assert torch.equal(placed(x).cpu(), A.weight)
                    del x
            del placed


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_copies_that_are_under_way_are_waited_for(schedule: str) -> None:
    with simulated(2, schedule=schedule) as world:
        weight = torch.rand(400, dtype=torch.float64)
        A = Diagonal(weight.to("sim:0"), ("N",))
        x = torch.ones(400, dtype=torch.float64).to("sim:1")  # for which the host waits
        placed = DeviceReplica(A, torch.device("sim:1"))
        for _ in range(2):
            with world.using(world.new_stream("sim:1")):
                assert torch.equal(placed(x).cpu(), weight)
        del placed, A, x


def test_a_batched_operator_is_one_call() -> None:
    maps, mask = parameter(4, 3), parameter(3)
    A = Diagonal(mask, ("C", "N"), weight_shape=("N",)) @ Dense(
        maps, ("C", "N"), ("N",), ("C", "N")
    )
    x = torch.rand(3, dtype=torch.complex128)
    wanted = torch.autograd.grad(A.N(x).abs().sum(), (maps, mask))
    with simulated(2) as world:
        B = create_batched_linop(A, BatchSpec({"C": 1}, ["sim:0", "sim:1"], "cpu"))
        y = B.N(x)
        bytes_moved(world)
        result = torch.autograd.grad(y.abs().sum(), (maps, mask))
        back = {way: n for way, n in bytes_moved(world).items() if way[1] == "cpu"}
        # Of each device two rows of the maps and, summed over its tiles, the mask.
        assert back == {("sim:0", "cpu"): 9 * 16, ("sim:1", "cpu"): 9 * 16}
        del B, y
    for one, other in zip(result, wanted, strict=True):
        torch.testing.assert_close(one, other)
