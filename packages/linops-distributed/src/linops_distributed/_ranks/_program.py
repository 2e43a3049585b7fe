"""A program of ranks: it joins the group of processes, does its work, and ends without abort."""

import gc
import itertools
import os
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

T = TypeVar("T")
_GROUPS = itertools.count()


def run_rank(
    program: Callable[[torch.device], T], *, backend: str | None = None, timeout: float = 300.0
) -> T:
    """Run ``program(device)`` as one rank of a new group of processes, and close the group.

    Under torchrun every process calls it, and the ranks are those of torchrun. Without torchrun
    there is one rank, which does all the work. So the same script runs in both ways.

    A process that ends while a group, a mesh, a DTensor or a distributed operator exists may abort
    after right results (gloo, torch 2.10 and newer, see pytorch #190489). So make all of them
    inside ``program``: they are gone when it has returned, and only then the group is closed.

    Parameters
    ----------
    program : Callable
        It gets the device of this rank: a GPU with NCCL, else the CPU.
    backend : str, optional
        Of `torch.distributed.init_process_group`. Default: NCCL if there are GPUs, else gloo.
    timeout : float
        Seconds that a rank waits for the others.

    Returns
    -------
    T
        What ``program`` returns: numbers, or tensors that are no DTensors.

    Raises
    ------
    RuntimeError
        If there is a group of processes already, or NCCL is asked for without a GPU.
    Exception
        What ``program`` raises.

    Notes
    -----
    If ``program`` raises an error, the group is closed and the error is raised. The variables of
    ``program`` are cleared before, so a debugger finds none of them afterwards. The other ranks get
    an error when they wait for this one, and torchrun ends them.

    Examples
    --------
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> from linops_core import Diagonal
    >>> from linops_distributed import distribute_linop
    >>> def program(device):
    ...     mesh = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("r",))
    ...     A = distribute_linop(Diagonal(torch.arange(3.0), ("N",)), mesh, {"N": "r"})
    ...     return A.full_output(A(A.local_input(torch.ones(3)))).tolist()
    >>> run_rank(program, backend="gloo")
    [0.0, 1.0, 2.0]
    """
    if dist.is_initialized():
        raise RuntimeError(
            "run_rank: there must be no group of processes yet, because it makes one and closes it,"
            " got a group; call torch.distributed.destroy_process_group() first"
        )
    has_gpus = torch.cuda.is_available() and dist.is_nccl_available()
    backend = backend or ("nccl" if has_gpus else "gloo")
    if backend == "nccl" and not has_gpus:
        raise RuntimeError("run_rank: the backend nccl needs a GPU, got none; use backend='gloo'")
    wait = timedelta(seconds=timeout)
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    store, rank, size = _rendezvous(wait)
    hook = sys.excepthook  # replaced by that of torch, which names the rank
    dist.init_process_group(backend, timeout=wait, store=store, rank=rank, world_size=size)
    try:
        result = program(device)
        # gloo was seen to abort where one rank takes its connections down before another is done.
        dist.barrier()
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)  # variables of the program refer to the group
        raise
    finally:
        gc.collect()  # operators and meshes in cycles refer to it, too
        dist.destroy_process_group()
        sys.excepthook = hook
    return result


def _rendezvous(timeout: timedelta) -> tuple[Store, int, int]:
    """Return where ranks find each other, the number of this rank, and how many there are."""
    if "RANK" not in os.environ:  # set by torchrun
        return dist.HashStore(), 0, 1  # type: ignore[attr-defined]  # torch exports it from C
    store, rank, size = next(rendezvous("env://", timeout=timeout))
    # A second group of one process needs other keys: under the same ones, a fast rank reads the
    # addresses that others had in the first group (torch 2.13 and 2.15: connections are refused).
    return PrefixStore(f"run_rank {next(_GROUPS)}", store), rank, size
