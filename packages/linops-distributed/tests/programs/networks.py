"""One of two ranks: networks with an operator in the data parallelism of torch, and one process."""

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from linops_core import Dense, Diagonal

seconds, store, number, size, *_ = sys.argv[1:]
signal.alarm(int(seconds))  # it ends the process, in whatever it waits
rank, timeout = int(number), timedelta(seconds=int(seconds))
dist.init_process_group(
    "gloo", init_method=f"file://{store}", rank=rank, world_size=int(size), timeout=timeout
)
mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("r",))
samples = torch.randn(2, 3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))


class Network(nn.Module):
    """A layer and an operator, with weights of both, and the adjoint and normal of the operator."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.layer = nn.Linear(4, 4, dtype=torch.complex64)
        weights = [torch.randn(n, 4, dtype=torch.complex64, generator=generator) for n in (1, 4, 5)]
        for weight, value in zip((self.layer.bias, self.layer.weight), weights, strict=False):
            weight.data = value.view_as(weight)
        A = Dense(nn.Parameter(weights[2]), ("M", "N"), ("...", "N"), ("...", "M"))
        self.A = Diagonal(torch.arange(5.0), ("...", "M")) @ A

    def forward(self, x: Tensor) -> Tensor:
        z = self.layer(x)
        y: Tensor = (self.A.H(self.A(z)) + self.A.N(z)).abs().square().mean()
        return y


def trained(network: nn.Module, *samples: Tensor) -> dict[str, Tensor]:
    """Return the weights after three steps."""
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-6)
    for _ in range(3):
        optimizer.zero_grad()
        torch.stack([network(x) for x in samples]).mean().backward()
        optimizer.step()
    return {
        name.removeprefix("module."): w.full_tensor() if isinstance(w, DTensor) else w.detach()
        for name, w in network.named_parameters()
    }


def sharded(network: nn.Module) -> nn.Module:
    fully_shard(network, mesh=mesh)
    return network


wanted = trained(Network(), *samples)
assert (wanted["layer.bias"] - Network().layer.bias).abs().max() > 1e-3
for wrap in (DistributedDataParallel, sharded):
    network = Network()
    network(samples[rank]).backward()  # what it keeps now belongs to weights that are replaced
    torch.testing.assert_close(trained(wrap(network), samples[rank]), wanted)
print(f"rank {rank} is done", flush=True)
dist.barrier()
os._exit(0)  # gloo may abort where there is a mesh when the interpreter ends, without linops too
