"""Operators of other libraries as operators of this one, and the other way round.

Each library has a module. Three have what libraries share: matrices, operators on flat arrays, and
the exchange of arrays.
"""

from ._odl import from_odl as from_odl
from ._odl import to_odl as to_odl
from ._pylops import from_pylops as from_pylops
from ._pylops import to_pylops as to_pylops
from ._scico import from_scico as from_scico
from ._scico import to_scico as to_scico
from ._scipy import from_scipy as from_scipy
from ._sigpy import from_sigpy as from_sigpy
from ._sigpy import to_sigpy as to_sigpy
