"""Random operators for hypothesis, which must be installed (the extra ``testing``)."""

from linops_core.testing.strategies import *  # noqa: F403
from linops_core.testing.strategies import __all__ as __all__
