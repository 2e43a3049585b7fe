"""The operators of ``linops_core``."""

from linops_core import *  # noqa: F403
from linops_core import __all__ as __all__
from torchlinops.linops import device as device
from torchlinops.linops import distributed as distributed
from torchlinops.linops import split as split
