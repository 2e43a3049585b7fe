"""Ranks that torchrun starts again after one of them has ended itself in the middle of a solve."""

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from linops_core import Dense, Identity
from linops_distributed import distribute_linop
from linops_solvers import Step, conjugate_gradients

signal.alarm(int(sys.argv[1]))  # it ends the process, in whatever it waits
if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0" and os.environ["RANK"] == "0":
    time.sleep(1)  # later than the other one reads in the store where it is
dist.init_process_group("gloo", timeout=timedelta(seconds=int(sys.argv[1])))
rank, n_ranks = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (n_ranks,), mesh_dim_names=("r",))
generator = torch.Generator().manual_seed(0)
W = torch.randn(9, 12, dtype=torch.complex128, generator=generator)
y = torch.randn(9, dtype=torch.complex128, generator=generator)
A = distribute_linop(Dense(W, ("M", "N"), ("N",), ("M",)), mesh, {"N": "r"})
normal, right = A.N + Identity(A.ishape), A.H(y)
steps: list[int] = []
is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"


def note(step: Step) -> None:
    steps.append(step.iteration)
    if is_first and step.iteration == 5 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)


options = {"gtol": 0.0, "ltol": 0.0, "max_num_iters": 8}
file = Path(os.environ["FOLDER"]) / "cg.pt"
x = conjugate_gradients(
    normal,
    right,
    callback=note,
    checkpoint=file,
    checkpoint_every=2,
    **options,  # type: ignore[arg-type]
)
assert not is_first
assert torch.equal(x, conjugate_gradients(normal, right, **options))  # type: ignore[arg-type]
print(f"rank {rank} did the steps {steps[0]} to {steps[-1]}", flush=True)
dist.barrier()
os._exit(0)  # gloo may abort where there is a mesh when the interpreter ends, without linops too
