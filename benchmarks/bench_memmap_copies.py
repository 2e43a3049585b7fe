"""Deep copies and moves of modules: time against torch, and memory while they run."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from interleaved import interleaved, print_timings
from torch import Tensor, nn

from memmap import memory_aware_deepcopy, memory_aware_to, overlaps

MIB = 1 << 20


def main() -> None:
    """Check every copy, then time it in turns with what torch does."""
    if sys.argv[1:]:
        print(peak_of(sys.argv[1]))
        return
    overlapping_parameters()
    views_of_one_storage()
    one_large_parameter()
    many_small_tensors()
    extra_memory()


class Holder(nn.Module):
    """A module with some parameters."""

    def __init__(self, tensors: list[Tensor]) -> None:
        super().__init__()
        self.tensors = nn.ParameterList(nn.Parameter(tensor) for tensor in tensors)


def overlapping_parameters() -> None:
    """64 overlapping parameters of 16 MiB in 64 MiB."""
    flat = torch.ones(16 * MIB)
    starts = [i * 12 * MIB // 63 for i in range(64)]
    module = Holder([flat[start : start + 4 * MIB] for start in starts])
    made = list(memory_aware_deepcopy(module).tensors)
    assert len({tensor.untyped_storage().data_ptr() for tensor in made}) == 1
    assert made[0].untyped_storage().nbytes() == 64 * MIB
    assert overlaps(made[0], made[1]) and not overlaps(made[0], flat)
    ways = {
        "memory_aware_deepcopy": partial(memory_aware_deepcopy, module),
        "copy.deepcopy": partial(copy.deepcopy, module),
    }
    print_timings("64 overlapping parameters of 16 MiB in 64 MiB", interleaved(ways, rounds=5))


def views_of_one_storage() -> None:
    """1,000 views of one storage of 256 MiB."""
    flat = torch.ones(64 * MIB)
    size = flat.numel() // 1000
    module = Holder([flat[i * size : (i + 1) * size] for i in range(1000)])
    made = list(memory_aware_deepcopy(module).tensors)
    assert len({tensor.untyped_storage().data_ptr() for tensor in made}) == 1
    assert torch.equal(made[999], flat[999 * size : 1000 * size])
    ways: dict[str, Callable[[], object]] = {
        "clone of the storage": flat.clone,
        "memory_aware_deepcopy": partial(memory_aware_deepcopy, module),
    }
    print_timings("1,000 views of 256 MiB", interleaved(ways, rounds=9))


def one_large_parameter() -> None:
    """One parameter of 1 GiB."""
    module = Holder([torch.ones(256 * MIB)])
    assert torch.equal(memory_aware_deepcopy(module).tensors[0], module.tensors[0])
    ways: dict[str, Callable[[], object]] = {
        "clone": partial(torch.clone, module.tensors[0].data),
        "memory_aware_deepcopy": partial(memory_aware_deepcopy, module),
    }
    print_timings("one parameter of 1 GiB", interleaved(ways, rounds=5))


def many_small_tensors() -> None:
    """10,000 parameters of 10 elements; 5,000 layers."""
    modules = {
        "10,000 parameters of 10 elements": Holder([torch.ones(10) for _ in range(10_000)]),
        "5,000 Linear(10, 10)": nn.Sequential(*(nn.Linear(10, 10) for _ in range(5000))),
    }
    for title, module in modules.items():
        made = memory_aware_deepcopy(module)
        for new, old in zip(made.parameters(), module.parameters(), strict=True):
            assert torch.equal(new, old) and not overlaps(new, old)
        ways: dict[str, Callable[[], object]] = {
            "copy.deepcopy": partial(copy.deepcopy, module),
            "memory_aware_deepcopy": partial(memory_aware_deepcopy, module),
        }
        print_timings(title, interleaved(ways, rounds=9))


def extra_memory() -> None:
    """Peak resident memory of a cast, in a process of its own, over that of the source."""
    print("\na cast of 16 views of 256 MiB to 512 MiB of float64: peak memory over the source")
    source = int(run("none"))
    for way in ("memory_aware_to", "to"):
        print(f"  {way:44} {(int(run(way)) - source) / MIB:10.0f} MiB")


def run(way: str) -> str:
    """What this program prints, started with an argument."""
    command = [sys.executable, __file__, way]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def peak_of(way: str) -> int:
    """Peak resident bytes of this process after casting a module in the given way."""
    flat = torch.ones(64 * MIB)
    module = Holder([flat[i * 4 * MIB : (i + 1) * 4 * MIB] for i in range(16)])
    del flat
    if way == "memory_aware_to":
        memory_aware_to(module, dtype=torch.float64)
    elif way == "to":
        module.to(torch.float64)
    # Unlike the number of getrusage, this one does not begin with that of the parent process.
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line
    )
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
