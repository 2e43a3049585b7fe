"""What only a GPU shows: torch's own check of streams, and on which streams work went."""

import os
import subprocess
import sys

import pytest
import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from linops_core import FFT, Dense, NamedLinop
from linops_multigpu import BatchSpec, create_batched_linop

APPLY = """
import torch
from linops_core import FFT, Dense
from linops_multigpu import BatchSpec, create_batched_linop

maps = torch.rand(6, 32, 32, dtype=torch.complex64)
A = FFT(2, ("C",)) @ Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
x = torch.rand(32, 32, dtype=torch.complex64)
for base in ("cpu", "cuda:0"):
    B = create_batched_linop(A, BatchSpec({"C": 1}, ["cuda:0", "cpu"], base))
    for found, wanted in ((B, A), (B.N, A.N)):
        torch.testing.assert_close(found(x.to(base)).cpu(), wanted(x), rtol=1e-4, atol=1e-4)
torch.cuda.synchronize()
"""


def sense() -> NamedLinop:
    maps = torch.rand(8, 256, 256, dtype=torch.complex64)
    return FFT(2, ("C",)) @ Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))


@pytest.mark.gpu
def test_the_sanitizer_of_torch_finds_no_race() -> None:
    """It misses some kinds of race, which simulated devices find; what it finds is one."""
    env = {**os.environ, "TORCH_CUDA_SANITIZER": "1"}
    run = subprocess.run(
        [sys.executable, "-c", APPLY], env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "data race" not in run.stderr, run.stderr


@pytest.mark.gpu
def test_copies_and_work_go_on_different_streams() -> None:
    B = create_batched_linop(sense(), BatchSpec({"C": 1}, ["cuda:0"], "cpu"))
    x = torch.rand(256, 256, dtype=torch.complex64)
    B(x)  # libraries and pinned memory are made first
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        B(x)
        torch.cuda.synchronize()
    copies, work = set[int](), set[int]()
    assert seen.profiler is not None
    for event in seen.profiler.kineto_results.events():
        if event.device_type() == DeviceType.CUDA:
            # A copy within the device is work.
            is_copy = any(way in event.name().lower() for way in ("htod", "dtoh"))
            (copies if is_copy else work).add(event.device_resource_id())
    if not copies and not work:
        pytest.skip("the profiler of torch must be allowed to see what the GPU does, got nothing")
    assert len(copies) >= 2, "one stream for what is sent, one for what is collected"
    assert work and not copies & work
