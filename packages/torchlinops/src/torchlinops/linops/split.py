"""The package ``linops_split``."""

# torch-named-linops has these two names here, and its documentation imports them from here.
from linops_multigpu import BatchSpec as BatchSpec
from linops_multigpu import create_batched_linop as create_batched_linop
from linops_split import *  # noqa: F403
from linops_split import __all__ as __all__
