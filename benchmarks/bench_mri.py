"""Off-resonance, stacks of stars and subspaces, against mri-nufft and transforms by hand.

Ratios are of processor time. Results are compared first, up to a factor.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
from interleaved import interleaved, print_timings
from peers import importable
from torch import Tensor

from linops_core import FFT, Dense
from linops_imaging import NUFFT, trajectories
from linops_imaging.mri import TimeSegments

ROUNDS, TOL = 5, 1e-3

Jobs = Mapping[str, Callable[[], Tensor]]


def report(title: str, jobs: Jobs, error: float) -> None:
    """Time all jobs after checking that their results are equal up to a factor."""
    first, *others = (job().flatten() for job in jobs.values())
    for other in others:
        factor = torch.vdot(other, first) / torch.vdot(other, other)
        found = float((factor * other - first).norm() / first.norm())
        assert found < error, found
    print_timings(f"{title}, processor time", interleaved(jobs, ROUNDS, clock=time.process_time))


def off_resonance(n_coils: int) -> None:
    """Eight segments of spirals of 20 ms, and a field of up to 130 Hz."""
    size, shots, readout, n_segments = 192, 16, 4000, 8
    locs = trajectories.spiral_2d(shots, readout, size)
    times = torch.linspace(0.001, 0.021, readout)
    at = (torch.arange(size) - size // 2) / size
    bump = torch.exp(-(at[:, None].square() + (at - 0.3).square()) / 0.02)
    field = 130 * bump - 60 * at[:, None] - 20
    x = torch.randn(n_coils, size, size, dtype=torch.complex64)
    F = NUFFT(locs, (size, size), ("S", "R"), batch_shape=("C",), tol=TOL)
    A = TimeSegments(F, field, times, n_segments)
    jobs: dict[str, Callable[[], Tensor]] = {"TimeSegments": lambda: A(x)}
    peers = importable(["mrinufft"])
    if peers:
        unit = (2 * math.pi / size * locs).reshape(-1, 2).numpy()
        plain = peers["mrinufft"].get_operator("finufft")(
            unit, x.shape[1:], n_coils=n_coils, eps=TOL
        )
        theirs = plain.with_off_resonance_correction(
            b0_map=field.numpy(),
            readout_time=times.numpy(),
            mask=np.ones(x.shape[1:], bool),
            interpolator={"name": "mti", "L": n_segments},
        )
        image = x.numpy() if n_coils > 1 else x[0].numpy()
        jobs["mri-nufft"] = lambda: torch.from_numpy(theirs.op(image))
    report(f"off-resonance, {n_coils} coils, {n_segments} segments, {size} x {size}", jobs, 1e-2)


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
    twice = NUFFT(locs, larger, ("T", "S", "R"), batch_shape=("A", "B"), tol=1e-5)
    shifted = locs * 2  # differences of pixels are up to the size of the image
    assert float(shifted.abs().max()) <= size * (1 + 1e-4)
    twice = twice.with_weights(lambda own: shifted)
    spread = twice.H(weights.to(torch.complex64)) * (2 / size)
    kernels = torch.fft.fftn(torch.fft.ifftshift(spread, (-2, -1)), dim=(-2, -1))

    def by_hand() -> Tensor:
        spectra = torch.fft.fftn(x, larger, (-2, -1))
        mixed = torch.einsum("abxy,cbxy->caxy", kernels, spectra)
        return torch.fft.ifftn(mixed, dim=(-2, -1))[..., :size, :size]

    jobs = {
        "subspace": lambda: normal(x),
        "by hand": by_hand,
        "all frames": lambda: A.H(A(x)),
    }
    report(f"normal of a subspace, {coils} coils, {frames} frames, {size} x {size}", jobs, 5e-3)


def main() -> None:
    """Run all."""
    torch.manual_seed(0)
    for n_coils in (1, 4):
        off_resonance(n_coils)
    stack_of_stars()
    subspace()


if __name__ == "__main__":
    main()
