"""What two ranks on gloo see, as JSON: ``python of_ranks.py RANK N_RANKS FILE``."""

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def plain(x: Tensor) -> list[str]:
    return [str(value) for value in x.resolve_conj().resolve_neg().flatten().tolist()]


def outcome(seen: Callable[[], Any]) -> Any:
    try:
        return seen()
    except Exception as error:
        return type(error).__name__


def summed(x: Tensor, op: str = "SUM") -> list[str]:
    dist.all_reduce(x, getattr(dist.ReduceOp, op))
    return plain(x)


def orders_of_bfloat16(rank: int) -> int:
    """Return how many results 64 places in the buffer give for the same 64 sums."""
    values = torch.randn(64, generator=torch.Generator().manual_seed(rank)).bfloat16()
    found = set()
    for shift in range(64):
        buffer = values.roll(shift)
        dist.all_reduce(buffer)
        found.add(tuple(buffer.roll(-shift).tolist()))
    return len(found)


def replicated(rank: int, mesh: Any) -> float:
    x = torch.full((2,), float(rank))
    distribute_tensor(x, mesh, [Replicate()])
    return x[0].item()


def filled(mesh: Any, write: Callable[[Any], Any]) -> float:
    x: Any = distribute_tensor(torch.zeros(4, 2), mesh, [Shard(0)])
    write(x)
    total: float = x.full_tensor().sum().item()
    return total


def mixed(mesh: Any) -> str:
    """Return the dtype in which a module with complex parameters computes."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    module = torch.nn.Linear(4, 4, bias=False, dtype=torch.complex64)
    fully_shard(module, mesh=mesh, mp_policy=policy)
    return str(module(torch.ones(1, 4, dtype=torch.complex64)).dtype)


def main(rank: int, n_ranks: int, path: str) -> dict[str, Any]:
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=n_ranks)
    mesh = init_device_mesh("cpu", (n_ranks,))

    def z() -> Tensor:
        return torch.full((2,), 1 + 1j * (rank + 1))

    def column() -> Tensor:
        return (torch.arange(8.0).reshape(4, 2) * (rank + 1))[:, 0]

    found = {op: outcome(lambda op=op: summed(z(), op)) for op in ("SUM", "AVG", "PRODUCT", "MAX")}
    found |= {
        "transposed": outcome(lambda: summed((torch.arange(4.0).reshape(2, 2) * (rank + 1)).T)),
        "column": outcome(lambda: summed(column())),
        "conjugate": outcome(lambda: summed(z().conj())),
        "negative": outcome(lambda: summed(z().conj().imag)),
        "replicated": replicated(rank, mesh),
        "row": outcome(lambda: filled(mesh, lambda x: x[1].fill_(1))),
        "entry": outcome(lambda: filled(mesh, lambda x: x.__setitem__((0, 0), 1))),
        "rows": outcome(lambda: filled(mesh, lambda x: x.__setitem__(slice(0, 2), 1))),
        "bfloat16": orders_of_bfloat16(rank),
        "mixed": mixed(mesh),
    }
    dist.barrier()
    return found


if __name__ == "__main__":
    seen = main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    dist.destroy_process_group()
    print(json.dumps(seen))
