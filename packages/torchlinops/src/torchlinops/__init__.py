"""Linear operators on named dimensions, split over devices: all packages under one import.

All names of the packages are here; ``dir`` lists those that programs use most. They are also in the
modules ``torchlinops.nameddim``, ``.memmap``, ``.linops``, ``.linops.split``, ``.linops.device``,
``.linops.distributed``, ``.alg``, ``.imaging``, ``.interop``, ``.testing`` and ``.config``. The
packages can also be used by their own names: ``nameddim``, ``memmap``, ``linops_core``,
``linops_solvers``, ``linops_imaging``, ``linops_split``, ``linops_multigpu`` and
``linops_distributed``. ``torchlinops.recon`` has reconstructions of scans in one call.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from torchlinops._conflict import refuse_other_distribution

refuse_other_distribution()

import linops_imaging as _imaging  # noqa: E402, F401  # registers the operation of saved programs
from linops_core.siblings import loaded_when_used  # noqa: E402
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

_NAMES = {
    "linops_core": (
        "Add ArrayToBlocks AsComplex BlockDiag BlocksToArray Chain Concat Convolution Crop DCT "
        "Dense Diagonal Downsample Embed FFT Flip FourierShift HStack Identity ImagPart "
        "Interpolate Kronecker NamedLinop Pad PadDim PadLast RealFFT RealPart Rearrange Repeat "
        "Roll Sampling Scalar SimpleLinop Slice SliceableLinop SplitError Stack SumReduce Truncate "
        "Upsample VStack Zero dottest from_scipy inner is_adjoint"
    ),
    "linops_solvers": (
        "Record admm conjugate_gradients douglas_rachford estimate_trace fista gmres "
        "group_soft_threshold huber in_basis irls l0 l1_ball lbfgs lsmr lsqr minres mlem "
        "nuclear_norm omp operator_norm osem pdhg polynomial_preconditioner power_method "
        "proximal_gradient richardson_lucy simplex soft_threshold split_bregman svd"
    ),
    "linops_imaging": (
        "ConeBeam FanBeam FiniteDifference Gradient Laplacian NUFFT ParallelBeam ParallelBeam3D "
        "SymmetrizedGradient Wavelet coil_maps density_compensation espirit fbp fdk from_deepinv "
        "io masks mri phantoms show to_deepinv toeplitz_kernel trajectories"
    ),
    "linops_split": "Tile assemble batch_linop fuzzy_broadcast_to plan_batches split_linop",
    "linops_multigpu": "BatchSpec DeviceSpec RepeatedEvent ToDevice batched create_batched_linop",
    "linops_distributed": "DistributedLinop distribute_linop plan_mesh",
    "nameddim": "ND NS",
    ".alg": "alg",
    ".config": "config",
    ".imaging": "imaging",
    ".interop": "interop",
    ".linops": "linops",
    ".memmap": "memmap",
    ".nameddim": "nameddim",
    ".recon": "recon",
    ".testing": "testing",
    ".utils": "utils",
}
__all__ = sorted(" ".join(_NAMES.values()).split())

if not TYPE_CHECKING:
    # Few programs need all modules, so each name is imported when it is used.
    _listed, _ = loaded_when_used(__name__, _NAMES)

    def __getattr__(name: str) -> object:
        if name in __all__:
            return _listed(name)
        # Type checkers see all names of the packages, so all can be used.
        for module in map(import_module, (key for key in (*_NAMES, "memmap") if key[0] != ".")):
            if name in module.__all__:
                return getattr(module, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
