"""The package ``linops_imaging``."""

from linops_imaging import *  # noqa: F403
from linops_imaging import __all__ as __all__
