"""Matrix-free linear operators on tensors with named dimensions."""

from . import alg as alg
from . import config as config
from ._accumulate import writing_is_safe as writing_is_safe
from ._adapters import from_pylops as from_pylops
from ._adapters import from_scipy as from_scipy
from ._adapters import from_sigpy as from_sigpy
from ._adapters import to_pylops as to_pylops
from ._adapters import to_sigpy as to_sigpy
from ._add import Add as Add
from ._blocks import ArrayToBlocks as ArrayToBlocks
from ._blocks import BlocksToArray as BlocksToArray
from ._chain import Chain as Chain
from ._composite import Composite as Composite
from ._concat import Concat as Concat
from ._convolution import Convolution as Convolution
from ._dense import Dense as Dense
from ._diagonal import Diagonal as Diagonal
from ._fft import FFT as FFT
from ._hooks import applied as applied
from ._hooks import has_hooks as has_hooks
from ._hooks import hooks_are_possible as hooks_are_possible
from ._identity import Identity as Identity
from ._interpolate import Interpolate as Interpolate
from ._late_hooks import n_hooks_registered as n_hooks_registered
from ._linop import NamedLinop as NamedLinop
from ._normal import Normal as Normal
from ._pad import Crop as Crop
from ._pad import Pad as Pad
from ._pad import PadLast as PadLast
from ._pad_dim import PadDim as PadDim
from ._pad_dim import Truncate as Truncate
from ._rearrange import Rearrange as Rearrange
from ._repeat import Repeat as Repeat
from ._repeat import SumReduce as SumReduce
from ._roles import Role as Role
from ._row import Row as Row
from ._row import rows as rows
from ._sampling import Sampling as Sampling
from ._scalar import Scalar as Scalar
from ._sides import Side as Side
from ._simple import SimpleLinop as SimpleLinop
from ._sliceable import SliceableLinop as SliceableLinop
from ._slicing import tile_of as tile_of
from ._stack import Stack as Stack
from ._tile import SplitError as SplitError
from ._tile import Window as Window
from ._zero import Zero as Zero

__all__ = [
    "FFT",
    "Add",
    "ArrayToBlocks",
    "BlocksToArray",
    "Chain",
    "Composite",
    "Concat",
    "Convolution",
    "Crop",
    "Dense",
    "Diagonal",
    "Identity",
    "Interpolate",
    "NamedLinop",
    "Normal",
    "Pad",
    "PadDim",
    "PadLast",
    "Rearrange",
    "Repeat",
    "Role",
    "Row",
    "Sampling",
    "Scalar",
    "Side",
    "SimpleLinop",
    "SliceableLinop",
    "SplitError",
    "Stack",
    "SumReduce",
    "Truncate",
    "Window",
    "Zero",
    "alg",
    "applied",
    "config",
    "from_pylops",
    "from_scipy",
    "from_sigpy",
    "has_hooks",
    "hooks_are_possible",
    "n_hooks_registered",
    "rows",
    "tile_of",
    "to_pylops",
    "to_sigpy",
    "writing_is_safe",
]
