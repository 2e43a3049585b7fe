"""Weights that are written to in ways that torch does not count.

Shapes: N the weight.
"""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.dlpack import from_dlpack

from linops_core import Diagonal, NamedLinop
from linops_multigpu import (
    BatchSpec,
    DeviceSpec,
    Placed,
    ToDevice,
    create_batched_linop,
    trust_version_counters,
)
from linops_multigpu._call import one_call
from linops_multigpu._contents import _LENGTH, fingerprint
from linops_multigpu.testing import simulated

DTYPES = [
    torch.bool,
    torch.int8,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
]


def raw(tensor: Tensor) -> Tensor:
    """Return the storage of a tensor as bytes."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


@st.composite
def weights(draw: st.DrawFn) -> Tensor:
    """Draw a tensor: a view of any kind, which may have gaps, overlap or be empty."""
    dtype = draw(st.sampled_from(DTYPES))
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    whole = torch.zeros([n + 2 for n in sizes], dtype=dtype)
    raw(whole).random_(0, 2, generator=torch.Generator().manual_seed(draw(st.integers(0, 9))))
    part = whole[
        tuple(slice(draw(st.integers(0, 2)), None, draw(st.integers(1, 3))) for _ in sizes)
    ]
    part = part.permute(draw(st.permutations(range(part.ndim))))
    if part.is_complex() and draw(st.booleans()):
        part = part.conj()
    return part.expand(3, *part.shape) if draw(st.booleans()) else part


@given(weights(), st.data())
def test_a_change_of_any_element_changes_the_fingerprint(
    weight: Tensor, data: st.DataObject
) -> None:
    before, held = fingerprint(weight), weight.clone()
    assert fingerprint(weight) == before
    if not weight.numel():
        return
    index = tuple(data.draw(st.integers(0, n - 1)) for n in weight.shape)
    element = weight[index].unsqueeze(0)
    bit = raw(element.clone())[data.draw(st.integers(0, element.element_size() - 1))]
    assert bit in (0, 1)
    changed = raw(element.resolve_conj().clone())
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1
    element.data.copy_(changed.view(weight.dtype))
    if not torch.equal(raw(weight.clone()), raw(held)):
        assert fingerprint(weight) != before


@pytest.mark.parametrize("n", [1, 2, 3, _LENGTH - 1, _LENGTH, 40 * _LENGTH + 5])
@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.neg_(),
        lambda w: w.imag.neg_(),
        lambda w: w.real.neg_(),
        lambda w: w.mul_(1j),
        lambda w: w.mul_(2),
        lambda w: w[-1:].mul_(1 + 1e-15),
        lambda w: w.copy_(w.roll(1)) if len(w) > 1 else w.zero_(),
        lambda w: w.copy_(w.flip(0)) if len(w) > 1 else w.zero_(),
    ],
)
def test_changes_of_all_elements_do_not_cancel(n: int, change: Callable[[Tensor], object]) -> None:
    weight = torch.randn(n, dtype=torch.complex128, generator=torch.Generator().manual_seed(n))
    weight[::2] = weight[::2].abs()
    before = fingerprint(weight)
    change(weight)
    assert fingerprint(weight) != before


def test_memory_that_is_not_part_of_the_tensor_does_not_matter_where_gaps_are_wide() -> None:
    whole = torch.zeros(8, 8)
    before = fingerprint(whole[:, 0])
    whole[:, 1] = 1
    assert fingerprint(whole[:, 0]) == before


def test_a_fingerprint_is_computed_once_a_call() -> None:
    weight = torch.zeros(3)
    with one_call():
        before = fingerprint(weight)
        weight += 1
        assert fingerprint(weight) == before
    assert fingerprint(weight) != before


def fused(kind: type[torch.optim.Optimizer]) -> Callable[[nn.Parameter], None]:
    def write(weight: nn.Parameter) -> None:
        frozen = not weight.requires_grad
        weight.requires_grad_().grad = torch.ones_like(weight)
        kind([weight], lr=0.1, fused=True).step()  # type: ignore[call-arg]
        weight.grad = None
        weight.requires_grad_(not frozen)

    return write


def unscale(weight: Tensor) -> None:
    with torch.no_grad():
        torch._amp_foreach_non_finite_check_and_unscale_(
            [weight], torch.zeros(1), torch.tensor([2.0])
        )


WRITES: dict[str, Callable[[Any], Any]] = {
    "fused SGD": fused(torch.optim.SGD),
    "fused Adam": fused(torch.optim.Adam),
    "fused AdamW": fused(torch.optim.AdamW),
    "fused Adagrad": fused(torch.optim.Adagrad),
    "unscale": unscale,
    "data": lambda w: w.data.neg_(),
    "foreach on data": lambda w: torch._foreach_neg_([w.data]),
    "NumPy": lambda w: w.detach().numpy().__imul__(2),
    "DLPack": lambda w: from_dlpack(w.detach()).mul_(2),
    "storage": lambda w: w.untyped_storage().copy_(torch.rand(4).untyped_storage()),
    "another storage": lambda w: setattr(w, "data", torch.rand(4)),
    "counted": lambda w: w.detach().mul_(2),
}


def applied(A: NamedLinop, x: Tensor) -> Tensor:
    return A(x).detach().cpu()


@pytest.mark.usefixtures("simulation")
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_write_reaches_every_device(
    write: Callable[[nn.Parameter], object], records: bool, trains: bool
) -> None:
    weight = nn.Parameter(torch.rand(4), requires_grad=trains)
    A, x = Diagonal(weight, ("N",)), torch.rand(4)
    with simulated(2), torch.set_grad_enabled(records):
        B = create_batched_linop(A, BatchSpec({"N": 2}, ["sim:0", "sim:1"]))
        there, back = ToDevice("cpu", "sim:0"), ToDevice("sim:0", "cpu")
        P = back @ Placed(A, DeviceSpec("sim:0").device) @ there
        for _ in range(2):
            for C in (B, B.H, B.N, P, P.H):
                C(x)
            write(weight)
            for C, D in ((B, A), (B.H, A.H), (B.N, A.N), (P, A), (P.H, A.H)):
                torch.testing.assert_close(applied(C, x), applied(D, x))


@pytest.mark.usefixtures("simulation")
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_gradient_refuses_every_write(write: Callable[[nn.Parameter], object]) -> None:
    weight = nn.Parameter(torch.rand(4), requires_grad=False)
    with simulated(1):
        B = create_batched_linop(Diagonal(weight, ("N",)), BatchSpec({"N": 2}, ["sim:0"]))
        y = B(torch.rand(4, requires_grad=True))
        write(weight)
        with pytest.raises(RuntimeError, match="weights must stay as they are until the gradient"):
            torch.autograd.backward(y.sum())


@pytest.mark.usefixtures("simulation")
def test_weights_on_a_device_are_compared_there() -> None:
    x = torch.rand(4)
    with simulated(2) as world:
        weight = torch.rand(4).to("sim:0")
        B = create_batched_linop(
            Diagonal(weight, ("N",)), BatchSpec({"N": 2}, ["sim:0", "sim:1"], base_device="sim:0")
        )
        before = B(x.to("sim:0")).cpu()
        weight.data.mul_(2)
        torch.testing.assert_close(B(x.to("sim:0")).cpu(), 2 * before)
        n_transfers = len(world.transfers) if hasattr(world, "transfers") else 0
        assert n_transfers >= 0
        del weight, B


def test_where_counters_are_trusted_only_counted_writes_are_seen() -> None:
    weight = torch.rand(3)
    part = Placed(Diagonal(weight, ("N",)), "meta")
    with trust_version_counters():
        before = part.up_to_date()
        weight.data.add_(1)
        assert part.up_to_date() is before
        weight.add_(1)
        after = part.up_to_date()
        assert after is not before
    with pytest.raises(ValueError, match="leave"), trust_version_counters():
        raise ValueError("leave")
    weight.data.add_(1)
    assert part.up_to_date() is not after


def test_counters_are_trusted_by_one_thread() -> None:
    weight = torch.rand(3)
    part = Placed(Diagonal(weight, ("N",)), "meta")
    found = []
    with trust_version_counters():
        before = part.up_to_date()
        weight.data.add_(1)
        thread = threading.Thread(target=lambda: found.append(part.up_to_date()))
        thread.start()
        thread.join()
    assert found[0] is not before
