"""Matrix-free linear operators on tensors with named dimensions."""

from typing import TYPE_CHECKING

from memmap.siblings import loaded_when_used

from . import _algebra as _algebra
from . import config as config

if TYPE_CHECKING:
    from ._adapters import from_odl as from_odl
    from ._adapters import from_pylops as from_pylops
    from ._adapters import from_scico as from_scico
    from ._adapters import from_scipy as from_scipy
    from ._adapters import from_sigpy as from_sigpy
    from ._adapters import to_odl as to_odl
    from ._adapters import to_pylops as to_pylops
    from ._adapters import to_scico as to_scico
    from ._adapters import to_sigpy as to_sigpy
    from ._algebra._add import Add as Add
    from ._algebra._block_matrices._concat import Concat as Concat
    from ._algebra._block_matrices._kronecker import Kronecker as Kronecker
    from ._algebra._block_matrices._stack import Stack as Stack
    from ._algebra._block_matrices._vstack import BlockDiag as BlockDiag
    from ._algebra._block_matrices._vstack import HStack as HStack
    from ._algebra._block_matrices._vstack import VStack as VStack
    from ._algebra._chain import Chain as Chain
    from ._algebra._composite import Composite as Composite
    from ._algebra._identity import Identity as Identity
    from ._algebra._normal import Normal as Normal
    from ._algebra._real_form import RealForm as RealForm
    from ._algebra._scalar import Scalar as Scalar
    from ._algebra._wrapper import Wrapper as Wrapper
    from ._algebra._zero import Zero as Zero
    from ._base._dimensions import Side as Side
    from ._base._linop import NamedLinop as NamedLinop
    from ._base._roles import Role as Role
    from ._base._sliceable import SliceableLinop as SliceableLinop
    from ._base._swapped_functions import of_adjoint as of_adjoint
    from ._base._tile import SplitError as SplitError
    from ._base._tile import Window as Window
    from ._base._totals import Processes as Processes
    from ._base._totals import Totals as Totals
    from ._dottest import AdjointError as AdjointError
    from ._dottest import dottest as dottest
    from ._dottest import inner as inner
    from ._dottest import is_adjoint as is_adjoint
    from ._kept import Cache as Cache
    from ._kernels._linear_function import linear_function as linear_function
    from ._operators._blocks import ArrayToBlocks as ArrayToBlocks
    from ._operators._blocks import BlocksToArray as BlocksToArray
    from ._operators._convolution import Convolution as Convolution
    from ._operators._dct import DCT as DCT
    from ._operators._dense import Dense as Dense
    from ._operators._diagonal import Diagonal as Diagonal
    from ._operators._fft import FFT as FFT
    from ._operators._grid_names import GridNames as GridNames
    from ._operators._grid_operator import AxisMap as AxisMap
    from ._operators._grid_operator import GridOperator as GridOperator
    from ._operators._interpolate import Interpolate as Interpolate
    from ._operators._pad import Crop as Crop
    from ._operators._pad import Pad as Pad
    from ._operators._pad import PadDim as PadDim
    from ._operators._pad import PadLast as PadLast
    from ._operators._pad import Truncate as Truncate
    from ._operators._picks import Downsample as Downsample
    from ._operators._picks import Embed as Embed
    from ._operators._picks import Flip as Flip
    from ._operators._picks import Slice as Slice
    from ._operators._picks import Upsample as Upsample
    from ._operators._real_fft import RealFFT as RealFFT
    from ._operators._real_part import AsComplex as AsComplex
    from ._operators._real_part import ImagPart as ImagPart
    from ._operators._real_part import RealPart as RealPart
    from ._operators._rearrange import Rearrange as Rearrange
    from ._operators._repeat import Repeat as Repeat
    from ._operators._repeat import SumReduce as SumReduce
    from ._operators._sampling import Sampling as Sampling
    from ._operators._shifts import FourierShift as FourierShift
    from ._operators._shifts import Roll as Roll
    from ._operators._simple import SimpleLinop as SimpleLinop
    from ._safe_globals import safe_globals as safe_globals
else:
    _HOMES = {
        "._adapters": (
            "from_odl from_pylops from_scico from_scipy from_sigpy to_odl to_pylops to_scico "
            "to_sigpy"
        ),
        "._algebra._add": "Add",
        "._algebra._chain": "Chain",
        "._algebra._composite": "Composite",
        "._algebra._identity": "Identity",
        "._algebra._normal": "Normal",
        "._algebra._real_form": "RealForm",
        "._algebra._scalar": "Scalar",
        "._algebra._wrapper": "Wrapper",
        "._algebra._zero": "Zero",
        "._base._linop": "NamedLinop",
        "._base._roles": "Role",
        "._base._dimensions": "Side",
        "._base._sliceable": "SliceableLinop",
        "._base._swapped_functions": "of_adjoint",
        "._base._tile": "SplitError Window",
        "._base._totals": "Processes Totals",
        "._dottest": "AdjointError dottest inner is_adjoint",
        "._kept": "Cache",
        "._kernels._linear_function": "linear_function",
        "._operators._blocks": "ArrayToBlocks BlocksToArray",
        "._operators._convolution": "Convolution",
        "._operators._dct": "DCT",
        "._operators._dense": "Dense",
        "._operators._diagonal": "Diagonal",
        "._operators._fft": "FFT",
        "._operators._grid_names": "GridNames",
        "._operators._grid_operator": "AxisMap GridOperator",
        "._operators._interpolate": "Interpolate",
        "._algebra._block_matrices._kronecker": "Kronecker",
        "._operators._pad": "Crop Pad PadDim PadLast Truncate",
        "._operators._picks": "Downsample Embed Flip Slice Upsample",
        "._operators._real_fft": "RealFFT",
        "._operators._real_part": "AsComplex ImagPart RealPart",
        "._operators._rearrange": "Rearrange",
        "._operators._repeat": "Repeat SumReduce",
        "._operators._sampling": "Sampling",
        "._operators._shifts": "FourierShift Roll",
        "._operators._simple": "SimpleLinop",
        "._algebra._block_matrices._concat": "Concat",
        "._algebra._block_matrices._stack": "Stack",
        "._algebra._block_matrices._vstack": "BlockDiag HStack VStack",
        "._safe_globals": "safe_globals",
    }

    # Few programs need all modules, so each name is imported when it is used.
    __getattr__, __dir__ = loaded_when_used(__name__, _HOMES)
    __all__ = sorted(["config", *" ".join(_HOMES.values()).split()])

__version__ = "0.1.0"
