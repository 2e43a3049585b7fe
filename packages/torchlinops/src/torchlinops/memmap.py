"""The package ``memmap``."""

import memmap
from memmap import *  # noqa: F403

__all__ = vars(memmap)["__all__"]
