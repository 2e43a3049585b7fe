"""The solvers of ``linops_core`` under the umbrella."""

from linops_core.alg import *  # noqa: F403
from linops_core.alg import __all__ as __all__
