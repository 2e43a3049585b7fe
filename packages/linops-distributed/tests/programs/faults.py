"""One of three ranks, of which the second one fails in the middle of calls as it is told."""

import os
import signal
import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from linops_core import Dense
from linops_distributed import distribute_linop

seconds, store, number, size, fault = sys.argv[1:]
signal.alarm(int(seconds))  # it ends the process, in whatever it waits
rank = int(number)
# A file, because a port that is free now may be taken before it is used.
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=int(size))
# A rank that ends is noticed at once. Only one that hangs is noticed by the timeout.
timeout = 10 if fault == "hangs" else int(seconds)
group = dist.new_group(timeout=timedelta(seconds=timeout))
mesh = DeviceMesh.from_group(group, "cpu", mesh_dim_names=("r",))


class Faulty(Dense):
    """A product with a matrix that fails at the third call of the second rank."""

    n_calls = 0

    @staticmethod
    def fn(linop: Any, x: Tensor, /, **kwargs: Any) -> Tensor:
        Faulty.n_calls += 1
        if Faulty.n_calls == 3 and rank == 1:
            if fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == "hangs":
                time.sleep(int(seconds))
        return Dense.fn(linop, x, **kwargs)


A = distribute_linop(Faulty(torch.ones(6, 6), ("M", "N"), ("N",), ("M",)), mesh, {"N": "r"})
x = torch.ones(2)
for _ in range(2):
    torch.testing.assert_close(A(x), torch.full((6,), 6.0))
try:
    A(x)
except RuntimeError as error:
    print(error, flush=True)
    os._exit(3)
os._exit(0)
