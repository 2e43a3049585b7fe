"""What the data of several jobs are made of."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from jobs.problem import Array
from linops_core import FFT, Chain, Dense, Identity, NamedLinop, Sampling
from linops_imaging import phantoms
from linops_solvers import conjugate_gradients

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
