"""The solvers of ``linops_core``."""

from linops_core.alg import *  # noqa: F403
from linops_core.alg import __all__ as __all__
