"""Commands of BART on files in the current folder, and what their processes take."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from jobs.problem import Array
from linops_imaging.io import write_cfl

COSTS: list[tuple[float, int]] = []
"""Seconds of each command since this list was emptied, and bytes where they are watched."""
N_IDLE = 10
"""Commands by which the start-up is known."""
watched: list[bool] = []
"""Not empty while memory is measured: a thread then looks at it, which takes time."""


def bart(*words: object) -> None:
    """Run a command, and keep what it took in `COSTS`."""
    command = ["bart", *map(str, words)]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = 0
    if watched:
        while process.poll() is None:
            peak = max(peak, resident_peak(process.pid))
            time.sleep(1e-4)
    _, said = process.communicate()
    COSTS.append((time.perf_counter() - start, peak))
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {said.decode()}")


def resident_peak(pid: int) -> int:
    """Return the most bytes that a process had so far; 0 where it has ended."""
    try:
        said = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(said[1]) * 1024 if said else 0


def start_up() -> tuple[float, int]:
    """Return what a command takes that does nothing: seconds and bytes."""
    COSTS.clear()
    for _ in range(N_IDLE - 1):
        bart("version")
    seconds = median(took for took, _ in COSTS)
    watched.append(True)
    bart("version")
    nbytes = COSTS[-1][1]
    watched.clear()
    COSTS.clear()
    return seconds, nbytes


def write_files(folder: Path, **arrays: Array) -> int:
    """Write arrays as BART has them; return their bytes. Numbers of coils are axis 3.

    Frames are axis 10, or 5 where there is a basis, whose coefficients are axis 6.
    """
    nbytes = 0
    before_frames = 1 if "basis" in arrays else 6
    for name, array in arrays.items():
        x = torch.from_numpy(array).to(torch.complex64)
        if name == "locs":
            x = torch.cat([x, torch.zeros_like(x[..., :1])], -1)
            x = x.reshape(-1, *x.shape[-3:]).permute(3, 2, 1, 0)  # 3, readout, spokes, frames
            x = x.reshape(*x.shape[:3], *[1] * (before_frames + 1), -1)
        elif name == "kspace" and "locs" in arrays:
            x = x.reshape(-1, *x.shape[-3:]).permute(3, 2, 1, 0)[None]
            x = x.reshape(*x.shape[:4], *[1] * before_frames, -1)
        elif name == "basis":
            x = x.reshape(1, 1, 1, 1, 1, *x.shape)
        elif name in ("kspace", "maps"):
            x = x.movedim(0, -1)  # grid, coils
            x = x.reshape(*x.shape[:-1], *[1] * (4 - x.ndim), x.shape[-1])
        else:
            continue
        write_cfl(folder / name, x.contiguous())
        nbytes += x.numel() * np.dtype(np.complex64).itemsize
    return nbytes
