"""Moves, copies and traces on a GPU: the sharing of a CPU, and the bytes that are promised."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings

from memmap import (
    MemoryReport,
    ModuleMemoryMap,
    memory_aware_deepcopy,
    memory_aware_to,
    overlapping_pairs,
)
from memmap.dataflow import analyze_dependencies, trace
from memmap.testing import Holder, content_of, modules, sharing_of, tensors_of

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::memmap.AliasWarning")]

MIB = 2**20
TYPES = [torch.float32, torch.int64, torch.complex64, torch.uint8, torch.complex128, torch.bool]


def gpu() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


@pytest.fixture
def clean() -> Iterator[None]:
    """Start with no free memory held by torch, so that peaks are those of the test."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    yield
    torch.cuda.empty_cache()


def two_views(n: int = 4 * MIB) -> Holder:
    """Return parameters of 3/4 each of one vector; half of it is in both."""
    flat = torch.arange(float(n))
    return Holder(a=torch.nn.Parameter(flat[: 3 * n // 4]), b=torch.nn.Parameter(flat[n // 4 :]))


@settings(max_examples=100)
@given(modules(dtypes=TYPES))
def test_what_shared_memory_shares_it_on_a_gpu_and_comes_back(module: torch.nn.Module) -> None:
    tensors = [tensor for _, tensor in tensors_of(module)]
    before = sharing_of(tensors), [content_of(tensor) for tensor in tensors]
    memory_aware_to(module, gpu(), attributes=True)
    moved = [tensor for _, tensor in tensors_of(module)]
    assert all(tensor.device == gpu() for tensor in moved)
    assert sharing_of(moved) == before[0]
    copied = memory_aware_deepcopy(module)
    for same in (module, copied):
        assert sharing_of([tensor for _, tensor in tensors_of(same)]) == before[0]
        memory_aware_to(same, "cpu", attributes=True)
        results = [tensor for _, tensor in tensors_of(same)]
        assert (sharing_of(results), [content_of(tensor) for tensor in results]) == before


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("low_memory", [False, True])
def test_a_move_takes_the_bytes_of_the_storage_and_gives_them_back(low_memory: bool) -> None:
    module, start = two_views(), torch.cuda.memory_allocated()
    memory_aware_to(module, gpu(), low_memory=low_memory)
    assert torch.cuda.memory_allocated() - start == 16 * MIB
    assert torch.cuda.max_memory_allocated() - start == 16 * MIB
    copied = memory_aware_deepcopy(module)
    assert torch.cuda.memory_allocated() - start == 32 * MIB
    assert overlapping_pairs([*module.parameters(), *copied.parameters()]) == [(0, 1), (2, 3)]
    memory_aware_to(module, "cpu", low_memory=low_memory)
    del copied
    assert torch.cuda.memory_allocated() == start


@pytest.mark.usefixtures("clean")
def test_a_cast_with_low_memory_holds_one_storage_twice() -> None:
    module, start = (
        torch.nn.ModuleList(two_views() for _ in range(4)),
        torch.cuda.memory_allocated(),
    )
    memory_aware_to(module, gpu())
    torch.cuda.reset_peak_memory_stats()
    memory_aware_to(module, dtype=torch.float64, low_memory=True)
    assert torch.cuda.memory_allocated() - start == 4 * 32 * MIB
    assert torch.cuda.max_memory_allocated() - start == (4 * 32 + 16) * MIB
    wanted = torch.arange(3.0 * MIB, dtype=torch.float64)
    for name, tensor in module.named_parameters():
        if name.endswith("a"):
            torch.testing.assert_close(tensor.detach().cpu(), wanted, rtol=0, atol=0)


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("low_memory", [False, True])
def test_a_gpu_that_is_full_changes_nothing(low_memory: bool) -> None:
    module = torch.nn.ModuleList(two_views() for _ in range(4))
    before = [(tensor, tensor.data_ptr()) for tensor in module.parameters()]
    start = torch.cuda.memory_allocated()
    total = torch.cuda.get_device_properties(gpu()).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 40 * MIB) / total)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            memory_aware_to(module, gpu(), low_memory=low_memory)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    for (old, address), new in zip(before, module.parameters(), strict=True):
        assert old is new and new.device.type == "cpu"
        assert low_memory or new.data_ptr() == address
    assert torch.cuda.memory_allocated() == start
    torch.testing.assert_close(before[6][0].detach(), torch.arange(3.0 * MIB), rtol=0, atol=0)


@pytest.mark.usefixtures("clean")
def test_a_map_sends_each_touched_byte_once() -> None:
    matrix = torch.rand(4096, 1024)
    parts = [Holder(columns=torch.nn.Buffer(matrix[:, at : at + 96])) for at in (0, 64)]
    memory_map = ModuleMemoryMap()
    for part in parts:
        memory_map.register_module(part, device=gpu())
    start = torch.cuda.memory_allocated()
    there = [memory_map.copy_to(part, gpu()) for part in parts]
    assert torch.cuda.memory_allocated() - start == 4096 * 160 * 4
    assert overlapping_pairs([part.columns for part in there]) == [(0, 1)]
    for part, source in zip(there, parts, strict=True):
        assert torch.equal(part.columns.cpu(), source.columns)


def test_a_report_counts_what_is_on_a_gpu() -> None:
    module = memory_aware_to(two_views(1024), gpu())
    report = MemoryReport(module)
    assert (report.totals.allocated, report.totals.shared) == (4096, 2048)
    assert f"total on {gpu()}" in str(report)


def steps(x: torch.Tensor) -> None:
    y = x[::2] + 1
    x[1::2].mul_(2)
    y.add_(x[1::2])
    x.zero_()


def test_hazards_are_those_of_the_cpu() -> None:
    results = []
    for device in ("cpu", gpu()):
        x = torch.arange(8.0, device=device)
        results.append([str(edge) for edge in analyze_dependencies(trace(steps, x)).edges])
    assert results[0] == results[1] != []
