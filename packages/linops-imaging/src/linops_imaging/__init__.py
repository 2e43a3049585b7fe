"""The operators and data of medical imaging on named dimensions."""

from . import coil_maps, interop, io, masks, phantoms, trajectories
from ._differences._finite_differences import FiniteDifference as FiniteDifference
from ._differences._finite_differences import Gradient as Gradient
from ._differences._finite_differences import Laplacian as Laplacian
from ._differences._finite_differences import SymmetrizedGradient as SymmetrizedGradient
from ._non_uniform._density import density_compensation as density_compensation
from ._non_uniform._nufft import NUFFT as NUFFT
from ._non_uniform._toeplitz_kernel import toeplitz_kernel as toeplitz_kernel
from ._show import show as show
from ._wavelet import Wavelet as Wavelet
from ._xray._fan_beam import FanBeam as FanBeam
from ._xray._fbp import fbp as fbp
from ._xray._parallel_beam import ParallelBeam as ParallelBeam

__version__ = "0.1.0"

__all__ = [
    "NUFFT",
    "FanBeam",
    "FiniteDifference",
    "Gradient",
    "Laplacian",
    "ParallelBeam",
    "SymmetrizedGradient",
    "Wavelet",
    "coil_maps",
    "density_compensation",
    "fbp",
    "interop",
    "io",
    "masks",
    "phantoms",
    "show",
    "toeplitz_kernel",
    "trajectories",
]
