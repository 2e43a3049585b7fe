"""Matrix-free linear operators on tensors with named dimensions."""

from . import alg as alg
from . import config as config
from ._add import Add as Add
from ._chain import Chain as Chain
from ._composite import Composite as Composite
from ._concat import Concat as Concat
from ._dense import Dense as Dense
from ._diagonal import Diagonal as Diagonal
from ._fft import FFT as FFT
from ._identity import Identity as Identity
from ._linop import NamedLinop as NamedLinop
from ._normal import Normal as Normal
from ._roles import Role as Role
from ._sampling import Sampling as Sampling
from ._scalar import Scalar as Scalar
from ._sliceable import SliceableLinop as SliceableLinop
from ._tile import SplitError as SplitError
from ._tile import Window as Window
from ._zero import Zero as Zero

__all__ = [
    "FFT",
    "Add",
    "Chain",
    "Composite",
    "Concat",
    "Dense",
    "Diagonal",
    "Identity",
    "NamedLinop",
    "Normal",
    "Role",
    "Sampling",
    "Scalar",
    "SliceableLinop",
    "SplitError",
    "Window",
    "Zero",
    "alg",
    "config",
]
