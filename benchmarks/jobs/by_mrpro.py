"""The jobs with mrpro: its operators, functionals and solvers."""

from __future__ import annotations

from typing import Any

import torch
from mrpro.algorithms.optimizers import cg, pdhg, pgd
from mrpro.data import KTrajectory
from mrpro.operators import (
    CartesianMaskingOp,
    ConjugateGradientOp,
    EinsumOp,
    FastFourierOp,
    FiniteDifferenceOp,
    IdentityOp,
    LinearOperatorMatrix,
    NonUniformFastFourierOp,
    SensitivityOp,
    TimeSegmentedFourierOp,
    WaveletOp,
)
from mrpro.operators.functionals import L1Norm, L2NormSquared
from torch import Tensor

from jobs.network import gradient_of, network

ARRAYS = "torch"
WITH = "mrpro"
ABSENT = {
    "low_rank_plus_sparse": "it has no nuclear norm",
    **dict.fromkeys(("deblurring", "richardson_lucy"), "it has no convolution"),
    **dict.fromkeys(("tomography", "short_scan", "cone_beam"), "it has no X-ray transform"),
    "calibration": "it has no ESPIRiT",
}


def sense_cartesian(kspace: Tensor, maps: Tensor, mask: Tensor, weight: float, steps: int) -> Any:
    S = SensitivityOp(maps[None, :, None])
    F = FastFourierOp(dim=(-2, -1))
    A = CartesianMaskingOp(mask[None, None, None]) @ F @ S
    (right,) = A.H(kspace[None, :, None])
    (x,) = cg(A.gram + weight, right, max_iterations=steps, tolerance=0)
    return x


def sense_volume(kspace: Tensor, maps: Tensor, mask: Tensor, weight: float, steps: int) -> Any:
    S = SensitivityOp(maps[None])
    F = FastFourierOp(dim=(-3, -2, -1))
    A = CartesianMaskingOp(mask[None, None]) @ F @ S
    (right,) = A.H(kspace[None])
    (x,) = cg(A.gram + weight, right, max_iterations=steps, tolerance=0)
    return x


def sense_radial(kspace: Tensor, maps: Tensor, locs: Tensor, weight: float, steps: int) -> Any:
    ky, kx = locs[None, None, None].unbind(-1)
    trajectory = KTrajectory(kz=torch.zeros(1, 1, 1, 1, 1), ky=ky, kx=kx)
    size = maps.shape[1:]
    F = NonUniformFastFourierOp(("y", "x"), size, size, trajectory)
    A = F @ SensitivityOp(maps[None, :, None])
    (right,) = A.H(kspace[None, :, None])
    (x,) = cg(A.gram + weight, right, max_iterations=steps, tolerance=0)
    return x


def radial_frames(kspace: Tensor, maps: Tensor, locs: Tensor, weight: float, steps: int) -> Any:
    ky, kx = locs[:, None, None].unbind(-1)
    trajectory = KTrajectory(kz=torch.zeros(1, 1, 1, 1, 1), ky=ky, kx=kx)
    size = maps.shape[1:]
    F = NonUniformFastFourierOp(("y", "x"), size, size, trajectory)
    A = F @ SensitivityOp(maps[None, :, None])
    (right,) = A.H(kspace[:, :, None])
    (x,) = cg(A.gram + weight, right, max_iterations=steps, tolerance=0)
    return x


def wavelet(kspace: Tensor, maps: Tensor, mask: Tensor, weight: float, steps: int) -> Any:
    S = SensitivityOp(maps[None, :, None])
    F = FastFourierOp(dim=(-2, -1))
    A = CartesianMaskingOp(mask[None, None, None]) @ F @ S
    W = WaveletOp(domain_shape=maps.shape[1:], wavelet_name="haar", level=3)
    misfit = 0.5 * L2NormSquared(target=kspace[None, :, None]) @ A @ W.H
    (start,) = W(A.H(kspace[None, :, None])[0])
    result = pgd(misfit, weight * L1Norm(), start, stepsize=1.0, max_iterations=steps)
    return W.H(*result)[0]


def total_variation(kspace: Tensor, maps: Tensor, mask: Tensor, weight: float, steps: int) -> Any:
    S = SensitivityOp(maps[None, :, None])
    F = FastFourierOp(dim=(-2, -1))
    A = CartesianMaskingOp(mask[None, None, None]) @ F @ S
    G = FiniteDifferenceOp(dim=(-2, -1), mode="forward", pad_mode="circular")
    f = 0.5 * L2NormSquared(target=kspace[None, :, None]) | weight * L1Norm()
    start = A.H(kspace[None, :, None])
    K = LinearOperatorMatrix(((A,), (G,)))
    (x,) = pdhg(f, None, K, start, max_iterations=steps, dual_stepsize=0.1)
    return x


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
    S = SensitivityOp(maps[None, :, None])
    A = CartesianMaskingOp(mask[None, None, None]) @ FastFourierOp(dim=(-2, -1)) @ S
    normal = A.gram + weight * IdentityOp()
    (start,) = A.H(kspace[None, :, None])
    consistent = ConjugateGradientOp(
        lambda z: normal,
        lambda z: (start + weight * z,),
        implicit_backward=False,  # else it takes as many steps as it likes
        tolerance=0,
        max_iterations=steps,
    )
    x = start
    for _ in range(3):
        (x,) = consistent(denoise(x[0, 0, 0])[None, None, None])
    (x[0, 0, 0] - target).abs().square().sum().backward()
    return gradient_of(denoise)


def subspace(
    kspace: Tensor, maps: Tensor, locs: Tensor, basis: Tensor, weight: float, steps: int
) -> Any:
    ky, kx = locs[:, None, None].unbind(-1)
    trajectory = KTrajectory(kz=torch.zeros(1, 1, 1, 1, 1), ky=ky, kx=kx)
    size = maps.shape[1:]
    B = EinsumOp(basis.to(kspace.dtype), "t a, a ... -> t ...")
    F = NonUniformFastFourierOp(("y", "x"), size, size, trajectory)
    S = SensitivityOp(maps[None, :, None])
    A = F @ S @ B
    (right,) = A.H(kspace[:, :, None])
    (x,) = cg(A.gram + weight, right, max_iterations=steps, tolerance=0)
    return x


def off_resonance(
    kspace: Tensor,
    maps: Tensor,
    locs: Tensor,
    field: Tensor,
    times: Tensor,
    weight: float,
    steps: int,
) -> Any:
    ky, kx = locs[None, None, None].unbind(-1)
    trajectory = KTrajectory(kz=torch.zeros(1, 1, 1, 1, 1), ky=ky, kx=kx)
    size = maps.shape[1:]
    F = NonUniformFastFourierOp(("y", "x"), size, size, trajectory)
    T = TimeSegmentedFourierOp(F, -field[None, None, None], times, n_segments=8)
    A = T @ SensitivityOp(maps[None, :, None])
    (right,) = A.H(kspace[None, :, None])
    (x,) = cg(A.gram + weight, right, max_iterations=steps, tolerance=0)
    return x
