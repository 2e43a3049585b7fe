"""Weights that are written to in ways that torch does not count.

Shapes: N the weight.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.dlpack import from_dlpack

from linops_core import Diagonal, NamedLinop
from linops_core.siblings import one_call
from linops_multigpu import (
    BatchSpec,
    DeviceReplica,
    DeviceSpec,
    ToDevice,
    create_batched_linop,
)
from linops_multigpu._weights._contents import _LENGTH, fingerprint
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
    assert bit & 127 in (0, 1)  # a conjugate has other signs
    changed = raw(element.resolve_conj().clone())
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1
    element.data.copy_(changed.view(weight.dtype))
    if not torch.equal(raw(weight.clone()), raw(held)):
        assert fingerprint(weight) != before


@pytest.mark.each_value
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
        weight.grad = torch.ones_like(weight)
        kind([weight], lr=0.1, fused=True).step()  # type: ignore[call-arg]
        weight.grad = None

    return write


def unscale(weight: Tensor) -> None:
    with torch.no_grad():
        torch._amp_foreach_non_finite_check_and_unscale_(
            [weight], torch.zeros(1), torch.tensor([2.0])
        )


FUSED: dict[str, Callable[[Any], Any]] = {
    "fused SGD": fused(torch.optim.SGD),
    "fused Adam": fused(torch.optim.Adam),
    "fused AdamW": fused(torch.optim.AdamW),
    "fused Adagrad": fused(torch.optim.Adagrad),
}
NOT_COUNTED: dict[str, Callable[[Any], Any]] = {
    "data": lambda w: w.data.neg_(),
    "foreach on data": lambda w: torch._foreach_neg_([w.data]),
    "NumPy": lambda w: w.detach().numpy().__imul__(2),
    "DLPack": lambda w: from_dlpack(w.detach()).mul_(2),
    "storage": lambda w: w.untyped_storage().copy_(torch.rand(4).untyped_storage()),
}
COUNTED: dict[str, Callable[[Any], Any]] = {
    "unscale": unscale,
    "another storage": lambda w: setattr(w, "data", torch.rand(4)),
    "detached": lambda w: w.detach().mul_(2),
    "without gradients": torch.no_grad()(lambda w: w.mul_(2)),
}
WRITES = FUSED | NOT_COUNTED | COUNTED


def test_all_fused_optimizers_of_torch_are_here() -> None:
    kinds = [kind for kind in vars(torch.optim).values() if isinstance(kind, type)]
    have_it = {
        f"fused {kind.__name__}"
        for kind in kinds
        if issubclass(kind, torch.optim.Optimizer) and "fused" in signature(kind).parameters
    }
    assert have_it == FUSED.keys()


def applied(A: NamedLinop, x: Tensor) -> Tensor:
    return A(x).detach().cpu()


MODES = {
    "enable_grad": torch.enable_grad,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}


def batched_and_placed(A: NamedLinop) -> list[tuple[NamedLinop, NamedLinop]]:
    """Return operators that work on simulated devices, each with the one that it equals."""
    B = create_batched_linop(A, BatchSpec({"N": 2}, ["sim:0", "sim:1"]))
    there, back = ToDevice("cpu", "sim:0"), ToDevice("sim:0", "cpu")
    P = back @ DeviceReplica(A, DeviceSpec("sim:0").device) @ there
    return [(B, A), (B.N, A.N), (P.H, A.H)]


@pytest.mark.each_value
@pytest.mark.usefixtures("simulation")
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize(
    ("trains", "write"),
    [
        *(pytest.param(True, write, id=f"trains-{name}") for name, write in WRITES.items()),
        *(pytest.param(False, write, id=f"frozen-{name}") for name, write in COUNTED.items()),
    ],
)
def test_writes_reach_every_device(
    trains: bool, write: Callable[[nn.Parameter], object], mode: Callable[[], Any]
) -> None:
    weight = nn.Parameter(torch.rand(4), requires_grad=trains)
    x = torch.rand(4)
    with simulated(2):
        pairs = batched_and_placed(Diagonal(weight, ("N",)))
        for _ in range(2):
            with mode():
                for B, _A in pairs:
                    B(x)
            write(weight)
            with mode():
                for B, A in pairs:
                    torch.testing.assert_close(applied(B, x), applied(A, x))


@pytest.mark.each_value
@pytest.mark.usefixtures("simulation")
@pytest.mark.parametrize("write", FUSED.values(), ids=FUSED)
@pytest.mark.parametrize("seen", ["by a call", "by its gradient", "when it is read"])
def test_steps_on_weights_that_train_for_a_while_are_followed(
    write: Callable[[nn.Parameter], object], seen: str
) -> None:
    weight = nn.Parameter(torch.rand(4), requires_grad=False)
    x = torch.rand(4)
    with simulated(2), torch.no_grad():
        pairs = batched_and_placed(Diagonal(weight, ("N",)))
        for _ in range(2):
            for B, _A in pairs:
                B(x)
            weight.requires_grad_()
            if seen == "by a call":
                for B, _A in pairs:
                    B(x)
            write(weight)
            if seen == "by its gradient":
                weight.grad = torch.ones(4)
            if seen != "when it is read":
                weight.requires_grad_(False)
            for B, A in pairs:
                torch.testing.assert_close(applied(B, x), applied(A, x))
            weight.requires_grad_(False).grad = None


@pytest.mark.usefixtures("simulation")
@pytest.mark.parametrize("write", FUSED.values(), ids=FUSED)
def test_steps_are_followed_by_operators_that_were_moved_or_cast(
    write: Callable[[nn.Parameter], object],
) -> None:
    weight = nn.Parameter(torch.rand(4))
    A, x = Diagonal(weight, ("N",)), torch.rand(4)
    with simulated(2), torch.no_grad():
        pairs = batched_and_placed(A)
        for B, _A in pairs:
            B(x)
        A.double()
        x = x.double()
        for B, _A in pairs:
            torch.testing.assert_close(applied(B, x), applied(_A, x))
        write(weight)
        for B, _A in pairs:
            torch.testing.assert_close(applied(B, x), applied(_A, x))
        # From the host to a device, for operators whose vectors are on the other one.
        batched = create_batched_linop(
            A, BatchSpec({"N": 2}, ["sim:0", "sim:1"], base_device="sim:1")
        )
        batched(x.to("sim:1"))
        A.to("sim:1")
        moved: Any = A.weight  # torch puts a new Parameter there when it moves one to such a device
        for _ in range(2):
            torch.testing.assert_close(applied(batched, x.to("sim:1")), moved.cpu() * x)
            write(moved)


@pytest.mark.usefixtures("simulation")
@pytest.mark.parametrize("write", NOT_COUNTED.values(), ids=NOT_COUNTED)
def test_writes_to_frozen_weights_are_followed_where_torch_counts_them(
    write: Callable[[nn.Parameter], object],
) -> None:
    weight = nn.Parameter(torch.rand(4), requires_grad=False)
    A, x = Diagonal(weight, ("N",)), torch.rand(4)
    with simulated(2):
        pairs = batched_and_placed(A)
        before = [applied(B, x) for B, _ in pairs]
        write(weight)
        for (B, _), y in zip(pairs, before, strict=True):
            assert torch.equal(applied(B, x), y)
        for B, D in batched_and_placed(A):  # made anew
            torch.testing.assert_close(applied(B, x), applied(D, x))
        weight.mul_(2)  # counted
        for B, D in pairs:
            torch.testing.assert_close(applied(B, x), applied(D, x))


def test_contents_are_read_only_of_weights_that_require_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = []

    def reading(tensor: Tensor) -> tuple[int, ...]:
        read.append(tensor)
        return fingerprint(tensor)

    monkeypatch.setattr("linops_multigpu._weights._snapshot.fingerprint", reading)
    weight = nn.Parameter(torch.rand(3), requires_grad=False)
    part = DeviceReplica(Diagonal(weight, ("N",)), "meta")
    before = part.up_to_date()
    assert part.up_to_date() is before and not read
    weight.requires_grad_()
    with torch.no_grad():
        after = part.up_to_date()
        assert after is not before  # an optimizer may have written
        assert part.up_to_date() is after and read
        weight.requires_grad_(False)
        part.up_to_date()
        read.clear()
        assert part.up_to_date() is after and not read


@pytest.mark.usefixtures("simulation")
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_gradient_refuses_every_write(write: Callable[[nn.Parameter], object]) -> None:
    weight = nn.Parameter(torch.rand(4))
    with simulated(1):
        B = create_batched_linop(Diagonal(weight, ("N",)), BatchSpec({"N": 2}, ["sim:0"]))
        y = B(torch.rand(4, requires_grad=True))
        write(weight)
        with pytest.raises(RuntimeError, match="weights must not change before the gradient"):
            torch.autograd.backward(y.sum())


@pytest.mark.usefixtures("simulation")
def test_weights_on_a_device_are_compared_there() -> None:
    x = torch.rand(4)
    with simulated(2):
        weight = nn.Parameter(torch.rand(4).to("sim:0"))
        B = create_batched_linop(
            Diagonal(weight, ("N",)), BatchSpec({"N": 2}, ["sim:0", "sim:1"], base_device="sim:0")
        )
        before = B(x.to("sim:0")).detach().cpu()
        weight.data.mul_(2)
        torch.testing.assert_close(B(x.to("sim:0")).detach().cpu(), 2 * before)
        del weight, B
