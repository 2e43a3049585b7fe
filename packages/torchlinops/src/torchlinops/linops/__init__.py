"""The operators of ``linops_core``."""

import linops_core
from linops_core import *  # noqa: F403
from torchlinops.linops import device as device
from torchlinops.linops import distributed as distributed
from torchlinops.linops import split as split

__all__ = vars(linops_core)["__all__"]
