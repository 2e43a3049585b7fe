"""An MRI scanner over the ranks that torchrun starts, with a GPU each, against one process."""

import torch
import torch.distributed as dist
from scanner import check_scanner
from torch.distributed.device_mesh import init_device_mesh

from linops_distributed import run_rank


def program(device: torch.device) -> None:
    mesh = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("r",))
    check_scanner(mesh, device, ("C", "B", "Nx"), ordered=(False, True))
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {dist.get_backend()} on {device}")


run_rank(program, timeout=120)
