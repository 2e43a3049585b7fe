"""Random tables over simulated devices, against the sum of all parts written out.

Shapes: M rows, N columns.
"""

import gc
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import Dense, NamedLinop
from linops_multigpu import BatchedLinop, DeviceSpec, Kind
from linops_multigpu._execution._device_tiles import DevicePair
from linops_multigpu._weights._device_replica import replicated_together
from linops_multigpu.testing import SCHEDULES, simulated
from linops_split import Part, Tiles
from nameddim import ND

pytestmark = [pytest.mark.usefixtures("simulation"), pytest.mark.each_value]

M, N = ND("M"), ND("N")
N_ROWS, N_COLUMNS = 4, 5
DEVICES = ["cpu", "sim:0", "sim:1", "sim:2"]


@dataclass
class Table:
    """Blocks of a matrix, which may overlap, each a part of one of two weights."""

    weights: list[nn.Parameter]
    blocks: list[tuple[int, slice, slice]]
    devices: list[str]

    def matrix(self) -> Tensor:
        """Return the matrix by what a table says."""
        total = torch.zeros(N_ROWS, N_COLUMNS, dtype=torch.complex128)
        for of, rows, columns in self.blocks:
            block = torch.zeros_like(total)
            block[rows, columns] = self.weights[of][rows, columns]
            total = total + block
        return total

    def batched(self, base: str, max_in_flight: int) -> BatchedLinop:
        """Return the operator on the devices; what is not on the host has copies of its weights."""
        spec, specs = DeviceSpec(base), {name: DeviceSpec(name) for name in DEVICES}
        wholes = [Dense(weight, ("M", "N")) for weight in self.weights]
        linops: list[NamedLinop] = [
            wholes[of].split(wholes[of], {M: rows, N: columns}) for of, rows, columns in self.blocks
        ]
        for device in {*self.devices} - {"cpu"}:
            members = [n for n, own in enumerate(self.devices) if own == device]
            copies = replicated_together([linops[n] for n in members], torch.device(device))
            for number, copy in zip(members, copies, strict=True):
                linops[number] = copy
        parts = [
            Part(
                linop,
                {M: rows, N: columns},
                None if device == base else DevicePair(specs[device], spec),
            )
            for linop, (_, rows, columns), device in zip(
                linops, self.blocks, self.devices, strict=True
            )
        ]
        tiles = Tiles(wholes[0].shape, parts, {M: N_ROWS, N: N_COLUMNS})
        return BatchedLinop(tiles, spec, max_in_flight)


@st.composite
def pieces(draw: st.DrawFn, length: int) -> slice:
    start = draw(st.integers(0, length - 1))
    return slice(start, draw(st.integers(start + 1, length)))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    weights = [nn.Parameter(torch.randn(N_ROWS, N_COLUMNS, dtype=torch.complex128)) for _ in "ab"]
    block = st.tuples(st.integers(0, 1), pieces(N_ROWS), pieces(N_COLUMNS))
    blocks = draw(st.lists(block, min_size=1, max_size=5))
    n = len(blocks)
    return Table(weights, blocks, draw(st.lists(st.sampled_from(DEVICES), min_size=n, max_size=n)))


def written_out(matrix: Tensor, x: Tensor, weights: list[nn.Parameter]) -> list[Tensor]:
    y = matrix @ x
    of = torch.autograd.grad(y.abs().pow(2).sum(), [x, *weights], allow_unused=True)
    results = [torch.zeros_like(x) if g is None else g for g in of[:1]]
    results += [
        torch.zeros_like(w) if g is None else g for w, g in zip(weights, of[1:], strict=True)
    ]
    return [y.detach(), *results]


@settings(max_examples=settings().max_examples // 2)
@given(st.data())
def test_a_table_is_the_sum_of_its_parts(data: st.DataObject) -> None:
    table = data.draw(tables())
    base = data.draw(st.sampled_from(["cpu", "sim:0"]))
    schedule = data.draw(st.sampled_from(SCHEDULES))
    kind = data.draw(st.sampled_from(["forward", "adjoint", "normal"]))
    with simulated(3, schedule=schedule, seed=data.draw(st.integers(0, 9))) as world:
        world.cut_link("sim:0", "sim:2")
        B = table.batched(base, data.draw(st.integers(1, 3)))
        linop = {"forward": B, "adjoint": B.H, "normal": B.N}[kind]
        matrix = table.matrix()
        matrix = {"forward": matrix, "adjoint": matrix.mH, "normal": matrix.mH @ matrix}[kind]
        x = torch.randn(matrix.shape[1], dtype=torch.complex128, requires_grad=True)
        wanted = written_out(matrix, x, table.weights)
        with torch.no_grad():
            torch.testing.assert_close(linop(x.detach().to(base)).cpu(), wanted[0])
        y = linop(x.to(base))
        gradients = torch.autograd.grad(
            y.abs().pow(2).sum(), [x, *table.weights], allow_unused=True
        )
        results = [y.detach().cpu()]
        results += [
            torch.zeros_like(of) if gradient is None else gradient
            for of, gradient in zip([x, *table.weights], gradients, strict=True)
        ]
        torch.testing.assert_close(results, wanted)
        del B, linop, y
        if any(map(world.allocated_nbytes, world.devices)):  # cycles may hold it
            gc.collect()
        assert [world.allocated_nbytes(device) for device in world.devices] == [0, 0, 0]


@settings(max_examples=settings().max_examples // 2)
@given(tables(), st.integers(1, 3))
def test_what_parts_of_a_device_read_is_sent_once_forward_and_back(
    table: Table, max_in_flight: int
) -> None:
    with simulated(3):
        B = table.batched("cpu", max_in_flight)
        x = torch.randn(N_COLUMNS, dtype=torch.complex128, requires_grad=True)
        torch.autograd.grad(B(x).abs().sum(), x)
        for plan in B._plans.values():
            sends = [a for a in plan.actions if a.kind is Kind.SEND]
            keys = [(a.device, a.operand, repr(a.window)) for a in sends]
            assert len(keys) == len({*keys})
        assert len(B._plans) == 2 or {*table.devices} == {"cpu"}
        del B


def wide_and_narrow(devices: list[str], base: str) -> tuple[BatchedLinop, Tensor]:
    """Return parts whose results have ever wider dtypes, and their matrix."""
    spec = DeviceSpec(base)
    dtypes = [torch.float32, torch.float64, torch.complex64, torch.complex128]
    parts, rows = [], []
    for number, dtype in enumerate(dtypes):
        weight = torch.rand(2, 3, dtype=dtype)
        rows.append(weight.to(torch.complex128))
        device = devices[number % len(devices)]
        linop = Dense(weight.to(device), ("M", "N"))
        place = None if device == base else DevicePair(DeviceSpec(device), spec)
        parts.append(Part(linop, {M: slice(number, number + 2)}, place))
    matrix = torch.zeros(5, 3, dtype=torch.complex128)
    for number, row in enumerate(rows):
        matrix[number : number + 2] += row
    return BatchedLinop(Tiles(parts[0].linop.shape, parts, {M: 5}), spec), matrix


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("base", ["cpu", "sim:0"])
@pytest.mark.parametrize("devices", [["sim:1"], ["sim:1", "sim:0", "cpu"], ["sim:2", "sim:1"]])
def test_results_of_wider_dtypes_make_the_output_wider(
    devices: list[str], base: str, schedule: str
) -> None:
    with simulated(3, schedule=schedule):
        B, matrix = wide_and_narrow(devices, base)
        x = torch.rand(3, dtype=torch.float32)
        y = B(x.to(base))
        assert y.dtype == torch.complex128
        wanted = matrix @ x.to(torch.complex128)
        torch.testing.assert_close(y.cpu(), wanted, rtol=1e-5, atol=1e-5)
        of_x = x.to(base).requires_grad_()
        (result,) = torch.autograd.grad(B(of_x).abs().pow(2).sum(), of_x)
        wanted = 2 * (matrix.mH @ wanted).real
        torch.testing.assert_close(result.cpu(), wanted.float(), rtol=1e-4, atol=1e-4)
        del B, y, of_x, result
