"""Two ranks that do not do the same: each time an error on both, and then they go on."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import set_debug_level_from_env
from torch.distributed.device_mesh import init_device_mesh

from linops_core import FFT, Dense
from linops_distributed import DistributedLinop, distribute_linop

seconds, store, number, size, *_ = sys.argv[1:]
signal.alarm(int(seconds))  # it ends the process, in whatever it waits
rank, timeout = int(number), timedelta(seconds=int(seconds))
os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
set_debug_level_from_env()
dist.init_process_group(
    "gloo", init_method=f"file://{store}", rank=rank, world_size=int(size), timeout=timeout
)
mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("r",))


class Fails(Dense):
    """A product with a matrix that fails on one rank."""

    @staticmethod
    def fn(linop: Any, x: Tensor, /, **kwargs: Any) -> Tensor:
        if rank:
            raise KeyError("planted")
        return Dense.fn(linop, x, **kwargs)


@contextmanager
def refused(text: str) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError, KeyError) as error:
        assert text in str(error), error
        return
    raise AssertionError(f"this went well: {text}")


def made(kind: Callable[..., Dense] = Dense, n_rows: int = 6) -> DistributedLinop:
    A = kind(torch.ones(n_rows, 4), ("M", "N"), ("N",), ("M",))
    return distribute_linop(A, mesh, {"N": "r"})


with refused("operator and placement must be the same on all ranks"):
    made(n_rows=6 + rank)
A, B = made(), made()
F = distribute_linop(FFT(1, batch_shape=("B", "N")), mesh, {"N": "r"}, sizes={"N": 4})
with refused("input must be the same on all ranks"):
    A(torch.ones(2, dtype=torch.float64 if rank else torch.float32))
with refused("input must be the same on all ranks"):
    F(torch.ones(1 + rank, 2, 3, dtype=torch.complex64))
with refused("planted"):
    made(Fails)(torch.ones(2))
with refused("calls must be the same on all ranks, got dtype"):
    (B if rank else A)(torch.ones(2))
with refused("N must have size 2, got 3"):
    made()(torch.ones(2 + rank))
C = made(n_rows=9)
A(torch.ones(2)), B(torch.ones(2)), C(torch.ones(2))
with refused("a call with another input than before"):
    A(torch.ones(2 + rank))
with refused("a call with another input than before"):
    A(torch.ones(2, dtype=torch.float64 if rank else torch.float32))
with refused("calls must be the same on all ranks, got the sum of the output"):
    (B if rank else A)(torch.ones(2))
# Without the checks of torch, gloo would abort the rank that gets more than it expects.
step = "DistributedLinop (N) -> (M): the sum of the output must be reached by all 2 ranks"
with refused(f"{step} along (r) of the mesh before the timeout of their group, got an error"):
    (C if rank else A)(torch.ones(2))
torch.testing.assert_close(A(torch.ones(2)), torch.full((6,), 4.0))
print(f"rank {rank} is done", flush=True)
dist.barrier()
os._exit(0)  # gloo may abort where there is a mesh when the interpreter ends, without linops too
