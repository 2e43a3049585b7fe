"""The settings of ``linops_core`` under the umbrella: the same module by another path.

A module with these names of its own would have copies, which change nothing.
"""

import sys

import linops_core.config
from linops_core.config import *  # noqa: F403
from linops_core.config import __all__ as __all__

sys.modules[__name__] = linops_core.config
