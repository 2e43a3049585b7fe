"""Linear operators on named dimensions, split over devices: all packages under one import.

Each package can also be used alone: ``nameddim``, ``memmap``, ``linops_core``, ``linops_solvers``,
``linops_imaging``, ``linops_split``, ``linops_multigpu`` and ``linops_distributed``. Their names
are in ``torchlinops`` itself and in the modules ``torchlinops.nameddim``, ``.memmap``, ``.linops``,
``.linops.split``, ``.linops.device``, ``.linops.distributed``, ``.alg``, ``.imaging``, ``.utils``,
``.interop``, ``.testing`` and ``.config``.
"""

from torchlinops._conflict import refuse_other_distribution

refuse_other_distribution()

from linops_core import *  # noqa: E402, F403
from linops_distributed import *  # noqa: E402, F403
from linops_imaging import *  # noqa: E402, F403
from linops_multigpu import *  # noqa: E402, F403
from linops_solvers import *  # noqa: E402, F403
from linops_split import *  # noqa: E402, F403
from memmap import *  # noqa: E402, F403
from nameddim import *  # noqa: E402, F403

# isort: split
# Imported last, so that `config` is the module of this package and not that of linops_core, and
# `interop` not that of linops_imaging.
import torchlinops.alg as alg  # noqa: E402
import torchlinops.config as config  # type: ignore[no-redef]  # noqa: E402
import torchlinops.imaging as imaging  # noqa: E402
import torchlinops.interop as interop  # type: ignore[no-redef]  # noqa: E402
import torchlinops.linops as linops  # noqa: E402
import torchlinops.memmap as memmap  # noqa: E402
import torchlinops.nameddim as nameddim  # noqa: E402
import torchlinops.testing as testing  # noqa: E402
import torchlinops.utils as utils  # noqa: E402

__version__ = "0.1.0"

__all__ = [
    "alg",
    "config",
    "imaging",
    "interop",
    "linops",
    "memmap",
    "nameddim",
    "testing",
    "utils",
    *(name for name in linops.__all__ if name != "config"),
    *alg.__all__,
    *(name for name in linops.split.__all__ if name not in linops.__all__),
    *linops.device.__all__,
    *linops.distributed.__all__,
    *(name for name in imaging.__all__ if name != "interop"),
    *memmap.__all__,
    *nameddim.__all__,
]
