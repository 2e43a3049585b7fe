"""Operators and proximal maps of other libraries, as ours, and the other way round.

From all packages: SciPy, sigpy, PyLops, ODL and SCICO (linops-core), proximal maps of PyProximal
(linops-solvers), and what imaging uses (linops-imaging). For SciPy the other way round, call the
method ``A.to_scipy()``.
"""

from linops_core import from_odl as from_odl
from linops_core import from_pylops as from_pylops
from linops_core import from_scico as from_scico
from linops_core import from_scipy as from_scipy
from linops_core import from_sigpy as from_sigpy
from linops_core import to_odl as to_odl
from linops_core import to_pylops as to_pylops
from linops_core import to_scico as to_scico
from linops_core import to_sigpy as to_sigpy
from linops_imaging.interop import *  # noqa: F403
from linops_imaging.interop import __all__ as _of_imaging
from linops_solvers import from_proximal as from_proximal
from linops_solvers import from_pyproximal as from_pyproximal
from linops_solvers import to_pyproximal as to_pyproximal

__all__ = [
    "from_odl",
    "from_pylops",
    "from_proximal",
    "from_pyproximal",
    "from_scico",
    "from_scipy",
    "from_sigpy",
    "to_odl",
    "to_pylops",
    "to_pyproximal",
    "to_scico",
    "to_sigpy",
    *_of_imaging,
]
