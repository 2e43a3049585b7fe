"""The package ``nameddim``."""

from nameddim import *  # noqa: F403
from nameddim import __all__ as __all__
