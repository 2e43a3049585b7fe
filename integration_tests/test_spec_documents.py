"""What the pages on copying and on several devices of the reference library say is so here.

Each test is one statement, or one block of code, of these pages. A device that the machine lacks is
replaced by ``meta``, which has places and bytes but no values, or by a CPU under another index.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import torchlinops as tl
from linops_multigpu import DeviceReplica
from linops_multigpu.testing import simulated
from torchlinops.linops.split import split_linop
from torchlinops.nameddim import NamedDimension as ND


class Scaled(tl.NamedLinop):
    """An operator with the ``adjoint`` of the page on copying, as users have written it."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__(tl.NamedShape(("N",), ("M",)))
        self.weight = nn.Parameter(weight)

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        return linop.weight * x  # type: ignore[no-any-return]

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        return linop.weight.conj() * x  # type: ignore[no-any-return]

    def adjoint(self) -> tl.NamedLinop:
        adj = copy.copy(self)
        adj._shape = adj._shape.H
        adj.fn, adj.adj_fn = adj.adj_fn, adj.fn  # type: ignore[method-assign]
        return adj


class Views(tl.NamedLinop):
    """Two weights that are views of one vector."""

    def __init__(self, flat: Tensor, a: slice = slice(0, 4), b: slice = slice(2, 6)) -> None:
        super().__init__(tl.NamedShape(("N",)))
        self.a, self.b = nn.Parameter(flat[a]), nn.Parameter(flat[b])

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        return linop.a * linop.b * x  # type: ignore[no-any-return]


def grid_operator() -> tl.NamedLinop:
    return tl.Diagonal(torch.randn(256, 256), ("Nx", "Ny"))


def coils(trainable: bool = False) -> tl.NamedLinop:
    maps = nn.Parameter(torch.randn(4, 6, 5, dtype=torch.complex128), trainable)
    S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    return tl.FFT(2) @ S


# Copying


def test_an_adjoint_written_as_on_the_page_is_an_adjoint() -> None:
    A = Scaled(torch.randn(3, dtype=torch.complex128))
    assert A.H.ishape == ("M",) and A.H.oshape == ("N",)
    assert A.H.weight is A.weight  # the same Parameter
    tl.testing.dottest(A, {"N": 3})
    torch.testing.assert_close(A.H.to_dense({"M": 3}), A.to_dense({"N": 3}).mH)


def test_the_adjoint_of_the_page_is_that_of_compositions() -> None:
    A = coils() + coils()
    made = Scaled.adjoint(A)  # type: ignore[arg-type]  # the method of the page, of any operator
    y = A(torch.randn(6, 5, dtype=torch.complex128))
    torch.testing.assert_close(made(y), A.H(y))
    torch.testing.assert_close(made.N(y), A(A.H(y)))
    torch.testing.assert_close(A.adj_fn(A, y), A.H(y))
    weights, shared = (
        list(A.parameters()) + list(A.buffers()),
        [*made.parameters(), *made.buffers()],
    )
    assert {id(weight) for weight in weights} == {id(weight) for weight in shared}


def test_weights_that_change_change_the_adjoint_and_the_normal() -> None:
    A = coils()
    adjoint, normal, tile = A.H, A.N, A.split(A, {ND("C"): slice(1, 3)})
    x = torch.randn(6, 5, dtype=torch.complex128)
    with torch.no_grad():
        next(A.parameters()).mul_(2j)
    y = A(x)
    torch.testing.assert_close(tile(x), y[1:3])
    torch.testing.assert_close(normal(x), adjoint(y))
    torch.testing.assert_close(tl.utils.inner(y, y), tl.utils.inner(adjoint(y), x))


def test_a_shallow_copy_shares_tensors_and_has_registries_of_its_own() -> None:
    A = Scaled(torch.randn(3))
    B = copy.copy(A)
    assert B.weight is A.weight
    B.register_buffer("more", torch.ones(1))
    assert not dict(A.named_buffers())
    del B.weight
    assert A.weight is not None


def test_a_shallow_copy_keeps_no_derived_operators() -> None:
    A = Scaled(torch.randn(3))
    assert A._adjoint is None and A._normal is None
    assert A.H is A.H and A.N is A.N
    assert A._adjoint is A.H and A._normal is A.N
    B = copy.copy(A)
    assert B._adjoint is None and B._normal is None
    assert B.H is not A.H and B.N is not A.N


def test_the_shape_of_a_copy_is_its_own() -> None:
    A = Scaled(torch.randn(3))
    B = copy.copy(A)
    B._shape = tl.NamedShape(("X",), ("Y",))
    assert A.ishape == ("N",) and A.H.ishape == ("M",) and B.H.ishape == ("Y",)


def test_a_deep_copy_is_independent_and_keeps_views_in_one_buffer() -> None:
    A = Views(torch.arange(10.0))
    B = copy.deepcopy(A)
    assert tl.overlaps(B.a, B.b) and not tl.overlaps(A.a, B.a)
    assert tl.same_storage(B.a, B.b)
    assert B.b.storage_offset() - B.a.storage_offset() == 2
    assert B.a.untyped_storage().nbytes() == 6 * 4  # from the first to the last byte
    with torch.no_grad():
        A.a.zero_()
    assert B.a.tolist() == [0, 1, 2, 3] and B.b.tolist() == [2, 3, 4, 5]


@given(st.integers(1, 5), st.integers(0, 5), st.integers(1, 5))
def test_a_buffer_of_a_copy_spans_its_views_and_no_more(
    first: int, offset: int, second: int
) -> None:
    end = offset + second
    A = Views(torch.arange(20.0), slice(0, first), slice(offset, end))
    B = copy.deepcopy(A)
    assert tl.same_storage(B.a, B.b)
    assert B.a.untyped_storage().nbytes() == 4 * max(first, end)
    assert B.b.tolist() == [*range(offset, end)]


def test_a_memory_aware_move_keeps_views() -> None:
    A = Views(torch.arange(10.0))
    there = A.to("meta", memory_aware=True)
    assert there.a.device.type == "meta"
    assert tl.same_storage(there.a, there.b) and tl.overlaps(there.a, there.b)


def test_a_plain_move_moves() -> None:
    assert Views(torch.arange(10.0)).to("meta").a.device.type == "meta"


# Several devices


def test_split_takes_names_and_slices() -> None:
    A = grid_operator()
    tile = {ND("Nx"): slice(0, 128)}
    sub_linop = A.split(A, tile)
    x = torch.randn(128, 256)
    assert sub_linop.size("Nx") == 128 and sub_linop.size("Ny") == 256
    assert isinstance(sub_linop, tl.SliceableLinop)
    part = sub_linop.weight_part("weight")
    assert part.shape == (128, 256)  # a view: the weight itself is whole
    assert isinstance(A.weight, Tensor) and tl.same_storage(part, A.weight)
    assert torch.equal(sub_linop(x), A(torch.ones(256, 256))[:128] * x)
    whole = slice(None)
    forward = A.split_forward([slice(0, 128), whole], [slice(0, 128), whole])
    assert torch.equal(forward(x), sub_linop(x))


def test_split_linop_makes_an_array_of_tiles() -> None:
    A = grid_operator()
    linops, ibatches, obatches = split_linop(A, {"Nx": 128, "Ny": 64})
    assert isinstance(linops, np.ndarray) and linops.shape == (2, 4)
    assert ibatches[1, 2] == obatches[1, 2] == [slice(128, 256), slice(128, 192)]
    x = torch.randn(256, 256)
    part = tuple(ibatches[1, 2])
    assert torch.equal(linops[1, 2](x[part]), A(x)[part])


def test_the_tile_of_a_chain_is_the_chain_of_the_tiles() -> None:
    A = coils()
    (first, second), _, _ = split_linop(A, {"C": 2})
    assert len(first.flatten()) == len(A.flatten())
    x = torch.randn(6, 5, dtype=torch.complex128)
    torch.testing.assert_close(torch.cat([first(x), second(x)]), A(x))


def test_the_fields_of_a_batch_spec() -> None:
    spec = tl.BatchSpec(
        batch_sizes={"C": 1},
        device_matrix=["cpu", "meta"],
        base_device="cpu",
        base_stream=None,
        transfer_stream=None,
    )
    assert spec.batch_sizes == {"C": 1}
    assert spec.base_device == torch.device("cpu")
    assert spec.base_stream is spec.transfer_stream is None


@given(st.integers(1, 6), st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
def test_devices_take_turns_over_the_tiles(tiles: int, devices: list[str]) -> None:
    laid = tl.fuzzy_broadcast_to(np.array(devices), (tiles,))
    assert laid.tolist() == [devices[k % len(devices)] for k in range(tiles)]


def test_two_devices_over_four_tiles() -> None:
    A = coils()
    B = tl.create_batched_linop(A, tl.BatchSpec({"C": 1}, ["cpu", "meta"], base_device="cpu"))
    placed = [part.device.type for part in B.linops if isinstance(part, DeviceReplica)]
    assert placed == ["meta", "meta"]  # the other two stay with the weights


@pytest.mark.parametrize(
    ("sizes", "in_input", "in_output"),
    [
        ({"C": 1}, False, True),  # side by side in the output
        ({"N": 2}, True, False),  # side by side in the input, and summed
        ({"B": 1}, True, True),  # side by side on both
        ({"R": 2}, False, False),  # summed
    ],
)
def test_tiles_are_put_together_by_where_the_dimension_is(
    sizes: dict[str, int], in_input: bool, in_output: bool
) -> None:
    inside = tl.Dense(torch.randn(4, 3), ("R", "N"), ("B", "N"), ("B", "R"))
    outside = tl.Dense(torch.randn(5, 4), ("C", "R"), ("B", "R"), ("B", "C"))
    batch = tl.Diagonal(torch.randn(2, 5), ("B", "C"))
    A = batch @ outside @ inside
    B = tl.create_batched_linop(A, tl.BatchSpec(sizes))
    for part in B.tiles.parts:
        assert (bool(part.reads), bool(part.writes)) == (in_input, in_output)
    assert B.tiles.output.is_summed != in_output
    x = torch.randn(2, 3)
    torch.testing.assert_close(B(x), A(x))
    torch.testing.assert_close(B.H(A(x)), A.H(A(x)))


def test_specs_cut_one_after_the_other() -> None:
    A = coils(trainable=True)
    across, within = tl.BatchSpec({"C": 2}, ["cpu", "cpu"]), tl.BatchSpec({"C": 1})
    B = tl.create_batched_linop(A, [across, within])
    x = torch.randn(6, 5, dtype=torch.complex128)
    torch.testing.assert_close(B(x), A(x))
    torch.testing.assert_close(B.N(x), A.N(x))
    torch.autograd.backward(B(x).abs().square().sum())
    assert next(A.parameters()).grad is not None


def test_the_adjoint_of_to_device_goes_the_opposite_way() -> None:
    there = tl.ToDevice("cpu", "meta", ("N",))
    assert repr(there.H) == "ToDevice(meta -> cpu) (N) -> (N)"
    assert there(torch.ones(3)).device.type == "meta"


@given(st.integers(1, 6), st.integers(1, 7))
def test_tiles_are_as_many_as_the_sizes_need(size: int, batch: int) -> None:
    """Query the size of a dimension, make a grid of (index, slice), split at each of them."""
    A = tl.Diagonal(torch.randn(size), ("N",))
    linops, ibatches, _ = split_linop(A, {"N": batch})
    assert linops.shape == (-(-size // batch),)
    read = [piece for (piece,) in ibatches]
    assert [*read] == [slice(n, min(n + batch, size)) for n in range(0, size, batch)]


def test_to_device_has_the_identity_as_its_normal() -> None:
    there = tl.ToDevice("cpu", "meta", ("N",))
    assert isinstance(there.N, tl.Identity) and there.N(torch.ones(3)).device.type == "cpu"


def test_transfers_wait_for_the_start_event_of_the_call() -> None:
    with simulated(2):
        A = tl.Diagonal(torch.arange(2.0), ("N",))
        B = tl.create_batched_linop(A, tl.BatchSpec({"N": 1}, ["sim:1"], base_device="sim:0"))
        recorded, record = [], B.start_event.record

        def noted(*args: Any) -> Any:
            recorded.append(record(*args))
            return recorded[-1]

        B.start_event.record = noted  # type: ignore[assignment,method-assign]
        B(torch.ones(2).to("sim:0"))
        assert len(recorded) == 1  # one event for the transfers of all tiles


def test_transfers_start_at_an_event_of_the_call() -> None:
    B = tl.create_batched_linop(coils(), tl.BatchSpec({"C": 1}, ["cpu", "meta"], "cpu"))
    assert isinstance(B.start_event, tl.RepeatedEvent)


def test_a_repeated_event_is_a_fresh_one_each_time() -> None:
    event = tl.RepeatedEvent("cpu")
    first, second = event.record(), event.record()
    assert first is not second


def test_the_steps_of_a_forward_pass() -> None:
    """Wait for the start, send the input, compute on the target, send the output back."""
    with simulated(3):
        A = tl.Diagonal(torch.arange(4.0), ("N",))
        spec = tl.BatchSpec({"N": 1}, ["sim:1", "sim:2"], base_device="sim:0")
        B = tl.create_batched_linop(A, spec)
        plan = B.plan().actions
        y = B(torch.ones(4).to("sim:0"))
        assert y.device == torch.device("sim:0")
        assert y.tolist() == [0, 1, 2, 3]
    for tile in range(4):
        send, compute, collect = (action for action in plan if action.tile == tile)
        kinds = (send.kind, compute.kind, collect.kind)
        Kind = tl.linops.device.Kind
        assert kinds == (Kind.SEND, Kind.COMPUTE, Kind.COLLECT)
        assert plan.index(send) in compute.after and plan.index(compute) in collect.after
