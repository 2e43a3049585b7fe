"""Operators on simulated devices give what they give on the CPU, bit by bit."""

import copy
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from linops_core import Dense
from linops_multigpu.testing import SCHEDULES, simulated
from memmap import ModuleMemoryMap, memory_aware_to

pytestmark = pytest.mark.usefixtures("simulation")
N = 4
schedules = st.sampled_from(SCHEDULES)
Function = Callable[[Tensor, Tensor], Tensor]

FUNCTIONS: dict[str, Function] = {
    "arithmetic": lambda x, y: (2 * x + y / 3) * y.conj() - 1,
    "in place": lambda x, y: x.clone().add_(y).mul_(2),
    "fft": lambda x, y: torch.fft.fft(x) + torch.fft.ifft(y, norm="ortho"),
    "matmul": lambda x, y: torch.outer(x, y.conj()) @ x,
    "einsum": lambda x, y: torch.einsum("i,j->ji", x, y.conj()),
    "norm": lambda x, y: torch.linalg.vector_norm(x) + torch.vdot(x, y),
    "slices": lambda x, y: torch.cat([x[1::2], y.flip(0)[:3]]).reshape(1, -1).mT.squeeze(1),
    "index": lambda x, y: x[torch.tensor([0, 2, 2])] + y[[1, 1, 0]],
    "index_add": lambda x, y: x.clone().index_add_(0, torch.tensor([1, 1], device=x.device), y[:2]),
    "index_put": lambda x, y: x.clone().index_put_((torch.tensor([3]),), y[:1]),
    "mask": lambda x, y: x[x.real > 0].sum() + torch.where(y.imag > 0, y, x).sum(),
    "parts": lambda x, y: torch.view_as_complex(torch.view_as_real(x).clone()) + y.real,
    "abs": lambda x, y: x.abs() + y.angle(),
    "svd": lambda x, y: torch.linalg.svdvals(torch.stack([x, y])),
    "factories": lambda x, y: (
        x + torch.arange(N, device=x.device) + torch.eye(N, device=x.device)[0]
    ),
    "remainder": lambda x, y: x.real % 2 + (y.real * 9).long() % 3 + x.imag.fmod(0.5),
    "convolution": lambda x, y: torch.nn.functional.conv1d(
        x.real[None, None], y.imag[None, None, :2]
    ),
    "number": lambda x, y: x * torch.tensor(2.0) + y.sum().item(),
    "write to a part": lambda x, y: _written(x.clone(), y),
    "dtype": lambda x, y: (x.to(torch.complex64) + y).real.to(torch.float16),
    "expand": lambda x, y: x.expand(2, N) + y[:1].expand(N),
    "out": lambda x, y: torch.add(x, y, out=torch.empty(0, dtype=x.dtype, device=x.device)),
    "nonzero": lambda x, y: (x.real > 0).nonzero(),
}


def _written(x: Tensor, y: Tensor) -> Tensor:
    x[1:3] = y[:2]
    x[:1] *= 2
    return x


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=10)
@given(st.integers(0, 99), schedules)
def test_the_bits_are_those_of_the_cpu(name: str, seed: int, schedule: str) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, N, dtype=torch.complex128, generator=generator)
    with simulated(2, schedule=schedule, seed=seed) as world:
        result = FUNCTIONS[name](x.to("sim:1"), y.to("sim:1"))
        assert result.device == world.devices[1]
        assert torch.equal(result.cpu(), FUNCTIONS[name](x, y))


@given(schedules, st.integers(0, 9))
def test_random_numbers_do_not_depend_on_the_schedule(schedule: str, seed: int) -> None:
    torch.manual_seed(seed)
    with simulated(2) as world:
        expected = [torch.randn(N, device=device) for device in world.devices]
        expected = [values.cpu() for values in expected]
    torch.manual_seed(seed)
    with simulated(2, schedule=schedule) as world:
        results = [torch.randn(N, device=device) for device in world.devices]
        assert all(torch.equal(a.cpu(), b) for a, b in zip(results, expected, strict=True))


def test_random_numbers_without_a_generator_are_refused() -> None:
    with simulated(1):
        x = torch.ones(N, device="sim:0")
        with pytest.raises(RuntimeError, match="random numbers must come from a generator"):
            torch.ops.aten.native_dropout(x, 0.5, True)


def test_a_number_on_the_host_is_taken_at_once() -> None:
    with simulated(1, check=False) as world:
        x, number = torch.ones(N, device="sim:0"), torch.tensor(2.0)
        y = torch.mul(x, number)
        number.fill_(5)
        assert torch.equal(y.cpu(), torch.full((N,), 2.0))
        late = x.sum().to("cpu", non_blocking=True)
        torch.mul(x, late)
        assert "the read of 4 bytes by the host in number" in world.races[0]


@pytest.mark.parametrize("other", ["cpu", "sim:1"])
@pytest.mark.parametrize("function", [torch.add, torch.dot, torch.outer])
def test_tensors_on_several_devices_are_refused(function: Function, other: str) -> None:
    with simulated(2):
        x, y = torch.ones(N, device="sim:0"), torch.ones(N, device=other)
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            function(x, y)


def test_a_result_on_the_host_is_refused() -> None:
    with simulated(1):
        x = torch.ones(N, device="sim:0")
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            torch.sum(x, 0, out=torch.zeros(()))


def test_a_tensor_with_too_little_memory_is_not_resized() -> None:
    with simulated(1):
        x = torch.ones(N, device="sim:0")
        x.resize_(2)
        assert torch.equal(x.cpu(), torch.ones(2))
        with pytest.raises(RuntimeError, match=r"to be resized must be empty .* \(2,\) to become"):
            x.resize_(2 * N)


def test_eight_bits_are_a_floating_point_number_too() -> None:
    x = torch.tensor([1.0, -2.0, 0.5]).to(torch.float8_e4m3fn)
    with simulated(1):
        assert torch.equal(x.to("sim:0").float().cpu(), x.float())


def test_elements_that_dlpack_has_not_are_refused() -> None:
    with simulated(1), pytest.raises(TypeError, match="the dtype must be one that DLPack has"):
        torch.empty(N, device="sim:0", dtype=torch.bits8)


def test_what_is_not_written_is_poison() -> None:
    with simulated(1):
        assert torch.empty(N, device="sim:0").isnan().all()
        x = torch.ones(N, device="sim:0")
        del x
        assert torch.empty(N, device="sim:0").isnan().all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_gradients_cross_devices(schedule: str) -> None:
    def f(x: Tensor, there: str, elsewhere: str) -> Tensor:
        y = torch.fft.fft(x[:2].to(there)) * 2
        return torch.cat([y.to(elsewhere).cpu() * x[:2], x[2:].to(elsewhere).exp().cpu()])

    x = torch.randn(N, dtype=torch.complex128, requires_grad=True)
    with simulated(3, schedule=schedule):
        (there,) = torch.autograd.grad(f(x, "sim:0", "sim:2").abs().sum(), x)
    (here,) = torch.autograd.grad(f(x, "cpu", "cpu").abs().sum(), x)
    assert torch.equal(there, here)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_is_given_in_inference_mode_may_be_done_outside(schedule: str) -> None:
    with simulated(1, schedule=schedule) as world:
        with torch.inference_mode():
            x = 2 * torch.arange(float(N), device="sim:0")
            y = x.to("cpu", non_blocking=True)
        world.synchronize()
        assert y.is_inference()
        assert torch.equal(y, 2 * torch.arange(float(N)))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_work_that_is_done_later_is_no_change_to_autograd(schedule: str) -> None:
    with simulated(1, schedule=schedule) as world:
        x = torch.ones(N, device="sim:0", requires_grad=True)
        y = torch.empty(N)
        y.copy_(2 * x.detach(), non_blocking=True)
        loss = (x.cpu() * y).sum()
        world.synchronize()
        (gradient,) = torch.autograd.grad(loss, x)
        assert torch.equal(gradient.cpu(), torch.full((N,), 2.0))


def test_storages_are_storages() -> None:
    with simulated(2) as world:
        x = torch.arange(6.0, device="sim:1")
        assert type(x) is Tensor
        part = x[2:].view(2, 2)
        assert part.untyped_storage()._cdata == x.untyped_storage()._cdata
        assert part.data_ptr() - x.data_ptr() == 8
        storage = x.untyped_storage()[4:16]
        y = torch.empty(0, device="sim:1").set_(storage, 0, (3,), (1,))
        y += 1
        assert torch.equal(x.cpu(), torch.tensor([0.0, 2, 3, 4, 4, 5]))
        del x, part
        assert world.allocated_nbytes("sim:1") == 24
        del storage, y
        assert world.allocated_nbytes("sim:1") == 0


def test_a_storage_that_torch_would_make_itself_is_refused() -> None:
    with simulated(1):
        x = torch.ones(N, device="sim:0")
        with pytest.raises(RuntimeError, match="devices must match"):
            copy.deepcopy(x)


def test_memory_aware_copies_keep_what_is_shared() -> None:
    weight = torch.randn(N, N, dtype=torch.complex128)
    modules = nn.ModuleList([Dense(weight, ("M", "N")), Dense(weight[1:], ("K", "N"))])
    x = torch.randn(N, dtype=torch.complex128)
    with simulated(2) as world:
        placed = ModuleMemoryMap().copy_to(modules, torch.device("sim:1"))
        assert world.moved == [("cpu", "sim:1", weight.nbytes)]
        assert world.allocated_nbytes("sim:1") == weight.nbytes
        for there, here in zip(placed, modules, strict=True):
            assert torch.equal(there(x.to("sim:1")).cpu(), here(x))
        back = memory_aware_to(placed, torch.device("cpu"))
        assert torch.equal(back[0](x), modules[0](x))
        del placed, back, there
        assert world.allocated_nbytes("sim:1") == 0


def test_an_operator_with_weights_on_a_device_can_be_copied() -> None:
    with simulated(1):
        A = Dense(nn.Parameter(torch.randn(2, N, device="sim:0")), ("M", "N"))
        assert all(weight.device.type == "sim" for weight in copy.deepcopy(A).parameters())


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_writes_to_lists_are_counted(device: str) -> None:
    with simulated(1):
        written, read = torch.ones(N, device=device), torch.ones(N, device=device)
        torch._foreach_mul_([written], 2)
        torch._foreach_add_([written], [read])
        assert (written._version, read._version) == (2, 0)
        written.mul_(2)
        torch.mul(read, 2, out=written)
        assert written._version == 4
        with torch.inference_mode():
            inferred = torch.ones(N, device=device)
            torch._foreach_mul_([inferred], 2)
            assert torch.equal(inferred.cpu(), torch.full((N,), 2.0))


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_averages_of_weights_are_followed(device: str) -> None:
    with simulated(1):
        model = nn.Linear(2, 2, bias=False).to(device)
        average = get_ema_multi_avg_fn(0.5)
        averaged = AveragedModel(model, multi_avg_fn=average)
        averaged.update_parameters(model)
        (weight,) = averaged.parameters()
        version = weight._version
        averaged.update_parameters(model)
        assert weight._version > version
