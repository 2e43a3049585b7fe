"""A program of one rank: what it gets, what is left of it, and what is refused."""

import sys
import weakref
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from linops_core import Dense
from linops_distributed import DistributedLinop, distribute_linop, run_rank


@pytest.fixture(autouse=True)
def no_group() -> Iterator[None]:
    assert not dist.is_initialized()
    yield
    assert not dist.is_initialized()


def distributed(device: torch.device) -> DistributedLinop:
    mesh = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("r",))
    return distribute_linop(Dense(torch.ones(3, 2), ("M", "N"), ("N",), ("M",)), mesh, {"M": "r"})


def test_the_group_is_there_within_the_program_and_gone_behind_it() -> None:
    hook = sys.excepthook
    seen = []

    def program(device: torch.device) -> float:
        assert (dist.get_backend(), dist.get_rank(), dist.get_world_size()) == ("gloo", 0, 1)
        A = distributed(device)
        seen.append(weakref.ref(A))
        return float(A(torch.ones(2)).sum())

    assert [run_rank(program, backend="gloo") for _ in range(2)] == [6.0, 6.0]
    assert [A() for A in seen] == [None, None]
    assert sys.excepthook is hook


def test_an_error_of_the_program_is_raised_and_keeps_no_operator() -> None:
    """The traceback would keep it, and a mesh that outlives its group aborts processes of gloo."""
    seen = []

    def program(device: torch.device) -> None:
        A = distributed(device)
        seen.append(weakref.ref(A))
        raise KeyError("planted")

    with pytest.raises(KeyError, match="planted") as caught:
        run_rank(program, backend="gloo")
    assert caught.value.__traceback__ is not None
    assert seen[0]() is None


def test_a_second_group_is_refused() -> None:
    def program(device: torch.device) -> None:
        run_rank(distributed)

    with pytest.raises(RuntimeError, match="run_rank: there must be no group of processes yet"):
        run_rank(program, backend="gloo")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_nccl_needs_a_gpu() -> None:
    with pytest.raises(RuntimeError, match="nccl needs a GPU, got none; use backend='gloo'"):
        run_rank(distributed, backend="nccl")
