"""An MRI scanner over ranks of NCCL that torchrun starts, one for each GPU: against one process."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from scanner import check_scanner
from torch.distributed.device_mesh import init_device_mesh

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", timeout=timedelta(seconds=120), device_id=device)
mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("r",))
check_scanner(mesh, device, ("C", "B", "Nx"), ordered=(False, True))
print(f"rank {dist.get_rank()} of {dist.get_world_size()} is done", flush=True)
dist.barrier()
os._exit(0)  # gloo may abort where there is a mesh when the interpreter ends, without linops too
