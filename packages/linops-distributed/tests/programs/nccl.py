"""An MRI scanner over ranks of NCCL that torchrun starts, one for each GPU: against one process."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from linops_core import FFT, Dense, Identity
from linops_core.alg import conjugate_gradients
from linops_distributed import DistributedLinop, distribute_linop

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", timeout=timedelta(seconds=120), device_id=device)
mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("r",))
generator = torch.Generator().manual_seed(0)
maps = torch.randn(5, 6, 4, dtype=torch.complex128, generator=generator).to(device)
x = torch.randn(7, 6, 4, dtype=torch.complex128, generator=generator).to(device)
maps.requires_grad_()
dims = ("C", "Nx", "Ny"), ("B", "Nx", "Ny"), ("B", "C", "Nx", "Ny")
A = FFT(2, batch_shape=("B", "C")) @ Dense(maps, *dims)
y = A(x)
(wanted,) = torch.autograd.grad(y.abs().square().sum(), maps)
for placement in ({"C": "r"}, {"B": "r"}, {"Nx": "r"}):
    for ordered in (False, True):
        B = distribute_linop(A, mesh, placement, sizes={"B": 7}, ordered=ordered)
        mine = B.local_input(x)
        z = B(mine)
        torch.testing.assert_close(B.full_output(z.detach()), y.detach())
        (found,) = torch.autograd.grad(z.abs().square().sum(), maps)
        torch.testing.assert_close(found, wanted)
        back = B.H
        assert isinstance(back, DistributedLinop)
        with torch.no_grad():
            normal, right = B.N + Identity(B.ishape), B.N(mine) + mine
            solution = conjugate_gradients(normal, right, gtol=1e-10, ltol=0, max_num_iters=60)
        torch.testing.assert_close(back.full_output(solution), x, rtol=1e-6, atol=1e-8)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} is done", flush=True)
dist.barrier()
os._exit(0)  # gloo may abort where there is a mesh when the interpreter ends, without linops too
