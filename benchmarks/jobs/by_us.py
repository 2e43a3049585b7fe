"""The jobs as our README has them."""

from __future__ import annotations

import torch
from torch import Tensor

import torchlinops as tl
from jobs.network import gradient_of, network
from torchlinops.imaging import (
    NUFFT,
    ConeBeam,
    FanBeam,
    Gradient,
    ParallelBeam,
    Wavelet,
    coil_maps,
    fbp,
    mri,
)

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
    F = NUFFT(locs, maps.shape[1:], ("S", "K"), batch_shape=("C",), toeplitz=True)
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


def subspace(
    kspace: Tensor, maps: Tensor, locs: Tensor, basis: Tensor, weight: float, steps: int
) -> Tensor:
    coefficients, frames = ("C", "A", "Nx", "Ny"), ("C", "T", "Nx", "Ny")
    S = tl.Dense(maps, ("C", "Nx", "Ny"), ("A", "Nx", "Ny"), coefficients)
    B = tl.Dense(basis, ("T", "A"), coefficients, frames)
    F = NUFFT(locs, maps.shape[1:], ("T", "S", "K"), batch_shape=frames[:2], toeplitz=True)
    A = F @ B @ S
    normal, right = A.N + weight * tl.Identity(), A.H(kspace.movedim(0, 1))
    return tl.alg.conjugate_gradients(normal, right, max_num_iters=steps, gtol=0, ltol=0)


def off_resonance(
    kspace: Tensor,
    maps: Tensor,
    locs: Tensor,
    field: Tensor,
    times: Tensor,
    weight: float,
    steps: int,
) -> Tensor:
    S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    F = NUFFT(locs, maps.shape[1:], ("S", "R"), batch_shape=("C",), tol=1e-2)
    A = mri.TimeSegments(F, field, times, tol=1e-2) @ S
    normal = A.N + weight * tl.Identity()
    return tl.alg.conjugate_gradients(normal, A.H(kspace), max_num_iters=steps, gtol=0, ltol=0)


def low_rank_plus_sparse(
    kspace: Tensor,
    maps: Tensor,
    mask: Tensor,
    low_rank: float,
    sparse: float,
    low_rank_share: float,
    sparse_share: float,
    steps: int,
) -> Tensor:
    parts = tl.recon.low_rank_plus_sparse(
        kspace,
        ("C", "T", "Kx", "Ky"),
        maps,
        low_rank_weight=low_rank_share,
        sparse_weight=sparse_share,
        max_num_iters=steps,
        tol=0,
    )
    return parts.low_rank + parts.sparse


def richardson_lucy(counts: Tensor, psf: Tensor, steps: int) -> Tensor:
    return tl.alg.richardson_lucy(counts, psf, max_num_iters=steps, boundary="zeros")


def short_scan(sinogram: Tensor, angles: Tensor, steps: int) -> Tensor:
    n = 2 * sinogram.shape[-1] // 3
    A = FanBeam(angles, sinogram.shape[-1], n, 3 * n, 1.5 * n, 1.5)
    return fbp(sinogram, A)


def cone_beam(sinogram: Tensor, angles: Tensor, weight: float, steps: int) -> Tensor:
    n = sinogram.shape[-1]
    A = ConeBeam(angles, (n, n), (n, n, n), 4 * n, 2 * n, 1.5)
    normal = A.N + weight * tl.Identity()
    return tl.alg.conjugate_gradients(normal, A.H(sinogram), max_num_iters=steps, gtol=0, ltol=0)
