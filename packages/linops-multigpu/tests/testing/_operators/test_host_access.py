"""What reads memory of the host that a device still copies to, past torch's operators or not."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from linops_multigpu.testing import RaceError, simulated

pytestmark = pytest.mark.usefixtures("simulation")

READS: dict[str, Callable[[Tensor], object]] = {
    "tolist": lambda x: x.tolist(),
    "tolist of a part": lambda x: x[1:].tolist(),
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0]),
    "float": lambda x: float(x[0]),
    "complex": lambda x: complex(x[0]),
    "format": lambda x: f"{x[0]:.2f}",
    "format of all": lambda x: f"{x}",
    "repr": repr,
    "str": str,
    "iteration": lambda x: [float(value) for value in x],
    "in": lambda x: 3.0 in x,
    "equal": lambda x: torch.equal(x, torch.zeros(4)),
    "mask": lambda x: torch.zeros(4)[x > 0],
    "deepcopy": copy.deepcopy,
    "numpy": lambda x: x.numpy().sum(),
    "numpy by force": lambda x: x.numpy(force=True),
    "asarray": lambda x: np.asarray(x).sum(),
    "DLPack": lambda x: np.from_dlpack(x).sum(),
    "memoryview": lambda x: bytes(x.numpy().data),
    "tensor of numbers": lambda x: torch.tensor([x[0], x[1]]),
    "as_tensor of numbers": lambda x: torch.as_tensor([x[0], x[1]]),
    "storage": lambda x: x.untyped_storage()[0],
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_the_host_reads_too_early_is_seen(read: Callable[[Tensor], object]) -> None:
    with pytest.raises(RaceError, match="must come after the write by"), simulated(1) as world:
        pinned = world.empty_pinned(torch.empty(4))
        x = torch.rand(4).to("sim:0")
        pinned.copy_(x, non_blocking=True)
        read(pinned)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_the_host_reads_in_time_is_right(read: Callable[[Tensor], object]) -> None:
    with simulated(1) as world:
        pinned = world.empty_pinned(torch.empty(4))
        x = torch.rand(4).to("sim:0")
        pinned.copy_(x, non_blocking=True)
        world.current_stream("sim:0").synchronize()
        read(pinned)
        assert pinned.tolist() == x.cpu().tolist()
        read(torch.rand(4))
        del x
