"""Matrix-free linear operators on tensors with named dimensions."""

from . import alg, config
from ._adapters import from_pylops as from_pylops
from ._adapters import from_scipy as from_scipy
from ._adapters import from_sigpy as from_sigpy
from ._adapters import to_pylops as to_pylops
from ._adapters import to_sigpy as to_sigpy
from ._algebra._add import Add as Add
from ._algebra._chain import Chain as Chain
from ._algebra._composite import Composite as Composite
from ._algebra._identity import Identity as Identity
from ._algebra._normal import Normal as Normal
from ._algebra._row import Row as Row
from ._algebra._row import rows as rows
from ._algebra._same_space import same_space as same_space
from ._algebra._scalar import Scalar as Scalar
from ._algebra._wrapper import Wrapper as Wrapper
from ._algebra._zero import Zero as Zero
from ._base._hooks import applied as applied
from ._base._hooks import has_hooks as has_hooks
from ._base._hooks import hooks_are_possible as hooks_are_possible
from ._base._late_hooks import n_hooks_registered as n_hooks_registered
from ._base._linop import NamedLinop as NamedLinop
from ._base._linop import tile_of as tile_of
from ._base._roles import Role as Role
from ._base._sides import Side as Side
from ._base._sliceable import SliceableLinop as SliceableLinop
from ._base._tile import SplitError as SplitError
from ._base._tile import Window as Window
from ._kernels._accumulate import writing_is_safe as writing_is_safe
from ._kernels._changes import TensorState as TensorState
from ._kernels._tracing import constant_when_compiled as constant_when_compiled
from ._operators._blocks import ArrayToBlocks as ArrayToBlocks
from ._operators._blocks import BlocksToArray as BlocksToArray
from ._operators._concat import Concat as Concat
from ._operators._convolution import Convolution as Convolution
from ._operators._dense import Dense as Dense
from ._operators._diagonal import Diagonal as Diagonal
from ._operators._fft import FFT as FFT
from ._operators._interpolate import Interpolate as Interpolate
from ._operators._pad import Crop as Crop
from ._operators._pad import Pad as Pad
from ._operators._pad import PadLast as PadLast
from ._operators._pad_dim import PadDim as PadDim
from ._operators._pad_dim import Truncate as Truncate
from ._operators._rearrange import Rearrange as Rearrange
from ._operators._repeat import Repeat as Repeat
from ._operators._repeat import SumReduce as SumReduce
from ._operators._sampling import Sampling as Sampling
from ._operators._simple import SimpleLinop as SimpleLinop
from ._operators._stack import Stack as Stack

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
    "TensorState",
    "Truncate",
    "Window",
    "Wrapper",
    "Zero",
    "alg",
    "applied",
    "config",
    "constant_when_compiled",
    "from_pylops",
    "from_scipy",
    "from_sigpy",
    "has_hooks",
    "hooks_are_possible",
    "n_hooks_registered",
    "rows",
    "same_space",
    "tile_of",
    "to_pylops",
    "to_sigpy",
    "writing_is_safe",
]
