"""Ranks as threads of one process, which communicate by gloo, for tests.

It uses parts of torch that are made for the tests of torch. Strategies are in
``linops_distributed.testing.strategies``, which needs hypothesis.
"""

from ._ranked import Ranked as Ranked
from ._ranked import ranks_in_threads as ranks_in_threads

__all__ = ["Ranked", "ranks_in_threads"]
