"""What holds between operators, their tiles, devices and the bytes in memory.

Shapes: C coils, N pixels, K samples, Nx and Kx a grid.
"""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import FFT, Dense, Diagonal, NamedLinop, Sampling
from linops_multigpu import BatchSpec, DeviceReplica, create_batched_linop
from linops_solvers import conjugate_gradients
from linops_split import batch_linop, split_linop
from memmap import memory_aware_to, overlapping_pairs, same_storage, union_nbytes


def tensors(linop: nn.Module) -> list[Tensor]:
    return [*linop.parameters(), *linop.buffers()]


def two_views_of_one_storage() -> NamedLinop:
    flat = torch.rand(10, dtype=torch.complex128)
    return Diagonal(nn.Parameter(flat[:6]), ("N",)) @ Diagonal(nn.Parameter(flat[4:]), ("N",))


def sense(trainable: bool = False) -> NamedLinop:
    maps = nn.Parameter(torch.rand(4, 6, dtype=torch.complex128), trainable)
    S = Dense(maps, ("C", "Nx"), ("Nx",), ("C", "Nx"))
    return Sampling([torch.tensor([0, 1, 2, 4, 5])], [6]) @ FFT(1, ("C",)) @ S


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda B: memory_aware_to(B, "meta")])
def test_a_batched_operator_keeps_what_shares_memory_together(duplicate) -> None:  # type: ignore[no-untyped-def]
    A = two_views_of_one_storage()
    B = create_batched_linop(A, [BatchSpec({"N": 4}), BatchSpec({"N": 1})])
    before = [tensor.storage_offset() for tensor in tensors(B)]
    assert sorted(before) == [0, 4]
    C = duplicate(B)
    one, other = tensors(C)
    assert same_storage(one, other)
    assert other.storage_offset() - one.storage_offset() == before[1] - before[0]
    assert union_nbytes([one, other]) == one.untyped_storage().nbytes() == 10 * 16
    assert overlapping_pairs([one, other]) == [(0, 1)]


@given(st.data())
def test_a_device_holds_the_bytes_that_its_tiles_read_and_no_more(data: st.DataObject) -> None:
    weight = torch.rand(4, 3, 5)
    A = Dense(weight, ("C", "M", "N"), ("C", "N"), ("C", "M")) @ Diagonal(
        torch.rand(5), ("C", "N"), weight_shape=("N",)
    )
    sizes = data.draw(st.dictionaries(st.sampled_from("CMN"), st.integers(1, 5), min_size=1))
    devices = data.draw(st.lists(st.sampled_from(["cpu", "meta"]), min_size=1, max_size=4))
    B = create_batched_linop(A, BatchSpec(sizes, devices, "cpu"))
    parts = [part for part in B.modules() if isinstance(part, DeviceReplica)]
    read = [view for part in parts for view in tensors(part.source.with_weights(Tensor.detach))]
    held = [tensor for part in parts for tensor in tensors(part.up_to_date())]
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in held}
    assert union_nbytes(held) == union_nbytes(read)
    assert sum(storages.values()) >= union_nbytes(read)
    if "N" not in sizes and "M" not in sizes:  # the tiles of a device are whole rows
        assert all(nbytes <= weight.nbytes for nbytes in storages.values())
    assert not any(same_storage(view, tensor) for view in read for tensor in held)


def test_gradients_go_through_conjugate_gradients_and_tiles_to_the_weights() -> None:
    """The gradient of a reconstruction with respect to the coil maps, by both operators."""
    A = sense(trainable=True)
    y = A(torch.rand(6, dtype=torch.complex128)).detach()
    gradients = []
    for linop in (
        A,
        batch_linop(A, {"C": 3}),
        create_batched_linop(A, BatchSpec({"K": 2, "C": 1})),
    ):
        A.zero_grad()
        x = conjugate_gradients(
            linop.N, linop.H(y), max_num_iters=6, gtol=0, ltol=0, tqdm_kwargs={"disable": True}
        )
        torch.autograd.backward(x.abs().square().sum())
        gradients += [weight.grad for weight in A.parameters()]
    first, *others = gradients
    assert first is not None and first.abs().max() > 0
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-6, atol=1e-8)


def test_what_is_batched_solves_the_same_system() -> None:
    A = sense()
    x = torch.rand(6, dtype=torch.complex128)
    B = create_batched_linop(A, [BatchSpec({"C": 2}, ["cpu", "cpu"]), BatchSpec({"K": 2})])
    result = conjugate_gradients(
        B.N, B.H(A(x)), max_num_iters=20, gtol=1e-12, ltol=0, tqdm_kwargs={"disable": True}
    )
    torch.testing.assert_close(result, x, rtol=1e-6, atol=1e-8)


def test_a_moved_operator_moves_its_batched_one() -> None:
    A = sense()
    B = create_batched_linop(A, BatchSpec({"C": 1}))
    x = torch.rand(6, dtype=torch.complex64)
    A.to(dtype=torch.complex64)
    assert B(x).dtype == torch.complex64
    torch.testing.assert_close(B(x), A(x))


def test_tiles_that_share_a_weight_add_their_gradients_once() -> None:
    weight = nn.Parameter(torch.rand(6, dtype=torch.complex128))
    D = Diagonal(weight, ("C", "N"), weight_shape=("N",))
    A = D @ Dense(torch.rand(3, dtype=torch.complex128), ("C",), ("N",), ("C", "N"))
    x = torch.rand(6, dtype=torch.complex128)
    torch.autograd.backward(A(x).abs().square().sum())
    wanted, weight.grad = weight.grad, None
    B = batch_linop(A, {"C": 1, "N": 4})
    torch.autograd.backward(B(x).abs().square().sum())
    assert wanted is not None
    torch.testing.assert_close(weight.grad, wanted)


def test_cutting_a_thousand_tiles_holds_one_weight() -> None:
    A = Dense(torch.rand(64, 16), ("M", "N"))
    tiles, _, _ = split_linop(A, {"M": 1, "N": 1})
    assert tiles.size == 1024
    assert {id(weight) for tile in tiles.ravel().tolist() for weight in tensors(tile)} == {
        id(weight) for weight in tensors(A)
    }
