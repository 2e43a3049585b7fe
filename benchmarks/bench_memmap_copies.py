"""Deep copies and moves of modules: time against torch, and memory while they run."""

from __future__ import annotations

import copy
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import torch
from interleaved import interleaved, print_timings
from results import record
from torch import Tensor, nn

from memmap import (
    AliasWarning,
    MemoryReport,
    memory_aware_deepcopy,
    memory_aware_to,
    overlaps,
)
from memmap._copies._allocate import empty_bytes

MIB = 1 << 20


def main() -> None:
    """Check every copy, then time it in turns with what torch does."""
    if sys.argv[1:]:
        way, source = sys.argv[1:]
        print(on_language_model(source) if way == "on_language_model" else peak_of(way, source))
        return
    overlapping_parameters()
    views_of_one_storage()
    reports()
    many_small_tensors()
    extra_memory()
    language_model()
    sharded_files()


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
    sizes: list[int] = []

    def counted(nbytes: int, device: torch.device) -> Tensor:
        sizes.append(nbytes)
        return empty_bytes(nbytes, device)

    with patch("memmap._copies._buffers.empty_bytes", counted):
        made = list(memory_aware_deepcopy(module).tensors)
    assert sizes == [64 * MIB]
    assert len({tensor.untyped_storage().data_ptr() for tensor in made}) == 1
    assert made[0].untyped_storage().nbytes() == 64 * MIB
    assert overlaps(made[0], made[1]) and not overlaps(made[0], flat)
    ways = {
        "copy.deepcopy": partial(copy.deepcopy, module),
        "memory_aware_deepcopy": partial(memory_aware_deepcopy, module),
    }
    title = "64 overlapping parameters of 16 MiB in 64 MiB"
    print_timings(title, interleaved(ways, rounds=5), {"memory_aware_deepcopy": 1 / 8})
    record(title, "memory_aware_deepcopy allocates", sizes[0] / MIB, "MiB", target=64)


def views_of_one_storage() -> None:
    """1,000 views of one storage of 1 GiB."""
    flat = torch.ones(256 * MIB)
    size = flat.numel() // 1000
    module = Holder([flat[i * size : (i + 1) * size] for i in range(1000)])
    made = list(memory_aware_deepcopy(module).tensors)
    assert len({tensor.untyped_storage().data_ptr() for tensor in made}) == 1
    assert torch.equal(made[999], flat[999 * size : 1000 * size])
    del made
    touched = torch.zeros_like(flat)
    ways: dict[str, Callable[[], object]] = {
        "clone of the storage": flat.clone,
        "memory_aware_deepcopy": partial(memory_aware_deepcopy, module),
        "copy into memory that is there": partial(touched.copy_, flat),
    }
    # The first time, the system may have to find memory; later the memory is there.
    first: dict[str, list[float]] = {name: [] for name in ways}
    later: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(5):
        for name, work in ways.items():
            first[name].append(seconds_of(work))
            later[name] += [seconds_of(work) for _ in range(3)]
    for title, seconds, target in (("first", first, None), ("later", later, 0.5)):
        clone = statistics.median(seconds["clone of the storage"])
        section = f"1,000 views of 1 GiB, {title} calls of five times four"
        print(f"\n{section}")
        for name, own in seconds.items():
            middle = statistics.median(own)
            ratio, low, high = (one / clone for one in (middle, min(own), max(own)))
            aim = target if name == "memory_aware_deepcopy" else None
            record(section, name, ratio, "x", low=low, high=high, seconds=middle, target=aim)
            print(f"  {name:36} {middle * 1e3:8.1f} ms {ratio:6.2f}x ({low:.2f} to {high:.2f})")


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds that one call takes, without those of freeing its result."""
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    del result
    return seconds


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
        print_timings(title, interleaved(ways, rounds=9), {"memory_aware_deepcopy": 1.3})


def reports() -> None:
    """What ``memmap report`` takes for files of 100,000 tensors, and reports in a program."""
    title = "A report on 100,000 tensors, processor time"
    print(f"\n{title}")
    tensors = [torch.ones(10) for _ in range(100_000)]
    flat = torch.ones(1_000_000)
    layers = nn.Sequential(*(nn.Linear(10, 10) for _ in range(50_000)))
    files = {
        "a .pt file, a storage each": dict(enumerate(tensors)),
        "a .pt file, views of one storage": dict(enumerate(flat.split(10))),
        "a .pt file, 50,000 Linear layers": layers.state_dict(),
    }
    _, seconds = started("-c", "import torch")
    record(title, "Python and the import of torch, in each of the next three", seconds, "s")
    print(f"  {'Python and the import of torch':48} {seconds:8.2f} s", flush=True)
    with TemporaryDirectory() as folder:
        path = Path(folder, "checkpoint.pt")
        for way, state in files.items():
            torch.save(state, path)
            shown, seconds = started("-m", "memmap", "report", str(path))
            assert "total on cpu" in shown and shown.count(": float32 10") == 100_000
            reported(title, way, seconds)
        # The path now has the last of the files.
        for way, make in {
            "a .pt file, 50,000 Linear layers, in a program": partial(MemoryReport.from_file, path),
            "a module of 100,000 parameters, in a program": partial(
                MemoryReport, nn.ParameterList(tensors)
            ),
            "a module of 50,000 Linear layers, in a program": partial(MemoryReport, layers),
        }.items():
            start = time.process_time()
            assert "total on cpu" in str(make())
            reported(title, way, time.process_time() - start)


def started(*arguments: str) -> tuple[str, float]:
    """What Python prints, started with arguments, and the seconds that it takes."""
    before = os.times().children_user
    command = [sys.executable, *arguments]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return shown, os.times().children_user - before


def reported(title: str, way: str, seconds: float, target: float = 5) -> None:
    """Print and record what a report took."""
    record(title, way, seconds, "s", target=target)
    print(f"  {way:48} {seconds:8.2f} s", flush=True)


class Block(nn.Module):
    """A block of GPT-2: two norms, four linear layers and the mask."""

    def __init__(self, width: int, n_positions: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        shapes = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
        self.layers = nn.ModuleList(nn.Linear(*shape) for shape in shapes)
        self.register_buffer("mask", torch.ones(n_positions, n_positions, dtype=torch.bool).tril())


class LanguageModel(nn.Module):
    """The tensors of GPT-2: 124 million numbers, the two embeddings tied."""

    def __init__(self, n_words: int = 50257, width: int = 768, n_positions: int = 1024) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(n_words, width), nn.Embedding(n_positions, width)
        self.blocks = nn.ModuleList(Block(width, n_positions) for _ in range(12))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, n_words, bias=False)
        self.head.weight = self.words.weight


def cast_with_sources_held(module: nn.Module) -> None:
    """Cast as `Module.to` does, but keep all sources until the end, so that it can be undone."""
    made = [(tensor, tensor.data.to(torch.bfloat16)) for tensor in module.parameters()]
    held = [tensor.data for tensor, _ in made]
    for tensor, new in made:
        tensor.data = new
    del held


# Each with what it is compared to, and the ratio that was aimed at.
ON_LANGUAGE_MODEL: dict[str, tuple[Callable[[nn.Module], object], str, float | None]] = {
    "Module.to(bfloat16)": (lambda module: module.to(torch.bfloat16), "", None),
    "the same, all sources held": (cast_with_sources_held, "Module.to(bfloat16)", None),
    "memory_aware_to(bfloat16)": (
        partial(memory_aware_to, dtype=torch.bfloat16),
        "Module.to(bfloat16)",
        1.2,
    ),
    "copy.deepcopy": (copy.deepcopy, "", None),
    "memory_aware_deepcopy": (memory_aware_deepcopy, "copy.deepcopy", 1.0),
}


def on_language_model(name: str) -> str:
    """Processor seconds of the first call in this process, and the median of five later ones."""
    work, taken = ON_LANGUAGE_MODEL[name][0], []
    memory_aware_to(memory_aware_deepcopy(nn.Linear(2, 2)), dtype=torch.bfloat16)  # imports
    for copied in (LanguageModel(), *[None] * 5):
        copied = copied or LanguageModel()
        start = time.process_time()
        made = work(copied)
        taken.append(time.process_time() - start)
        del copied, made
    return f"{taken[0]} {statistics.median(taken[1:])}"


def language_model(rounds: int = 7) -> None:
    """A cast of a module of the size of GPT-2, and its deep copy, in processes of their own."""
    module = LanguageModel()
    assert sum(tensor.numel() for tensor in module.parameters()) == 124_439_808
    cast = memory_aware_to(copy.deepcopy(module), dtype=torch.bfloat16)
    for new, old in zip(cast.parameters(), module.parameters(), strict=True):
        assert torch.equal(new, old.to(torch.bfloat16))
    del cast, new, old, module
    taken: dict[str, list[list[float]]] = {name: [] for name in ON_LANGUAGE_MODEL}
    for _ in range(rounds):
        for name, times in taken.items():
            times.append([float(seconds) for seconds in run("on_language_model", name).split()])
    for at, call in enumerate(("the first call in a process", "a later call")):
        title = f"GPT-2 (124M): processor time of {call}"
        print(f"\n{title}")
        for name, (_, base, target) in ON_LANGUAGE_MODEL.items():
            middle = statistics.median(times[at] for times in taken[name])
            pairs = zip(taken[name], taken[base or name], strict=True)
            ratios = [own[at] / other[at] for own, other in pairs]
            ratio = statistics.median(ratios)
            low, _, high = statistics.quantiles(ratios, n=4)
            record(title, name, ratio, "x", low=low, high=high, seconds=middle, target=target)
            print(f"  {name:36} {middle * 1e3:8.1f} ms {ratio:6.2f}x ({low:.2f} to {high:.2f})")


def sharded_files() -> None:
    """What ``memmap report`` takes for the sharded files of a model of 7 billion numbers."""
    title = "memmap report of a sharded checkpoint of 7 billion numbers in bfloat16"
    print(f"\n{title}")
    shapes = {"embed": (32000, 4096), "head": (32000, 4096), "norm": (4096,)}
    for layer in range(32):
        for name in ("q", "k", "v", "o"):
            shapes[f"layers.{layer}.attention.{name}"] = (4096, 4096)
        for name in ("gate", "up", "down"):
            shapes[f"layers.{layer}.mlp.{name}"] = (11008, 4096)
        shapes |= {f"layers.{layer}.norm.{name}": (4096,) for name in ("before", "after")}
    with TemporaryDirectory() as folder:
        names, weight_map = list(shapes), {}
        for shard in range(3):
            path = Path(folder, f"model-{shard + 1}-of-3.safetensors")
            header: dict[str, object] = {}
            reached = 0
            for name in names[shard::3]:
                stop = reached + 2 * math.prod(shapes[name])
                offsets = [reached, stop]
                header[name] = {"dtype": "BF16", "shape": shapes[name], "data_offsets": offsets}
                weight_map[name], reached = path.name, stop
            text = json.dumps(header).encode()
            path.write_bytes(len(text).to_bytes(8, "little") + text)
            os.truncate(path, 8 + len(text) + reached)  # sparse: it takes no place on the disk
        index = Path(folder, "model.safetensors.index.json")
        index.write_text(json.dumps({"weight_map": weight_map}))
        code = (
            "import resource, sys, torch\n"
            "before = resource.getrusage(resource.RUSAGE_SELF)\n"
            "from memmap.__main__ import main\n"
            "main(['report', sys.argv[1]])\n"
            "after = resource.getrusage(resource.RUSAGE_SELF)\n"
            "print(after.ru_utime - before.ru_utime, after.ru_maxrss - before.ru_maxrss)\n"
        )
        shown, seconds = started("-c", code, str(index))
        assert "total on file" in shown and len(weight_map) == len(shapes)
        own, more = shown.splitlines()[-1].split()
    reported(title, "with Python and the import of torch", seconds, target=2)
    reported(title, "without these", float(own), target=2)
    record(title, "more memory than the import of torch", int(more) / 1024, "MiB", target=200)
    print(f"  {'more memory than the import of torch':48} {int(more) / 1024:8.1f} MiB", flush=True)


def extra_memory() -> None:
    """What a cast of 256 MiB to 512 MiB takes: counted allocations, and peak resident memory."""
    module = views()
    sizes: list[int] = []

    def counted(nbytes: int, device: torch.device) -> Tensor:
        sizes.append(nbytes)
        return empty_bytes(nbytes, device)

    with patch("memmap._copies._buffers.empty_bytes", counted):
        memory_aware_to(module, dtype=torch.float64)
    assert all(tensor.dtype == torch.float64 for tensor in module.tensors)
    title = "a cast of 16 views of 256 MiB of float32 to float64, 512 MiB"
    record(title, "memory_aware_to allocates", sum(sizes) / MIB, "MiB", target=512)
    print(f"\n{title}")
    print(f"  memory_aware_to allocates {len(sizes)} time(s), in all {sum(sizes) / MIB:.0f} MiB")
    title = "peak resident memory over that of the source, in processes of their own"
    print(f"\n{title}")
    for source in ("views", "layers"):
        before = int(run("none", source))
        for way in ("memory_aware_to", "low_memory", "to"):
            peak = (int(run(way, source)) - before) / MIB
            record(title, f"{way} of {source}", peak, "MiB")
            print(f"  {way} of {source:30} {peak:10.0f} MiB")


def run(way: str, source: str) -> str:
    """What this program prints, started with arguments."""
    return started(__file__, way, source)[0]


def views() -> Holder:
    """16 views of one storage of 256 MiB."""
    flat = torch.ones(64 * MIB)
    return Holder([flat[i * 4 * MIB : (i + 1) * 4 * MIB] for i in range(16)])


def layers() -> Holder:
    """16 tensors of 16 MiB."""
    return Holder([torch.ones(4 * MIB) for _ in range(16)])


def peak_of(way: str, source: str) -> int:
    """Peak resident bytes of this process after casting a module in the given way."""
    module = views() if source == "views" else layers()
    if way == "to":
        module.to(torch.float64)
    elif way != "none":
        memory_aware_to(module, dtype=torch.float64, low_memory=way == "low_memory")
    # Unlike the number of getrusage, this one does not begin with that of the parent process.
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line
    )
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    # The storages are also held here, to compare with what is made of them.
    warnings.simplefilter("ignore", AliasWarning)
    main()
