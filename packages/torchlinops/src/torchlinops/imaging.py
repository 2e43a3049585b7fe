"""The package ``linops_imaging``."""

import linops_imaging
from linops_imaging import *  # noqa: F403

__all__ = vars(linops_imaging)["__all__"]
