"""The package ``linops_solvers``."""

import linops_solvers
from linops_solvers import *  # noqa: F403

__all__ = vars(linops_solvers)["__all__"]
