"""The settings of ``linops_core``. It is the same module, so that assignments take effect."""

# A folder, because Python prefers a folder to a file of the same name. torch-named-linops has a
# file config.py and imports config first. If it was installed after this distribution, its
# __init__.py replaced ours, but imports this folder instead of its own file, and the check below
# raises.
from torchlinops._conflict import refuse_other_distribution

refuse_other_distribution()

import sys  # noqa: E402

import linops_core.config  # noqa: E402
from linops_core.config import *  # noqa: E402, F403
from linops_core.config import __all__ as __all__  # noqa: E402

sys.modules[__name__] = linops_core.config
