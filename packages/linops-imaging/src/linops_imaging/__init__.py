"""The operators and data of medical imaging on named dimensions."""

from typing import TYPE_CHECKING

from linops_core.siblings import loaded_when_used

# Programs that torch.export saved name the operation that it registers.
from ._non_uniform import _finufft_function as _finufft_function

if TYPE_CHECKING:
    from . import coil_maps as coil_maps
    from . import epi as epi
    from . import interop as interop
    from . import io as io
    from . import masks as masks
    from . import mri as mri
    from . import phantoms as phantoms
    from . import trajectories as trajectories
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
else:
    _HOMES = {
        "._differences._finite_differences": (
            "FiniteDifference Gradient Laplacian SymmetrizedGradient"
        ),
        "._non_uniform._density": "density_compensation",
        "._non_uniform._nufft": "NUFFT",
        "._non_uniform._toeplitz_kernel": "toeplitz_kernel",
        "._show": "show",
        "._wavelet": "Wavelet",
        "._xray._cone_beam": "ConeBeam",
        "._xray._fan_beam": "FanBeam",
        "._xray._fbp": "fbp",
        "._xray._fdk": "fdk",
        "._xray._parallel_beam": "ParallelBeam",
        "._xray._parallel_beam_3d": "ParallelBeam3D",
        ".coil_maps": "coil_maps espirit",
        ".epi": "epi",
        ".interop": "from_deepinv interop to_deepinv",
        ".io": "io",
        ".masks": "masks",
        ".mri": "mri",
        ".phantoms": "phantoms",
        ".trajectories": "trajectories",
    }

    # Few programs need all modules, so each name is imported when it is used.
    __getattr__, __dir__ = loaded_when_used(__name__, _HOMES)
    __all__ = sorted(" ".join(_HOMES.values()).split())

__version__ = "0.1.0"
