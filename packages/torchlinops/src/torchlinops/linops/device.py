"""The package ``linops_multigpu``."""

from linops_multigpu import *  # noqa: F403
from linops_multigpu import __all__ as __all__
