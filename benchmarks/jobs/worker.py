"""One way to do one job, in a process of its own: ``worker.py JOB MODULE FOLDER``.

It reads commands from its input, a line each, and answers with a line of JSON: ``run N`` takes N
steps, ``memory N`` too and measures the peak of memory.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from peers import let_torchvision_load

from jobs.problem import load, relative_error

Answer = dict[str, float]


def main() -> None:
    """Do the small problem, then what is asked for."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    warnings.simplefilter("ignore")
    job, name, folder = sys.argv[1:]
    if name in ("by_mrpro", "by_deepinv", "by_mri_nufft"):
        let_torchvision_load()
    module = importlib.import_module(f"jobs.{name}")
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints
    small = Job(module, job, Path(folder, "small"))
    small.run(2)
    work = Job(module, job, Path(folder, "full"))
    for line in sys.stdin:
        what, steps = line.split()
        answer = work.memory(int(steps)) if what == "memory" else work.run(int(steps))
        print(json.dumps(answer), file=answers, flush=True)


class Job:
    """A function and its data, as its library takes them."""

    def __init__(self, module: Any, name: str, folder: Path) -> None:
        self.function: Callable[..., Any] = getattr(module, name)
        self.data, self.expected = load(folder)
        self.is_magnitude = bool(self.data.pop("is_magnitude"))
        self.is_command = module.ARRAYS == "files"
        arrays = {name: x for name, x in self.data.items() if not isinstance(x, (int, float))}
        if self.is_command:
            from jobs import commands

            self.commands = commands
            self.folder = tempfile.TemporaryDirectory()
            self.nbytes = commands.write_files(Path(self.folder.name), **arrays)
            before = processor_time()
            self.start_up = commands.start_up()
            self.idle_processor = (processor_time() - before) / commands.N_IDLE
            self.data = {name: x for name, x in self.data.items() if name not in arrays}
        elif module.ARRAYS == "torch":
            self.data |= {name: torch.from_numpy(x) for name, x in arrays.items()}

    def run(self, steps: int) -> Answer:
        """Return the seconds that it takes, and the error of what is found."""
        if self.is_command:
            os.chdir(self.folder.name)
        gc.collect()
        start, before = time.perf_counter(), processor_time()
        result = self.function(**self.data, steps=steps)
        seconds, processor = time.perf_counter() - start, processor_time() - before
        if self.is_command:
            costs, (idle, idle_bytes) = self.commands.COSTS, self.start_up
            seconds = sum(took - idle for took, _ in costs)
            processor -= len(costs) * self.idle_processor
            self.peak = max(nbytes for _, nbytes in costs) - idle_bytes - self.nbytes
            costs.clear()
        return {
            "seconds": seconds,
            "processor": processor,
            "error": relative_error(result, self.expected, self.is_magnitude),
        }

    def memory(self, steps: int) -> Answer:
        """Return the bytes that it takes at most, beside its data and what is loaded."""
        if self.is_command:
            self.commands.watched.append(True)
            self.run(steps)
            self.commands.watched.clear()
            return {"nbytes": self.peak}
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # the peak is from now on
        before = resident("VmRSS")
        result = self.function(**self.data, steps=steps)
        peak = resident("VmHWM") - before
        return {
            "nbytes": peak,
            "error": relative_error(result, self.expected, self.is_magnitude),
        }


def processor_time() -> float:
    """Return the seconds of all processors that this process and its commands have taken."""
    taken = os.times()
    return taken.user + taken.system + taken.children_user + taken.children_system


def resident(which: str) -> int:
    """Return a number of bytes of this process, as the kernel counts them."""
    said = re.search(rf"{which}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert said is not None
    return int(said[1]) * 1024


if __name__ == "__main__":
    main()
