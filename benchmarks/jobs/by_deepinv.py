"""The jobs with DeepInverse: its physics and their proximal maps."""

from __future__ import annotations

from typing import Any

from deepinv.optim import MLEM, PoissonLikelihood
from deepinv.physics import Blur, MultiCoilMRI
from torch import Tensor

from jobs.network import gradient_of, network

ARRAYS = "torch"
WITH = "DeepInverse"
ABSENT = {
    "sense_radial": "its non-Cartesian physics makes trajectories of its own",
    "radial_frames": "its non-Cartesian physics makes trajectories of its own",
    "wavelet": "its wavelet prior does not penalise the coarsest level",
    "total_variation": "its total variation is for real images, and takes both differences of a "
    "pixel together",
    "deblurring": "its wavelet prior penalises other coefficients: its error was 9.8e-02 after 90 "
    "steps",
    **dict.fromkeys(
        ("subspace", "off_resonance"), "its non-Cartesian physics makes trajectories of its own"
    ),
    "low_rank_plus_sparse": "it has no nuclear norm",
    "tomography": "its X-ray transform is another discretisation; with ASTRA it needs a GPU",
    **dict.fromkeys(("short_scan", "cone_beam"), "with ASTRA it needs a GPU"),
    "calibration": "it has no ESPIRiT of its own",
}


def sense_cartesian(kspace: Tensor, maps: Tensor, mask: Tensor, weight: float, steps: int) -> Any:
    physics = MultiCoilMRI(mask=mask.float(), coil_maps=maps)
    y = physics.from_torch_complex(kspace[None])
    x = physics.prox_l2(0.0, y, 1 / weight, solver="CG", max_iter=steps, tol=0)
    return physics.to_torch_complex(x)


def sense_volume(kspace: Tensor, maps: Tensor, mask: Tensor, weight: float, steps: int) -> Any:
    physics = MultiCoilMRI(mask=mask.float(), coil_maps=maps[None], three_d=True)
    y = physics.from_torch_complex(kspace[None])
    x = physics.prox_l2(0.0, y, 1 / weight, solver="CG", max_iter=steps, tol=0)
    return physics.to_torch_complex(x)


def modl(
    kspace: Tensor,
    maps: Tensor,
    mask: Tensor,
    weight: float,
    target: Tensor,
    parameters: Tensor,
    steps: int,
) -> Any:
    denoise = network(parameters)
    physics = MultiCoilMRI(mask=mask.float(), coil_maps=maps, implicit_backward_solver=True)
    y = physics.from_torch_complex(kspace[None])
    x = physics.to_torch_complex(physics.A_adjoint(y))[0]
    for _ in range(3):
        z = physics.from_torch_complex(denoise(x)[None])
        result = physics.prox_l2(z, y, 1 / weight, solver="CG", max_iter=steps, tol=0)
        x = physics.to_torch_complex(result)[0]
    (x - target).abs().square().sum().backward()
    return gradient_of(denoise)


def richardson_lucy(counts: Tensor, psf: Tensor, steps: int) -> Any:
    physics = Blur(filter=psf[None, None], padding="circular", use_fft=True)
    solve = MLEM(data_fidelity=PoissonLikelihood(), max_iter=steps, thres_conv=0.0)
    return solve(counts[None, None], physics)
