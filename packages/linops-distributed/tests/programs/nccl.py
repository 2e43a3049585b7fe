"""An MRI scanner over ranks of NCCL that torchrun starts, one for each GPU: against one process."""

import torch
import torch.distributed as dist
from scanner import check_scanner
from torch.distributed.device_mesh import init_device_mesh

from linops_distributed import run_rank


def program(device: torch.device) -> None:
    mesh = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("r",))
    check_scanner(mesh, device, ("C", "B", "Nx"), ordered=(False, True))
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} is done", flush=True)


run_rank(program, backend="nccl", timeout=120)
