"""The jobs with torch-named-linops, whose import name is that of our umbrella package."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from jobs.network import gradient_of, network

tl: Any = importlib.import_module("torchlinops")  # not ours, whose types would be checked

ARRAYS = "torch"
WITH = "torch-named-linops"
ABSENT = {
    "wavelet": "it has no wavelets and no solver for the 1-norm",
    "total_variation": "it has no differences and no solver for the 1-norm",
    "deblurring": "it has no wavelets and no solver for the 1-norm",
    "low_rank_plus_sparse": "it has no nuclear norm and no solver for it",
    "richardson_lucy": "it has no likelihood of counts",
    "subspace": "it has no trajectory for each frame; a loop over 60 operators was not tried",
    "off_resonance": "it has no off-resonance",
    **dict.fromkeys(("tomography", "short_scan", "cone_beam"), "it has no X-ray transform"),
    "calibration": "it has no ESPIRiT",
}


def solve(A: Any, right: Tensor, weight: float, steps: int) -> Any:
    return tl.alg.conjugate_gradients(
        lambda x: A.N(x) + weight * x,
        right,
        max_num_iters=steps,
        disable_tracking=True,
        tqdm_kwargs={"disable": True},
    )


def sense_cartesian(kspace: Tensor, maps: Tensor, mask: Tensor, weight: float, steps: int) -> Any:
    S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    F = tl.FFT(2, batch_shape=("C",), centered=True)
    A = tl.Diagonal(mask.float(), ("C", "Kx", "Ky"), broadcast_dims=("C",)) @ F @ S
    return solve(A, A.H(kspace), weight, steps)


def sense_volume(kspace: Tensor, maps: Tensor, mask: Tensor, weight: float, steps: int) -> Any:
    S = tl.Dense(maps, ("C", "Nx", "Ny", "Nz"), ("Nx", "Ny", "Nz"), ("C", "Nx", "Ny", "Nz"))
    F = tl.FFT(3, batch_shape=("C",), centered=True)
    A = tl.Diagonal(mask.float(), ("C", "Kx", "Ky", "Kz"), broadcast_dims=("C",)) @ F @ S
    return solve(A, A.H(kspace), weight, steps)


def sense_radial(kspace: Tensor, maps: Tensor, locs: Tensor, weight: float, steps: int) -> Any:
    S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    size = tuple(maps.shape[1:])
    A = tl.NUFFT(locs, size, ("S", "K"), batch_shape=("C",), toeplitz=True) @ S
    return solve(A, A.H(kspace), weight, steps)


def radial_frames(kspace: Tensor, maps: Tensor, locs: Tensor, weight: float, steps: int) -> Any:
    frames = zip(kspace, locs, strict=True)
    return torch.stack([sense_radial(y, maps, at, weight, steps) for y, at in frames])


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
    S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    F = tl.FFT(2, batch_shape=("C",), centered=True)
    A = tl.Diagonal(mask.float(), ("C", "Kx", "Ky"), broadcast_dims=("C",)) @ F @ S
    x = start = A.H(kspace)
    for _ in range(3):
        x = solve(A, start + weight * denoise(x), weight, steps)
    (x - target).abs().square().sum().backward()
    return gradient_of(denoise)
