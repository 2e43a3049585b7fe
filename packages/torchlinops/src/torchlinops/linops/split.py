"""The package ``linops_split`` under the umbrella."""

from linops_split import *  # noqa: F403
from linops_split import __all__ as __all__
