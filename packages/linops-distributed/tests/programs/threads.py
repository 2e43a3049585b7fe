"""Ranks in threads that end before others which were there later."""

from contextlib import ExitStack

import torch.distributed as dist
from torch.distributed import distributed_c10d

from linops_distributed.testing import ranks_in_threads

before = distributed_c10d._world
first, second = ExitStack(), ExitStack()
first.enter_context(ranks_in_threads(2))
ranks = second.enter_context(ranks_in_threads(3))
first.close()
assert ranks.run(lambda rank: dist.get_rank()) == [0, 1, 2]
second.close()
assert distributed_c10d._world is before
