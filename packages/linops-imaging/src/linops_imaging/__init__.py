"""The operators and data of medical imaging on named dimensions."""

from . import coil_maps, epi, interop, io, masks, mri, phantoms, trajectories
from ._differences._finite_differences import FiniteDifference as FiniteDifference
from ._differences._finite_differences import Gradient as Gradient
from ._differences._finite_differences import Laplacian as Laplacian
from ._differences._finite_differences import SymmetrizedGradient as SymmetrizedGradient
from ._non_uniform._density import density_compensation as density_compensation
from ._non_uniform._nufft import NUFFT as NUFFT
from ._non_uniform._toeplitz_kernel import toeplitz_kernel as toeplitz_kernel
from ._show import show as show
from ._wavelet import Wavelet as Wavelet
from ._xray._cone_beam import ConeBeam as ConeBeam
from ._xray._fan_beam import FanBeam as FanBeam
from ._xray._fbp import fbp as fbp
from ._xray._fdk import fdk as fdk
from ._xray._parallel_beam import ParallelBeam as ParallelBeam
from ._xray._parallel_beam_3d import ParallelBeam3D as ParallelBeam3D
from .coil_maps import espirit as espirit
from .interop import from_deepinv as from_deepinv
from .interop import to_deepinv as to_deepinv

__version__ = "0.1.0"

__all__ = [
    "NUFFT",
    "ConeBeam",
    "FanBeam",
    "FiniteDifference",
    "Gradient",
    "Laplacian",
    "ParallelBeam",
    "ParallelBeam3D",
    "SymmetrizedGradient",
    "Wavelet",
    "coil_maps",
    "density_compensation",
    "epi",
    "espirit",
    "fbp",
    "fdk",
    "from_deepinv",
    "interop",
    "io",
    "masks",
    "mri",
    "phantoms",
    "show",
    "to_deepinv",
    "toeplitz_kernel",
    "trajectories",
]
