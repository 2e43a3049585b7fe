"""The laws of linear operators in ``linops_core.testing`` under the umbrella."""

from linops_core.testing import *  # noqa: F403
from linops_core.testing import __all__ as __all__
