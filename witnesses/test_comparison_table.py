"""What README.md says of other libraries is what they do, where a short program can see it.

Each column is checked where its library is installed: `witnesses` has most of them, `reference` has
torch-named-linops, whose import name is that of torchlinops.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

README = Path(__file__).parents[1] / "README.md"
# What these say of a library is in its documentation, and no short program can see it.
READ = [
    "SENSE, wavelets, total variation in one call",
    "trained networks, losses",
    "operators of seismics",
    "signal models, sequences",
    "several GPUs in one process",
    "several processes",
    "was run on GPUs",
]
MAPS = torch.randn(2, 4, 6, dtype=torch.complex64)
IMAGE = torch.randn(4, 6, dtype=torch.complex64)
Found = dict[str, Callable[[], str]]


def table() -> dict[str, dict[str, str]]:
    """Return the columns of the table in the README: row to cell."""
    section = README.read_text("utf-8").partition("## Comparison with other libraries")[2]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    _, *names = rows[0]
    return {
        name.split(" ")[0]: {row[0]: row[column] for row in rows[2:]}
        for column, name in enumerate(names, 1)
    }


def yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def has(module: str, *names: str) -> Callable[[], str]:
    """Whether a module has one of these names."""
    return lambda: yes(any(hasattr(importlib.import_module(module), name) for name in names))


def gradients(call: Callable[[Tensor, Tensor], Any], which: int) -> str:
    """Whether gradients reach the image (0) or the weights (1) of an operator made of both."""
    leaves = [IMAGE.clone().requires_grad_(), MAPS.clone().requires_grad_()]
    try:
        call(*leaves).abs().square().sum().backward()
    except (AttributeError, TypeError, RuntimeError):  # of what takes no tensors with gradients
        return "no"
    return yes(leaves[which].grad is not None)


def afterwards(S: Any) -> str:
    """What is said of an operator whose weight needs gradients once it is told so."""
    assert not S.weight.requires_grad
    S.weight.requires_grad_()
    S(IMAGE).abs().square().sum().backward()
    return "if requires_grad is set afterwards" if S.weight.grad is not None else "no"


def of_named_linops(ours: bool) -> Found:
    import torchlinops as tl

    def sense(image: Tensor, maps: Tensor) -> Any:
        dims = ("C", "Nx", "Ny")
        S = tl.Dense(maps, dims, ("Nx", "Ny"), dims)
        return (tl.FFT(2) if ours else tl.FFT(2, ("Nx", "Ny")))(S(image))

    dims = ("C", "Nx", "Ny")
    S = tl.Dense(MAPS, dims, ("Nx", "Ny"), dims)
    split = importlib.import_module("torchlinops").create_batched_linop
    return {
        "arrays": lambda: "PyTorch" if isinstance(S(IMAGE), Tensor) else "",
        "dimensions have names": lambda: yes(tuple(map(str, S.ishape)) == ("Nx", "Ny")),
        "adjoint": lambda: "`A.H`" if S.H(S(IMAGE)).shape == IMAGE.shape else "",
        "gradients to the input": lambda: gradients(sense, 0),
        "gradients to weights": lambda: gradients(sense, 1) if ours else afterwards(S),
        "non-uniform FFT": has("torchlinops", "NUFFT"),
        "X-ray transform": has("torchlinops", "ParallelBeam"),
        "wavelet transform": has("torchlinops", "Wavelet"),
        "primal-dual or ADMM": has("torchlinops.alg", "pdhg", "admm"),
        "reads ISMRMRD": has("linops_imaging.io" if ours else "torchlinops", "read_ismrmrd"),
        "tiles along any named dimension": lambda: yes(
            torch.allclose(split(S, tl.BatchSpec({"C": 1}))(IMAGE), S(IMAGE))
        ),
        "tiles for a budget of memory": has("torchlinops", "plan_batches"),
    }


def of_sigpy() -> Found:
    import numpy as np
    import sigpy
    import sigpy.linop
    import sigpy.mri

    S = sigpy.mri.linop.Sense(MAPS.numpy())
    wrapped = sigpy.to_pytorch_function(S, input_iscomplex=True, output_iscomplex=True)
    parts = torch.view_as_real(IMAGE).clone().requires_grad_()
    wrapped.apply(parts).square().sum().backward()
    assert parts.grad is not None
    no_gradients = gradients(lambda image, maps: sigpy.mri.linop.Sense(maps)(image), 1)
    return {
        "arrays": lambda: "NumPy, CuPy" if isinstance(S(IMAGE.numpy()), np.ndarray) else "",
        "dimensions have names": lambda: yes(isinstance(S.ishape[0], str)),
        "adjoint": lambda: "`A.H`" if S.H(S(IMAGE.numpy())).shape == IMAGE.shape else "",
        "gradients to the input": lambda: "by a wrapper",
        "gradients to weights": lambda: no_gradients,
        "non-uniform FFT": has("sigpy.linop", "NUFFT"),
        "X-ray transform": has("sigpy.linop", "Radon", "XRay", "Projection"),
        "wavelet transform": has("sigpy.linop", "Wavelet"),
        "primal-dual or ADMM": has("sigpy.alg", "PrimalDualHybridGradient", "ADMM"),
        "reads ISMRMRD": has("sigpy", "ismrmrd"),
        "tiles along any named dimension": lambda: "coils, blocks",
        "tiles for a budget of memory": has("sigpy", "plan_batches"),
    }


def of_pylops() -> Found:
    import numpy as np
    import pylops
    import pylops.medical
    import pylops.signalprocessing

    D = pylops.Diagonal(np.arange(1.0, 5.0))
    x = torch.ones(4, dtype=torch.float64, requires_grad=True)
    torch.autograd.backward(pylops.TorchOperator(D).apply(x).square().sum())
    assert x.grad is not None
    no_gradients = gradients(lambda image, maps: pylops.Diagonal(maps.ravel()) @ maps.ravel(), 1)
    return {
        "arrays": lambda: "NumPy, CuPy, JAX" if isinstance(D @ np.ones(4), np.ndarray) else "",
        "dimensions have names": lambda: yes(isinstance(D.dims[0], str)),
        "adjoint": lambda: "`A.H`" if (D.H @ np.ones(4)).shape == (4,) else "",
        "gradients to the input": lambda: "by a wrapper",
        "gradients to weights": lambda: no_gradients,
        "non-uniform FFT": has("pylops.signalprocessing", "NUFFT", "NonUniformFFT"),
        "X-ray transform": has("pylops.medical", "CT2D"),
        "wavelet transform": has("pylops.signalprocessing", "DWT"),
        "primal-dual or ADMM": lambda: yes(hasattr(pylops.optimization, "primaldual")),
        "reads ISMRMRD": has("pylops", "ismrmrd"),
        "tiles along any named dimension": lambda: "windows",
        "tiles for a budget of memory": has("pylops", "plan_batches"),
    }


def of_mrpro() -> Found:
    import mrpro

    def sense(image: Tensor, maps: Tensor) -> Any:
        (y,) = mrpro.operators.SensitivityOp(maps[None, :, None])(image[None, None, None])
        return y

    S = mrpro.operators.SensitivityOp(MAPS[None, :, None])
    return {
        "arrays": lambda: "PyTorch" if isinstance(sense(IMAGE, MAPS), Tensor) else "",
        "dimensions have names": lambda: yes(hasattr(S, "ishape")),
        "adjoint": lambda: "`A.H`" if S.H(sense(IMAGE, MAPS))[0].shape[-2:] == IMAGE.shape else "",
        "gradients to the input": lambda: gradients(sense, 0),
        "gradients to weights": lambda: gradients(sense, 1),
        "non-uniform FFT": has("mrpro.operators", "NonUniformFastFourierOp"),
        "X-ray transform": has("mrpro.operators", "RadonOp", "XRayOp", "ProjectionOp"),
        "wavelet transform": has("mrpro.operators", "WaveletOp"),
        "primal-dual or ADMM": has("mrpro.algorithms.optimizers", "pdhg", "admm"),
        "reads ISMRMRD": lambda: yes(hasattr(mrpro.data.KData, "from_file")),
        "tiles along any named dimension": lambda: yes(hasattr(S, "split")),
        "tiles for a budget of memory": has("mrpro", "plan_batches"),
    }


def of_deepinverse() -> Found:
    import deepinv

    def blur(image: Tensor, maps: Tensor) -> Any:
        weights = torch.view_as_real(maps)[:1, :3, :3, 0][None]
        physics = deepinv.physics.Blur(filter=None, padding="circular")
        return physics.A(image.real[None, None], filter=weights)

    physics = deepinv.physics.Blur(filter=torch.ones(1, 1, 3, 3), padding="circular")
    real = IMAGE.real[None, None]
    return {
        "arrays": lambda: "PyTorch" if isinstance(physics.A(real), Tensor) else "",
        "dimensions have names": lambda: yes(hasattr(physics, "ishape")),
        "adjoint": lambda: "`A_adjoint`" if physics.A_adjoint(real).shape == real.shape else "",
        "gradients to the input": lambda: gradients(blur, 0),
        "gradients to weights": lambda: gradients(blur, 1),
        "non-uniform FFT": has("deepinv.physics", "NonCartesianMRI"),
        "X-ray transform": has("deepinv.physics", "Tomography"),
        "wavelet transform": lambda: (
            "as a penalty" if has("deepinv.optim", "WaveletPrior")() == "yes" else "no"
        ),
        "primal-dual or ADMM": has("deepinv.optim", "PDCP", "ADMM"),
        "reads ISMRMRD": lambda: yes(hasattr(deepinv.io, "load_ismrmd")),
        "tiles along any named dimension": lambda: yes(hasattr(physics, "split")),
        "tiles for a budget of memory": has("deepinv", "plan_batches"),
    }


IS_OURS = importlib.util.find_spec("linops_core") is not None
COLUMNS: dict[str, tuple[str, Callable[[], Found]]] = {
    "torchlinops": ("linops_core", lambda: of_named_linops(ours=True)),
    "sigpy": ("sigpy", of_sigpy),
    "PyLops": ("pylops", of_pylops),
    "mrpro": ("mrpro", of_mrpro),
    "DeepInverse": ("deepinv", of_deepinverse),
    "torch-named-linops": ("torchlinops", lambda: of_named_linops(ours=False)),
}


@pytest.fixture(scope="module", autouse=True)
def torchvision() -> Iterator[None]:
    """Let torchvision be imported beside a torch for the CPU: it looks for operators of its own."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLBACKEND", "agg")
        yield
    del library


@pytest.mark.filterwarnings("ignore")  # of libraries that are not ours
@pytest.mark.parametrize("name", COLUMNS)
def test_the_table_says_what_a_library_does(name: str) -> None:
    module, probes = COLUMNS[name]
    is_there = importlib.util.find_spec(module) is not None
    if not is_there or (name == "torch-named-linops" and IS_OURS):
        pytest.skip(f"{name} is not installed")
    said = table()[name]
    result = {row: probe() for row, probe in probes().items()}
    assert result == {row: cell.split(" (")[0] for row, cell in said.items() if row not in READ}


def test_every_row_is_checked_or_said_to_be_read() -> None:
    columns = table()
    assert columns.keys() == COLUMNS.keys()
    assert all(set(READ) < set(column) for column in columns.values())
