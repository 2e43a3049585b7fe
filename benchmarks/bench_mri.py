"""Stacks of stars and the normal operator of a subspace, against transforms by hand.

Ratios are of processor time. Results are compared first, up to a factor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch
from interleaved import interleaved, print_timings
from torch import Tensor

from linops_core import FFT, Dense
from linops_imaging import NUFFT, trajectories

ROUNDS, TOL = 5, 1e-3

Jobs = Mapping[str, Callable[[], Tensor]]


def report(title: str, jobs: Jobs, error: float) -> None:
    """Time all jobs after checking that their results are equal up to a factor."""
    first, *others = (job().flatten() for job in jobs.values())
    for other in others:
        factor = torch.vdot(other, first) / torch.vdot(other, other)
        result = float((factor * other - first).norm() / first.norm())
        assert result < error, result
    print_timings(f"{title}, processor time", interleaved(jobs, ROUNDS, clock=time.process_time))


def stack_of_stars() -> None:
    """A stack of 24 stars of 64 spokes."""
    size, planes, spokes, readout = 128, 24, 64, 256
    star = trajectories.radial_2d(spokes, readout, size)
    kz = torch.arange(planes) - planes // 2.0
    names = ("Nz", "Nx", "Ny")
    inside = NUFFT(star, (size, size), dims=names[1:], shape=names, to=("S", "R"), tol=TOL)
    A = FFT(dims=("Nz",), to=("Kz",), centered=True) @ inside
    lengths = (planes, spokes, readout)
    along = kz[:, None, None, None].expand(*lengths, 1)
    whole = NUFFT(
        torch.cat([along, star.expand(*lengths, 2)], -1), (planes, size, size), ("Kz", "S", "R")
    )
    x = torch.randn(planes, size, size, dtype=torch.complex64)
    jobs = {"stack": lambda: A(x), "three dimensions": lambda: whole(x)}
    report(f"stack of {planes} stars, {planes} x {size} x {size}", jobs, 1e-3)


def subspace() -> None:
    """The normal operator of 100 frames in a subspace of four dimensions, with four coils."""
    size, frames, spokes, rank, coils = 192, 100, 5, 4, 4
    locs = trajectories.radial_2d(frames * spokes, 2 * size, size).unflatten(0, (frames, spokes))
    basis = torch.linalg.qr(torch.randn(frames, rank)).Q.contiguous()
    names = ("C", "T", "Nx", "Ny")
    F = NUFFT(locs, (size, size), ("T", "S", "R"), batch_shape=names[:2], tol=TOL, toeplitz=True)
    A = F @ Dense(basis, ("T", "A"), ("C", "A", "Nx", "Ny"), names)
    normal, x = A.N, torch.randn(coils, rank, size, size, dtype=torch.complex64)
    # The kernels by hand: the convolution of an impulse of each coefficient.
    larger = [2 * size] * 2
    weights = torch.einsum("ta,tb->abt", basis, basis)[..., None, None].expand(
        rank, rank, frames, spokes, 2 * size
    )
    first = NUFFT(locs, larger, ("T", "S", "R"), batch_shape=("A", "B"), tol=1e-5)
    shifted = locs * 2  # differences of pixels are up to the size of the image
    assert float(shifted.abs().max()) <= size * (1 + 1e-4)
    twice = first.with_weights(lambda own: shifted)
    spread = twice.H(weights.to(torch.complex64)) * (2 / size)
    kernels = torch.fft.fftn(torch.fft.ifftshift(spread, (-2, -1)), dim=(-2, -1))

    def by_hand() -> Tensor:
        spectra = torch.fft.fftn(x, larger, (-2, -1))
        mixed = torch.einsum("abxy,cbxy->caxy", kernels, spectra)
        result: Tensor = torch.fft.ifftn(mixed, dim=(-2, -1))
        return result[..., :size, :size]

    jobs = {
        "subspace": lambda: normal(x),
        "by hand": by_hand,
        "all frames": lambda: A.H(A(x)),
    }
    report(f"normal of a subspace, {coils} coils, {frames} frames, {size} x {size}", jobs, 5e-3)


def main() -> None:
    """Run all."""
    torch.manual_seed(0)
    stack_of_stars()
    subspace()


if __name__ == "__main__":
    main()
