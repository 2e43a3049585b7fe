"""The jobs as our README has them."""

from __future__ import annotations

import torch
from torch import Tensor

import torchlinops as tl
from jobs.network import gradient_of, network
from torchlinops.imaging import NUFFT, Gradient, ParallelBeam, Wavelet, coil_maps

ARRAYS = "torch"
WITH = "torchlinops"
ABSENT: dict[str, str] = {}


def sense_cartesian(
    kspace: Tensor, maps: Tensor, mask: Tensor, weight: float, steps: int
) -> Tensor:
    S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    M = tl.Sampling.from_mask(mask)
    A = M @ tl.FFT(2, centered=True) @ S
    normal = A.N + weight * tl.Identity()
    return tl.alg.conjugate_gradients(normal, A.H(M(kspace)), max_num_iters=steps, gtol=0, ltol=0)


def sense_volume(kspace: Tensor, maps: Tensor, mask: Tensor, weight: float, steps: int) -> Tensor:
    S = tl.Dense(maps, ("C", "Nx", "Ny", "Nz"), ("Nx", "Ny", "Nz"), ("C", "Nx", "Ny", "Nz"))
    M = tl.Sampling.from_mask(mask)
    A = M @ tl.FFT(3, centered=True) @ S
    normal = A.N + weight * tl.Identity()
    return tl.alg.conjugate_gradients(normal, A.H(M(kspace)), max_num_iters=steps, gtol=0, ltol=0)


def sense_radial(kspace: Tensor, maps: Tensor, locs: Tensor, weight: float, steps: int) -> Tensor:
    S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    F = NUFFT(
        locs,
        maps.shape[1:],
        ("S", "K"),
        batch_shape=("C",),
        tol=2e-2,
        toeplitz=True,
        method="interpolate",  # applied once, so it needs no table
    )
    A = F @ S
    normal = A.N + weight * tl.Identity()
    return tl.alg.conjugate_gradients(normal, A.H(kspace), max_num_iters=steps, gtol=0, ltol=0)


def radial_frames(kspace: Tensor, maps: Tensor, locs: Tensor, weight: float, steps: int) -> Tensor:
    frames = zip(kspace, locs, strict=True)
    return torch.stack([sense_radial(y, maps, at, weight, steps) for y, at in frames])


def wavelet(kspace: Tensor, maps: Tensor, mask: Tensor, weight: float, steps: int) -> Tensor:
    S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    M = tl.Sampling.from_mask(mask)
    A = M @ tl.FFT(2, centered=True) @ S
    W = Wavelet("haar", ("Nx", "Ny"), maps.shape[1:], n_levels=3)
    sparse = tl.alg.in_basis(W, tl.alg.soft_threshold(weight))
    return tl.alg.fista(A, M(kspace), sparse, max_num_iters=steps, tol=0)


def total_variation(
    kspace: Tensor, maps: Tensor, mask: Tensor, weight: float, steps: int
) -> Tensor:
    S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    M = tl.Sampling.from_mask(mask)
    A = M @ tl.FFT(2, centered=True) @ S
    G = Gradient(("Nx", "Ny"), maps.shape[1:], boundary="circular")
    few_edges = tl.alg.soft_threshold(weight)
    return tl.alg.admm(A, M(kspace), few_edges, G, max_num_iters=steps, rho=0.05, eps_rel=0)


def modl(
    kspace: Tensor,
    maps: Tensor,
    mask: Tensor,
    weight: float,
    target: Tensor,
    parameters: Tensor,
    steps: int,
) -> Tensor:
    denoise = network(parameters)
    S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    M = tl.Sampling.from_mask(mask)
    A = M @ tl.FFT(2, centered=True) @ S
    normal = A.N + weight * tl.Identity()
    x = start = A.H(M(kspace))
    for _ in range(3):
        right = start + weight * denoise(x)
        x = tl.alg.conjugate_gradients(
            normal, right, max_num_iters=steps, gtol=0, ltol=0, implicit=True
        )
    (x - target).abs().square().sum().backward()
    return gradient_of(denoise)


def deblurring(blurred: Tensor, kernel: Tensor, weight: float, steps: int) -> Tensor:
    A = tl.Convolution(kernel, mode="valid")
    n = blurred.shape[0] + kernel.shape[0] - 1
    weights = torch.full((n, n), weight)
    weights[: n // 8, : n // 8] = 0
    W = Wavelet("haar", ("Nx", "Ny"), [n, n], n_levels=3)
    sparse = tl.alg.in_basis(W, tl.alg.soft_threshold(weights))
    return tl.alg.fista(A, blurred, sparse, max_num_iters=steps, tol=0)


def tomography(sinogram: Tensor, angles: Tensor, weight: float, steps: int) -> Tensor:
    n_detectors = sinogram.shape[-1]
    A = ParallelBeam(angles, n_detectors, 2 * n_detectors // 3)
    damp = weight**0.5
    return tl.alg.lsqr(A, sinogram, max_num_iters=steps, damp=damp, atol=0, btol=0, conlim=0)


def calibration(kspace: Tensor, mask: Tensor, weight: float, steps: int) -> Tensor:
    maps = coil_maps.espirit(kspace, "C", ("Kx", "Ky"))
    return sense_cartesian(kspace, maps, mask, weight, steps)
