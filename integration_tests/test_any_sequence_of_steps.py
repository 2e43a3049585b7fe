"""After any sequence of steps every operator still equals its matrix, wherever it is.

An operator with three weights is copied, derived from, cut, sent to devices, changed and saved, in
any order. The model knows no operators: it knows which *slots* an operator reads, which *value* is
in each slot, and what the matrix is for given values. What is made of an operator reads its slots;
a deep copy has values of its own.

Shapes: C coils, N pixels, K samples.
"""

from __future__ import annotations

import copy
import gc
import io
import pickle
import sys
import weakref
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import cast

import pytest
import torch
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from torch import Tensor, nn

from linops_core import FFT, Dense, Diagonal, NamedLinop
from linops_multigpu import BatchSpec, create_batched_linop
from linops_multigpu.testing import SCHEDULES, simulated
from linops_split import batch_linop
from memmap import memory_aware_to, same_storage

C, N, K = 3, 2, 2
pytestmark = pytest.mark.skipif(
    torch.accelerator.is_available(), reason="simulated devices need a process without real ones"
)
CPU = torch.device("cpu")
numbers, sizes = st.integers(0, 99), st.integers(1, C + 1)
DEVICES = ("cpu", "sim:0", "sim:1", "sim:2")
SHAPES = {"maps": (C, N), "mask": (K,), "rest": (C, K, N)}
NAMES = tuple(SHAPES)
names = st.sampled_from(NAMES)


class Value:
    """What is in a slot: memory, of which the model has a copy."""

    def __init__(self, tensor: Tensor) -> None:
        self.now = tensor.detach().cpu().clone()


class Slot:
    """A place in which operators that were made of one another find a weight."""

    def __init__(self, value: Value) -> None:
        self.value = value


@dataclass(frozen=True)
class Known:
    """An operator, and what the model knows of it."""

    linop: NamedLinop
    kind: str
    """A, H or N: the operator that was made first, its adjoint or its normal."""
    slots: dict[str, Slot]
    device: torch.device = CPU
    is_spread: bool = False
    """Whether it sends vectors to other devices by itself."""

    def matrix(self) -> Tensor:
        """Return what the operator has to be."""
        maps, mask, rest = (self.slots[name].value.now for name in NAMES)
        F = torch.fft.fft(torch.eye(N, dtype=maps.dtype), norm="ortho")
        A = torch.einsum("k,kn,cn->ckn", mask, F, maps) + rest
        A = A.reshape(C * K, N)
        return {"A": A, "H": A.mH, "N": A.mH @ A}[self.kind]

    @property
    def n_columns(self) -> int:
        return C * K if self.kind == "H" else N

    def found(self) -> Tensor:
        """Return the matrix of the operator, column by column."""
        shape = (C, K) if self.kind == "H" else (N,)
        basis = torch.eye(self.n_columns, dtype=torch.complex128)
        columns = [self.linop(e.reshape(shape).to(self.device)).cpu() for e in basis]
        return torch.stack([column.flatten() for column in columns], dim=-1)


def new_operator() -> NamedLinop:
    """Return diag(mask) F maps + rest."""
    weights = {
        name: nn.Parameter(torch.randn(shape, dtype=torch.complex128))
        for name, shape in SHAPES.items()
    }
    S = Dense(weights["maps"], ("C", "N"), ("N",), ("C", "N"))
    F = FFT(1, ("C",), grid_shapes=(("N",), ("K",)))
    M = Diagonal(weights["mask"], ("C", "K"), weight_shape=("K",))
    return M @ F @ S + Dense(weights["rest"], ("C", "K", "N"), ("N",), ("C", "K"))


def holder_of(linop: NamedLinop, name: str) -> tuple[nn.Module, str]:
    """Return the module in which a weight is found, and its name there: by its shape."""
    for module in linop.modules():
        for own, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None and tuple(tensor.shape) == SHAPES[name]:
                return module, own
    raise AssertionError(f"{name} is nowhere in {linop}")


def weight_of(linop: NamedLinop, name: str) -> Tensor:
    """Return a weight, whole, where an operator finds it."""
    module, own = holder_of(linop, name)
    return cast(Tensor, getattr(module, own))


class Steps(RuleBasedStateMachine):
    """Any steps, in any order; ``one`` and ``other`` say which of the operators is meant."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.seen: list[weakref.ref[Tensor]] = []
        self.all: list[Known] = []

    @initialize(schedule=st.sampled_from(SCHEDULES), seed=st.integers(0, 9))
    def begin(self, schedule: str, seed: int) -> None:
        self.world = self.stack.enter_context(simulated(3, schedule=schedule, seed=seed))
        torch.manual_seed(seed)
        self.add_with_values_of_its_own(Known(new_operator(), "A", {}))

    def chosen(self, number: int) -> Known:
        return self.all[number % len(self.all)]

    def add(self, known: Known) -> None:
        self.all.append(known)

    def add_with_values_of_its_own(self, known: Known) -> None:
        weights = {name: weight_of(known.linop, name) for name in NAMES}
        self.seen += [weakref.ref(weight) for weight in weights.values()]
        slots = {name: Slot(Value(weight)) for name, weight in weights.items()}
        self.add(replace(known, slots=slots))

    # Steps.

    @rule(one=numbers)
    def copy_shallowly(self, one: int) -> None:
        known = self.chosen(one)
        self.add(replace(known, linop=copy.copy(known.linop)))

    @rule(one=numbers)
    def copy_deeply(self, one: int) -> None:
        known = self.chosen(one)
        self.add_with_values_of_its_own(replace(known, linop=copy.deepcopy(known.linop)))

    @rule(one=numbers)
    def pickle_it(self, one: int) -> None:
        known = self.chosen(one)
        if not is_on_host(known):  # what is on a simulated device has no file
            return
        other = pickle.loads(pickle.dumps(known.linop))
        self.add_with_values_of_its_own(replace(known, linop=other))

    @rule(one=numbers)
    def take_the_adjoint(self, one: int) -> None:
        known = self.chosen(one)
        kind = {"A": "H", "H": "A", "N": "N"}[known.kind]
        self.add(replace(known, linop=known.linop.H, kind=kind))

    @rule(one=numbers)
    def take_the_normal(self, one: int) -> None:
        known = self.chosen(one)
        if known.kind != "A":
            return
        self.add(replace(known, linop=known.linop.N, kind="N"))

    @rule(one=numbers, size=sizes)
    def cut(self, one: int, size: int) -> None:
        known = self.chosen(one)
        if can_be_cut(known):
            self.add(replace(known, linop=batch_linop(known.linop, {"C": size})))

    @rule(
        one=numbers,
        size=sizes,
        devices=st.lists(st.sampled_from(DEVICES), min_size=1, max_size=3),
        base=st.sampled_from(DEVICES[:2]),
        inner=st.none() | sizes,
        max_in_flight=st.integers(1, 3),
    )
    def spread(
        self,
        one: int,
        size: int,
        devices: list[str],
        base: str,
        inner: int | None,
        max_in_flight: int,
    ) -> None:
        known = self.chosen(one)
        if known.is_spread or not can_be_cut(known):
            return
        specs = [BatchSpec({"C": size}, devices, base)]
        specs += [] if inner is None else [BatchSpec({"C": inner})]
        B = create_batched_linop(known.linop, specs, max_in_flight=max_in_flight)
        self.add(replace(known, linop=B, device=torch.device(base), is_spread=True))

    @rule(one=numbers, device=st.sampled_from(DEVICES))
    def move_a_copy(self, one: int, device: str) -> None:
        known = self.chosen(one)
        if known.is_spread:
            return
        other = memory_aware_to(copy.deepcopy(known.linop), device)
        moved = replace(known, linop=other, device=torch.device(device))
        self.add_with_values_of_its_own(moved)

    @rule(one=numbers, dtype=st.sampled_from([torch.float32, torch.float64]))
    def cast_a_copy(self, one: int, dtype: torch.dtype) -> None:
        known = self.chosen(one)
        if not is_on_host(known):
            return
        other = copy.deepcopy(known.linop).to(dtype)
        self.add_with_values_of_its_own(replace(known, linop=other))

    @rule(one=numbers, name=names, factor=st.sampled_from([-0.5, 2.0, 1.5]))
    def write_to_a_weight(self, one: int, name: str, factor: float) -> None:
        known = self.chosen(one)
        with torch.no_grad():
            weight_of(known.linop, name).mul_(factor)
        known.slots[name].value.now *= factor

    @rule(one=numbers, name=names)
    def replace_a_weight(self, one: int, name: str) -> None:
        known = self.chosen(one)
        module, own = holder_of(known.linop, name)
        old = cast(Tensor, getattr(module, own))
        new = torch.randn(SHAPES[name], dtype=old.dtype).to(old.device)
        new = nn.Parameter(new) if isinstance(old, nn.Parameter) else new
        self.seen.append(weakref.ref(new))
        setattr(module, own, new)
        known.slots[name].value = Value(new)

    @rule(one=numbers, other=numbers)
    def load_a_checkpoint(self, one: int, other: int) -> None:
        source, known = self.chosen(one), self.chosen(other)
        saved, own = source.linop.state_dict(), known.linop.state_dict()
        if not (is_on_host(source) and is_on_host(known)):
            return
        if {k: t.shape for k, t in saved.items()} != {k: t.shape for k, t in own.items()}:
            return
        file = io.BytesIO()
        torch.save(saved, file)
        file.seek(0)
        known.linop.load_state_dict(torch.load(file))
        for name in NAMES:
            into, values = known.slots[name].value, source.slots[name].value
            into.now = values.now.to(into.now.dtype, copy=True)

    # What must hold.

    @rule(one=numbers)
    def it_equals_its_matrix(self, one: int) -> None:
        check(self.chosen(one))

    @rule(one=numbers, other=numbers, name=names)
    def weights_are_shared_where_they_should_be(self, one: int, other: int, name: str) -> None:
        first, second = self.chosen(one), self.chosen(other)
        is_one = first.slots[name].value is second.slots[name].value
        weights = weight_of(first.linop, name), weight_of(second.linop, name)
        assert same_storage(*weights) == is_one

    @rule(one=numbers)
    def forget(self, one: int) -> None:
        if len(self.all) > 1:
            del self.all[one % len(self.all)]

    def teardown(self) -> None:
        with self.stack:
            if sys.exception() is None:  # a step that failed keeps what it worked with
                self.all_is_well()

    def all_is_well(self) -> None:
        """Check all operators, and that nothing is left of them when they are gone."""
        while self.all:
            check(self.all.pop())
        gc.collect()
        assert not any(weight() is not None for weight in self.seen), "a weight is kept"
        self.world.synchronize()
        left = [self.world.allocated_nbytes(device) for device in self.world.devices]
        assert left == [0, 0, 0], "a device keeps memory"


def is_on_host(known: Known) -> bool:
    """Whether all weights are."""
    return all(weight_of(known.linop, name).device == CPU for name in NAMES)


def can_be_cut(known: Known) -> bool:
    """Whether an operator can be cut along C: not the normal of uneven tiles, and it says so."""
    reason = known.linop.why_opaque("C")
    assert reason is None or (known.kind == "N" and "inside of different operands" in reason)
    return reason is None


def check(known: Known) -> None:
    """Check that an operator equals its matrix."""
    wanted = known.matrix()
    rough = any(slot.value.now.dtype == torch.complex64 for slot in known.slots.values())
    with torch.no_grad():
        error = (known.found() - wanted).abs().max().item()
    limit = (1e-4 if rough else 1e-9) * (1 + wanted.abs().max().item())
    assert error <= limit, f"{known.kind} is off by {error}: {known.linop}"


# To shrink what simulated devices do would take minutes.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
Steps.TestCase.settings = settings(
    max_examples=settings().max_examples // 3, stateful_step_count=20, phases=PHASES
)
test_after_any_sequence_of_steps = Steps.TestCase
