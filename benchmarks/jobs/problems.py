"""The jobs: data made of phantoms with noise, and solutions in double precision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from jobs.made import coil_maps, noisy, scan, single, solved
from jobs.network import gradient_of, initial_parameters, network
from jobs.problem import Array, Data, Problem
from jobs.problems_of_rays import cone_beam, short_scan, tomography
from jobs.problems_of_time import low_rank_plus_sparse, off_resonance, subspace
from linops_core import Convolution, Dense, Identity
from linops_imaging import NUFFT, Gradient, Wavelet, masks, phantoms, trajectories
from linops_imaging.coil_maps import espirit
from linops_solvers import admm, conjugate_gradients, fista, in_basis, soft_threshold


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
    kspace, result = [], []
    for frame, at in enumerate(locs):
        A = NUFFT(at.double(), (n, n), ("S", "K"), batch_shape=("C",), tol=1e-9, toeplitz=True) @ S
        kspace.append(noisy(A(head * (1 - frame / (2 * n_frames)))))
        result.append(solved(A, kspace[-1].to(torch.complex128), weight))
    data = {"kspace": torch.stack(kspace).numpy(), "maps": maps.numpy(), "locs": locs.numpy()}
    return {**data, "weight": weight}, np.stack(result)


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


def richardson_lucy(n: int) -> tuple[Data, Array]:
    """Counts of a head of n/2 x n x n voxels, blurred by a Gaussian of 7 x 11 x 11.

    Steps of Richardson and Lucy, until the error against the head is small enough. The border is
    dark, so that it does not matter what is beyond it.
    """
    size = (n // 2, n, n)
    axes = [torch.linspace(-2, 2, taps, dtype=torch.float64).square() for taps in (7, 11, 11)]
    psf = torch.exp(-(axes[0][:, None, None] + axes[1][:, None] + axes[2]))
    psf /= psf.sum()
    inner = [length - length // 4 - 2 for length in size]
    head = torch.zeros(size, dtype=torch.float64)
    middle = [slice((a - b) // 2, (a - b) // 2 + b) for a, b in zip(size, inner, strict=True)]
    head[tuple(middle)] = 100 * phantoms.shepp_logan(inner, torch.float64)
    generator = torch.Generator().manual_seed(0)
    counts = torch.poisson(Convolution(psf)(head).clamp(min=0), generator=generator)
    return {"counts": single(counts), "psf": single(psf)}, head.numpy()


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
    Problem("subspace", "SENSE, radial, in a subspace", 128, 32, 1e-2, subspace),
    Problem("off_resonance", "SENSE, spirals, off-resonance", 128, 32, 1e-2, off_resonance),
    Problem("wavelet", "L1-wavelet compressed sensing", 256, 32, 1e-2, wavelet),
    Problem("total_variation", "TV-regularised MRI", 192, 32, 1e-2, total_variation),
    Problem("low_rank_plus_sparse", "Low rank plus sparse", 96, 32, 2e-2, low_rank_plus_sparse),
    Problem("modl", "MoDL, a training step", 192, 32, 1e-2, modl),
    Problem("deblurring", "Deblurring", 512, 64, 1e-2, deblurring),
    Problem("richardson_lucy", "Richardson-Lucy in 3-D", 96, 32, 0.52, richardson_lucy),
    Problem("tomography", "Sparse-view CT", 256, 32, 1e-2, tomography),
    Problem("short_scan", "Fan-beam CT, a short scan", 256, 64, 0.2, short_scan),
    Problem("cone_beam", "Cone-beam CT", 96, 16, 5e-2, cone_beam),
    Problem("calibration", "ESPIRiT and SENSE", 192, 64, 1e-2, calibration, is_magnitude=True),
]
BY_NAME = {problem.name: problem for problem in PROBLEMS}
