"""The operator tests of ``linops_core.testing``."""

from linops_core.testing import *  # noqa: F403
from linops_core.testing import __all__ as __all__
