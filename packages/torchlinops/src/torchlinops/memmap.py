"""The package ``memmap``."""

from memmap import *  # noqa: F403
from memmap import __all__ as __all__
