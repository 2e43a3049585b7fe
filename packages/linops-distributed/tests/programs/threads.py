"""Ranks in threads that end before others which were there later, and leave no socket."""

import os
from contextlib import ExitStack

import torch.distributed as dist
from torch.distributed import distributed_c10d

from linops_distributed.testing import ranks_in_threads


def sockets() -> set[str]:
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.islink(link)]
    return {target for target in targets if target.startswith("socket:")}


open_before = sockets() if os.path.isdir("/proc/self/fd") else set()
before = distributed_c10d._world
first, second = ExitStack(), ExitStack()
first.enter_context(ranks_in_threads(2))
ranks = second.enter_context(ranks_in_threads(3))
first.close()
assert ranks.run(lambda rank: dist.get_rank()) == [0, 1, 2]
second.close()
assert distributed_c10d._world is before
if os.path.isdir("/proc/self/fd"):
    assert sockets() <= open_before
