"""Linear operators on named dimensions, split over devices: all packages under one import.

The names that programs use most are here, and those of ``nameddim`` and ``memmap``, which ``dir``
does not list. All names of the packages are in the modules ``torchlinops.nameddim``, ``.memmap``,
``.linops``, ``.linops.split``, ``.linops.device``, ``.linops.distributed``, ``.alg``, ``.imaging``,
``.interop``, ``.testing`` and ``.config``. Each package can also be used alone: ``nameddim``,
``memmap``, ``linops_core``, ``linops_solvers``, ``linops_imaging``, ``linops_split``,
``linops_multigpu`` and ``linops_distributed``. ``torchlinops.recon`` has reconstructions of scans
in one call.
"""

from typing import TYPE_CHECKING

from torchlinops._conflict import refuse_other_distribution

refuse_other_distribution()

from torchlinops import alg as alg  # noqa: E402
from torchlinops import config as config  # noqa: E402
from torchlinops import imaging as imaging  # noqa: E402
from torchlinops import interop as interop  # noqa: E402
from torchlinops import linops as linops  # noqa: E402
from torchlinops import memmap as memmap  # noqa: E402
from torchlinops import nameddim as nameddim  # noqa: E402
from torchlinops import recon as recon  # noqa: E402
from torchlinops import testing as testing  # noqa: E402
from torchlinops import utils as utils  # noqa: E402

if TYPE_CHECKING:
    # They have a `config` and an `interop`, too.
    from linops_core import *  # type: ignore[no-redef]  # noqa: F403
    from linops_distributed import *  # noqa: F403
    from linops_imaging import *  # type: ignore[no-redef]  # noqa: F403
    from linops_multigpu import *  # noqa: F403
    from linops_solvers import *  # noqa: F403
    from linops_split import *  # noqa: F403
    from memmap import *  # noqa: F403
    from nameddim import *  # noqa: F403

__version__ = "0.1.0"

_HERE = {
    linops: (
        "Add ArrayToBlocks AsComplex BlockDiag BlocksToArray Chain Concat Convolution Crop DCT "
        "Dense Diagonal Downsample Embed FFT Flip FourierShift HStack Identity ImagPart "
        "Interpolate Kronecker NamedLinop Pad PadDim PadLast RealFFT RealPart Rearrange Repeat "
        "Roll Sampling Scalar SimpleLinop Slice SliceableLinop SplitError Stack SumReduce Truncate "
        "Upsample VStack Zero dottest from_scipy inner is_adjoint"
    ),
    alg: (
        "Record admm conjugate_gradients douglas_rachford estimate_trace fista gmres "
        "group_soft_threshold huber in_basis irls l0 l1_ball lbfgs lsmr lsqr minres mlem "
        "nuclear_norm omp operator_norm osem pdhg polynomial_preconditioner power_method "
        "proximal_gradient richardson_lucy simplex soft_threshold split_bregman svd"
    ),
    imaging: (
        "ConeBeam FanBeam FiniteDifference Gradient Laplacian NUFFT ParallelBeam ParallelBeam3D "
        "SymmetrizedGradient Wavelet coil_maps density_compensation espirit fbp fdk from_deepinv "
        "io masks mri phantoms show to_deepinv toeplitz_kernel trajectories"
    ),
    linops.split: "Tile assemble batch_linop fuzzy_broadcast_to plan_batches split_linop",
    linops.device: "BatchSpec DeviceSpec RepeatedEvent ToDevice batched create_batched_linop",
    linops.distributed: "DistributedLinop distribute_linop plan_mesh",
    nameddim: "ND NS",
}
globals().update(
    {name: getattr(module, name) for module, names in _HERE.items() for name in names.split()}
)

__all__ = [
    "alg",
    "config",
    "imaging",
    "interop",
    "linops",
    "memmap",
    "nameddim",
    "recon",
    "testing",
    "utils",
    *(name for names in _HERE.values() for name in names.split()),
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        for module in (nameddim, memmap):
            if name in module.__all__:
                return getattr(module, name)
        error = f"module {__name__!r} has no attribute {name!r}"
        for module in (*_HERE, interop):
            if name in module.__all__:
                error = f"{error}; it is {module.__name__}.{name}"
                break
        raise AttributeError(error)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
