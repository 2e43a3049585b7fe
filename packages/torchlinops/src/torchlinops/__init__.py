"""Linear operators on named dimensions, split over devices: all packages under one import.

All names of the packages are here, and in the modules ``torchlinops.nameddim``, ``.memmap``,
``.linops``, ``.linops.split``, ``.linops.device``, ``.linops.distributed``, ``.alg``, ``.imaging``,
``.interop``, ``.testing`` and ``.config``. The packages can also be used by their own names:
``nameddim``, ``memmap``, ``linops_core``, ``linops_solvers``, ``linops_imaging``, ``linops_split``,
``linops_multigpu`` and ``linops_distributed``. ``torchlinops.recon`` has reconstructions of scans
in one call.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from torchlinops._conflict import refuse_other_distribution

refuse_other_distribution()

import linops_imaging as _imaging  # noqa: E402, F401  # registers the operation of saved programs
from memmap.siblings import LAZY_MODULES  # noqa: E402
from torchlinops import config as config  # noqa: E402

if TYPE_CHECKING:
    # They have a `config` and an `interop`, too.
    from linops_core import *  # type: ignore[no-redef]  # noqa: F403
    from linops_distributed import *  # noqa: F403
    from linops_imaging import *  # noqa: F403
    from linops_multigpu import *  # noqa: F403
    from linops_solvers import *  # noqa: F403
    from linops_split import *  # noqa: F403
    from memmap import *  # noqa: F403
    from nameddim import *  # noqa: F403
    from torchlinops import alg as alg
    from torchlinops import imaging as imaging
    from torchlinops import interop as interop  # type: ignore[no-redef]
    from torchlinops import linops as linops
    from torchlinops import memmap as memmap
    from torchlinops import nameddim as nameddim
    from torchlinops import recon as recon
    from torchlinops import testing as testing
    from torchlinops import utils as utils

__version__ = "0.1.0"

if not TYPE_CHECKING:
    # Few programs need all modules, so each is imported when it is used.
    _PACKAGES = (
        "linops_core nameddim memmap linops_solvers linops_imaging linops_split linops_multigpu "
        "linops_distributed"
    ).split()
    _MODULES = "alg imaging interop linops memmap nameddim recon testing utils".split()
    LAZY_MODULES.extend([(__name__, package) for package in _PACKAGES])

    def __getattr__(name: str) -> object:
        if name == "__all__":
            names = (import_module(package).__all__ for package in _PACKAGES)
            value = sorted({*_MODULES}.union(*names))
        elif name in _MODULES:
            value = import_module(f"{__name__}.{name}")
        else:
            homes = () if name.startswith("__") else map(import_module, _PACKAGES)
            home = next((home for home in homes if name in home.__all__), None)
            if home is None:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
            value = getattr(home, name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted(
            {*__getattr__("__all__"), *(name for name in globals() if name.startswith("__"))}
        )
