"""The package ``linops_solvers``."""

from linops_solvers import *  # noqa: F403
from linops_solvers import __all__ as __all__
