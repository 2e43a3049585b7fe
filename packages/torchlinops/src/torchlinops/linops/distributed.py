"""The package ``linops_distributed``."""

from linops_distributed import *  # noqa: F403
from linops_distributed import __all__ as __all__
