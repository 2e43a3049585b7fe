"""The jobs of MRI in which something changes while it is measured."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from jobs.made import coil_maps, noisy, solved
from jobs.problem import Array, Data
from linops_core import FFT, Dense, Diagonal, SumReduce
from linops_imaging import NUFFT, masks, phantoms, trajectories
from linops_imaging.mri import TimeSegments
from linops_solvers import ProximalMap, fista, in_basis, nuclear_norm, soft_threshold


def off_resonance(n: int) -> tuple[Data, Array]:
    """Least squares with 8 coils, 4 spirals of 20 ms and a field of -80 to 130 Hz, and a weight.

    The phase of each pixel grows by its frequency. Each library has the fewest time segments with
    which it reaches the error.
    """
    n_shots, n_readout = 4, 32 * n
    locs = trajectories.spiral_2d(n_shots, n_readout, n)
    times = torch.arange(n_readout) * (0.02 / n_readout)
    at = (torch.arange(n) - n // 2) / n
    bump = torch.exp(-(at[:, None].square() + (at - 0.3).square()) / 0.02)
    field = 130 * bump - 60 * at[:, None] - 20
    maps, dims = coil_maps((n, n)), ("C", "Nx", "Ny")
    S = Dense(maps.to(torch.complex128), dims, dims[1:], dims)
    F = NUFFT(locs.double(), (n, n), ("S", "R"), batch_shape=("C",), tol=1e-9)
    A = TimeSegments(F, field.double(), times.double(), tol=1e-6) @ S
    y = noisy(A(phantoms.shepp_logan([n, n], torch.float64).to(torch.complex128)))
    weight = 0.5
    expected = solved(A, y.to(torch.complex128), weight, steps=150)
    data = {"kspace": y.numpy(), "maps": maps.numpy(), "locs": locs.numpy()}
    return {**data, "field": field.numpy(), "times": times.numpy(), "weight": weight}, expected


def subspace(n: int) -> tuple[Data, Array]:
    """Four coefficients of 60 frames with 8 coils and n/16 golden-angle spokes each, and a weight.

    The signals are decays, and the basis has their first four singular vectors. Least squares with
    a weight on the squared coefficients.
    """
    n_frames, n_spokes, rank = 60, n // 16, 4
    angles = trajectories.golden_angles(n_frames * n_spokes)
    locs = trajectories.radial_2d(n_frames * n_spokes, 2 * n, n, angles).clamp(-n / 2, n / 2)
    locs = locs.reshape(n_frames, n_spokes, 2 * n, 2)
    at = torch.arange(n_frames, dtype=torch.float64)
    rates = torch.logspace(-2.5, -0.5, 100, dtype=torch.float64)
    signals = torch.exp(-at[:, None] * rates)
    basis = torch.linalg.svd(signals, full_matrices=False).U[:, :rank].contiguous()
    head = phantoms.shepp_logan([n, n], torch.float64)
    own = signals[:, (99 * head).long().clamp(0, 99)] * head  # (T, Nx, Ny)
    maps, dims = coil_maps((n, n)), ("T", "C", "Nx", "Ny")
    S = Dense(maps.to(torch.complex128), dims[1:], ("T", *dims[2:]), dims)
    F = NUFFT(locs.double(), (n, n), ("T", "S", "K"), batch_shape=dims[:2], tol=1e-9, toeplitz=True)
    B = Dense(basis.to(torch.complex128), ("T", "A"), ("A", *dims[2:]), ("T", *dims[2:]))
    y = noisy(F(S(own.to(torch.complex128))))
    weight = 0.5
    expected = solved(F @ S @ B, y.to(torch.complex128), weight, steps=150)
    data = {"kspace": y.numpy(), "maps": maps.numpy(), "locs": locs.numpy()}
    return {**data, "basis": basis.float().numpy(), "weight": weight}, expected


def low_rank_plus_sparse(n: int) -> tuple[Data, Array]:
    """24 frames with 8 coils and an eighth of k-space: a series that is low rank plus sparse.

    The nuclear norm of one part, and the 1-norm of the Fourier transform of the other part along
    time. The sum of both parts is compared. The weights are given, and also relative to the largest
    singular value and to the largest pixel of A^H y.
    """
    n_frames, grid = 24, ("Nx", "Ny")
    drawn = {"acceleration": 8, "calibration": n // 10}
    mask = torch.stack([masks.variable_density([n, n], **drawn, seed=t) for t in range(n_frames)])
    head = phantoms.shepp_logan([n, n], torch.float64)
    at = torch.arange(n_frames, dtype=torch.float64)
    places = (torch.arange(n, dtype=torch.float64) - n // 2) / n
    disc = ((places[:, None] - 0.1).square() + places.square() < 0.01).double()
    contrast = 1 - torch.exp(-(at - 8).clamp(min=0) / 4)
    beat = 0.3 * torch.sin(2 * math.pi * at / 6)
    series = head + (0.5 * contrast + beat)[:, None, None] * disc * (head > 0)
    maps, dims = coil_maps((n, n)), ("C", "T", *grid)
    S = Dense(maps.to(torch.complex128), ("C", *grid), dims[1:], dims)
    F = FFT(2, batch_shape=dims[:2], centered=True)
    M = Diagonal.from_weight(mask.to(torch.complex128), ("T", "Kx", "Ky"), F.oshape)
    y = noisy(F(S(series.to(torch.complex128)))) * mask
    A = M @ F @ S
    shares = 0.01, 0.02
    seen = A.H(y.to(torch.complex128))
    low_rank = shares[0] * float(torch.linalg.matrix_norm(seen.flatten(1), 2))
    sparse = shares[1] * float(seen.abs().max())
    background = nuclear_norm(low_rank)
    changes = in_basis(FFT(dims=("T",), shape=("T", *grid)), soft_threshold(sparse))

    def shrunk(z: Tensor, step: float) -> Tensor:
        first = background(z[0].flatten(1), step).unflatten(1, (n, n))
        return torch.stack([first, changes(z[1], step)])

    both = A @ SumReduce(("Part", "T", *grid), ("T", *grid), sizes={"Part": 2})
    proximal = ProximalMap(shrunk, None)
    x = fista(both, y.to(torch.complex128), proximal, max_num_iters=600, tol=1e-6)
    data: dict[str, Array | float] = {"kspace": y.numpy(), "maps": maps.numpy()}
    data |= {"mask": mask.numpy(), "low_rank": low_rank, "sparse": sparse}
    return {**data, "low_rank_share": shares[0], "sparse_share": shares[1]}, x.sum(0).numpy()
