"""The ten jobs: data made of phantoms with noise, and solutions in double precision."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from jobs.network import gradient_of, initial_parameters, network
from jobs.problem import Array, Data, Problem
from linops_core import FFT, Chain, Convolution, Dense, Identity, NamedLinop, Sampling
from linops_imaging import NUFFT, Gradient, ParallelBeam, Wavelet, masks, phantoms, trajectories
from linops_imaging.coil_maps import espirit
from linops_solvers import admm, conjugate_gradients, fista, in_basis, soft_threshold

N_COILS = 8
NOISE = 0.02


def single(x: Tensor) -> Array:
    """Return the array in single precision."""
    return x.to(torch.complex64 if x.is_complex() else torch.float32).numpy()


def noisy(y: Tensor) -> Tensor:
    """Return single-precision values with noise of a fraction of their root mean square."""
    generator = torch.Generator().manual_seed(0)
    size = y.abs().square().mean().sqrt() * NOISE
    noise = size * torch.randn(y.shape, dtype=y.dtype, generator=generator)
    return (y + noise).to(torch.complex64 if y.is_complex() else torch.float32)


def coil_maps(grid_size: Sequence[int]) -> Tensor:
    """Return maps whose squared magnitudes add up to 1, in single precision."""
    coils = phantoms.CoilSeries.around(N_COILS, len(grid_size))
    maps = coils.on_grid(list(grid_size), torch.complex128)
    return (maps / maps.abs().square().sum(0).sqrt()).to(torch.complex64)


def solved(A: NamedLinop, y: Tensor, weight: float, steps: int = 300) -> Array:
    """Return the solution of the least squares with a penalty, to many digits."""
    normal = A.N + weight * Identity(A.ishape)
    x = conjugate_gradients(normal, A.H(y), max_num_iters=steps, gtol=1e-7, ltol=0)
    return x.numpy()


def scan(grid_size: Sequence[int], mask: Tensor) -> tuple[Chain, Tensor, Tensor]:
    """Return the operator of a Cartesian scan in double precision, its maps and its k-space."""
    grid = ("Nx", "Ny", "Nz")[: len(grid_size)]
    maps = coil_maps(grid_size)
    S = Dense(maps.to(torch.complex128), ("C", *grid), grid, ("C", *grid))
    F = FFT(len(grid_size), batch_shape=("C",), centered=True)
    A = Chain(S, F, Sampling.from_mask(mask, batch_shape=("C",)))
    head = phantoms.shepp_logan(list(grid_size), torch.float64).to(torch.complex128)
    full = noisy(F(S(head)))
    return A, maps, full * mask


def cartesian(size: Sequence[int], weight: float) -> tuple[Data, Array]:
    """Return a Cartesian scan and the solution of its least squares."""
    across = masks.variable_density(list(size[-2:]), acceleration=6, calibration=size[-1] // 10)
    mask = across.expand(tuple(size)).contiguous()
    A, maps, kspace = scan(size, mask)
    expected = solved(A, A.linops[-1](kspace.to(torch.complex128)), weight)
    data = {"kspace": kspace.numpy(), "maps": maps.numpy(), "mask": mask.numpy()}
    return {**data, "weight": weight}, expected


def sense_cartesian(n: int) -> tuple[Data, Array]:
    """Least squares with 8 coils and a sixth of k-space, and a weight on the squared image."""
    return cartesian((n, n), 0.02)


def sense_volume(n: int) -> tuple[Data, Array]:
    """The same in three dimensions: a volume of n/4 x n x n, sampled along two axes."""
    return cartesian((n // 4, n, n), 0.02)


def radial(n: int, n_frames: int, n_spokes: int, weight: float) -> tuple[Data, Array]:
    """Return golden-angle radial frames of a head that dims, and the solutions of each."""
    angles = trajectories.golden_angles(n_frames * n_spokes)
    locs = trajectories.radial_2d(n_frames * n_spokes, 2 * n, n, angles).clamp(-n / 2, n / 2)
    locs = locs.reshape(n_frames, n_spokes, 2 * n, 2)
    maps = coil_maps((n, n))
    S = Dense(maps.to(torch.complex128), ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    head = phantoms.shepp_logan([n, n], torch.float64).to(torch.complex128)
    kspace, found = [], []
    for frame, at in enumerate(locs):
        A = NUFFT(at.double(), (n, n), ("S", "K"), batch_shape=("C",), tol=1e-9, toeplitz=True) @ S
        kspace.append(noisy(A(head * (1 - frame / (2 * n_frames)))))
        found.append(solved(A, kspace[-1].to(torch.complex128), weight))
    data = {"kspace": torch.stack(kspace).numpy(), "maps": maps.numpy(), "locs": locs.numpy()}
    return {**data, "weight": weight}, np.stack(found)


def sense_radial(n: int) -> tuple[Data, Array]:
    """Least squares with 8 coils and n/2 spokes of 2n points, and a weight on the squared image."""
    data, expected = radial(n, 1, n // 2, 0.5)
    kspace, locs = np.asarray(data["kspace"])[0], np.asarray(data["locs"])[0]
    return {**data, "kspace": kspace, "locs": locs}, expected[0]


def radial_frames(n: int) -> tuple[Data, Array]:
    """The same for 12 frames of n/4 spokes, each with angles of its own."""
    return radial(n, 12, n // 4, 0.5)


def wavelet(n: int) -> tuple[Data, Array]:
    """A Cartesian scan, 8 coils and a sixth of k-space: l1 penalty on 3 levels of Haar wavelets.

    All coefficients are penalised, also those of the coarsest level.
    """
    mask = masks.variable_density([n, n], acceleration=6, calibration=n // 10)
    A, maps, kspace = scan((n, n), mask)
    y, weight = A.linops[-1](kspace.to(torch.complex128)), 2e-3
    W = Wavelet("haar", ("Nx", "Ny"), [n, n], n_levels=3)
    x = fista(A, y, in_basis(W, soft_threshold(weight)), max_num_iters=800, tol=1e-6)
    data = {"kspace": kspace.numpy(), "maps": maps.numpy(), "mask": mask.numpy()}
    return {**data, "weight": weight}, x.numpy()


def total_variation(n: int) -> tuple[Data, Array]:
    """A Cartesian scan, 8 coils and a sixth of k-space: l1 penalty on differences of neighbours.

    Differences are circular, and those along each axis are penalised separately (anisotropic).
    """
    mask = masks.variable_density([n, n], acceleration=6, calibration=n // 10)
    A, maps, kspace = scan((n, n), mask)
    y, weight = A.linops[-1](kspace.to(torch.complex128)), 2e-3
    G = Gradient(("Nx", "Ny"), [n, n], boundary="circular")
    penalty = soft_threshold(weight)
    x = admm(A, y, penalty, G, rho=0.05, max_cg_iters=15, max_num_iters=300, eps_rel=1e-6)
    data = {"kspace": kspace.numpy(), "maps": maps.numpy(), "mask": mask.numpy()}
    return {**data, "weight": weight}, x.numpy()


def modl(n: int) -> tuple[Data, Array]:
    """The gradient of a training step.

    Three times, a network is applied, and least squares are solved near its output. The loss is the
    squared distance from the head. Networks and data are the same for all. Each system is solved by
    as many steps of conjugate gradients as the accuracy of the gradient needs.
    """
    data, _ = cartesian((n, n), 0.05)
    head = phantoms.shepp_logan([n, n]).to(torch.complex64)
    parameters = initial_parameters()
    mask = torch.from_numpy(np.asarray(data["mask"]))
    A, _, _ = scan((n, n), mask)
    y = A.linops[-1](torch.from_numpy(np.asarray(data["kspace"])).to(torch.complex128))
    denoise = network(torch.from_numpy(parameters).double())
    normal = A.N + 0.05 * Identity(A.ishape)
    x = start = A.H(y)
    for _ in range(3):
        right = start + 0.05 * denoise(x)
        x = conjugate_gradients(normal, right, max_num_iters=200, gtol=1e-10, ltol=0, implicit=True)
    (x - head).abs().square().sum().backward()
    more = {"target": head.numpy(), "parameters": parameters}
    return {**data, **more}, gradient_of(denoise).numpy()


def deblurring(n: int) -> tuple[Data, Array]:
    """A head blurred by a Gaussian of 11 x 11: l1 penalty on 3 levels of Haar wavelets.

    The convolution is "valid": only pixels away from the edge are given. The coarsest level is not
    penalised.
    """
    at = torch.arange(-5, 6, dtype=torch.float64)
    line = torch.exp(-(at**2) / (2 * 1.5**2))
    kernel = torch.outer(line, line) / line.sum() ** 2
    A = Convolution(kernel, mode="valid")
    y = noisy(A(phantoms.shepp_logan([n, n], torch.float64)))
    weights = torch.full((n, n), 5e-3, dtype=torch.float64)
    weights[: n // 8, : n // 8] = 0
    W = Wavelet("haar", ("Nx", "Ny"), [n, n], n_levels=3)
    x = fista(A, y.double(), in_basis(W, soft_threshold(weights)), max_num_iters=1000, tol=1e-6)
    data: Data = {"blurred": y.numpy(), "kernel": single(kernel), "weight": 5e-3}
    return data, x.numpy()


def tomography(n: int) -> tuple[Data, Array]:
    """60 views of n x n pixels, 3n/2 rays each: least squares, a weight on the squared image."""
    angles = torch.arange(60, dtype=torch.float64) * (math.pi / 60)
    A = ParallelBeam(angles, 3 * n // 2, n, batch_shape=())
    y = noisy(A(phantoms.shepp_logan([n, n], torch.float64)))
    weight = 20.0
    expected = solved(A, y.double(), weight)
    data: Data = {"sinogram": y.numpy(), "angles": single(angles), "weight": weight}
    return data, expected


def calibration(n: int) -> tuple[Data, Array]:
    """Maps of 8 coils by ESPIRiT from 24 x 24 points, then least squares from a quarter of k-space.

    One set of maps, zero where the eigenvalue is below 0.8; the magnitudes of images are compared.
    """
    mask = masks.variable_density([n, n], acceleration=4, calibration=24)
    A, _, kspace = scan((n, n), mask)
    exact = kspace.to(torch.complex128)
    maps = espirit(exact, "C", ("Kx", "Ky"))
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    F = A.linops[1]
    expected = solved(A.linops[-1] @ F @ S, A.linops[-1](exact), 1e-2)
    return {"kspace": kspace.numpy(), "mask": mask.numpy(), "weight": 1e-2}, expected


PROBLEMS = [
    Problem("sense_cartesian", "SENSE, Cartesian", 256, 32, 1e-3, sense_cartesian),
    Problem("sense_volume", "SENSE, a volume", 128, 32, 1e-3, sense_volume),
    Problem("sense_radial", "SENSE, radial", 256, 32, 1e-2, sense_radial),
    Problem("radial_frames", "SENSE, radial, 12 frames", 128, 32, 1e-2, radial_frames),
    Problem("wavelet", "L1-wavelet compressed sensing", 256, 32, 1e-2, wavelet),
    Problem("total_variation", "TV-regularised MRI", 192, 32, 1e-2, total_variation),
    Problem("modl", "MoDL, a training step", 192, 32, 1e-2, modl),
    Problem("deblurring", "Deblurring", 512, 64, 1e-2, deblurring),
    Problem("tomography", "Sparse-view CT", 256, 32, 1e-2, tomography),
    Problem("calibration", "ESPIRiT and SENSE", 192, 64, 1e-2, calibration, is_magnitude=True),
]
BY_NAME = {problem.name: problem for problem in PROBLEMS}
