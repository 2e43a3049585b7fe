"""Ranks in threads of one process, which talk by gloo as processes do: for tests.

It needs parts of torch that are made for torch's own tests. Strategies are in
``linops_distributed.testing.strategies``, which needs hypothesis.
"""

from ._threads import Ranked as Ranked
from ._threads import ranks_in_threads as ranks_in_threads

__all__ = ["Ranked", "ranks_in_threads"]
