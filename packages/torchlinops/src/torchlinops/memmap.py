"""The package ``memmap`` under the umbrella."""

from memmap import *  # noqa: F403
from memmap import __all__ as __all__
