"""The settings of ``linops_core``: the same module by another path, as copies change nothing."""

# A folder, because Python prefers a folder to a file of the same name. torch-named-linops has
# config.py and imports it first. Installed after this distribution, it replaces our __init__.py but
# imports this folder instead of its own file, and the check below refuses the mixture.
from torchlinops._conflict import refuse_other_distribution

refuse_other_distribution()

import sys  # noqa: E402

import linops_core.config  # noqa: E402
from linops_core.config import *  # noqa: E402, F403
from linops_core.config import __all__ as __all__  # noqa: E402

sys.modules[__name__] = linops_core.config
