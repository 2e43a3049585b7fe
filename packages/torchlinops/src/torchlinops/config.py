"""The settings of ``linops_core`` under the umbrella: the same ones, to be read and assigned."""

import sys

import linops_core.config
from linops_core.config import using as using

__all__ = ["cache_adjoint_normal", "reduce_identity_in_normal", "using"]

cache_adjoint_normal: bool
reduce_identity_in_normal: bool

# Names bound here would be copies, which change nothing. The class looks each setting up there.
sys.modules[__name__].__class__ = type(linops_core.config)
