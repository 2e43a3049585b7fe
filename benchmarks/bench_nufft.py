"""The non-uniform Fourier transform against other libraries: equal results, ratios of times.

It also measures the errors of the oversamplings and widths that ``tol=`` chooses.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from bench_linops_split import allocated
from interleaved import interleaved, print_timings
from peers import importable
from results import record
from torch import Tensor

from linops_imaging import NUFFT, toeplitz_kernel, trajectories

N, N_COILS = 256, 8
Ways = dict[str, Callable[[], Tensor]]


def main() -> None:
    """Check that all ways agree, and time them in turns."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with torch.no_grad():
        accuracy()
        radial_2d()
        radial_3d()
        frames()


def accuracy() -> None:
    """Check the largest error of an entry in one dimension, double precision."""
    print("\nlargest error of an entry, as a part of tol")
    for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10):
        parts = []
        for size in (8, 15, 16, 24, 64, 96, 128, 255, 256):
            unit = torch.cat(
                [torch.rand(500, 1, dtype=torch.float64), torch.arange(33.0)[:, None] / 32]
            )
            locs = (unit - 0.5) * size
            A = NUFFT(locs, (size,), ("K",), batch_shape=(), tol=tol)
            exact = torch.exp(-2j * math.pi / size * locs * (torch.arange(size) - size // 2))
            parts.append(float((A.to_dense() * math.sqrt(size) - exact).abs().max()) / tol)
        print(f"  tol {tol:.0e}: {min(parts):.2f} to {max(parts):.2f}")
        assert 0.2 <= min(parts) and max(parts) <= 1


def radial_2d() -> None:
    """102,912 points of golden-angle spokes on 256 x 256, 8 coils, single precision."""
    locs = trajectories.radial_2d(402, N, N).reshape(-1, 2)
    x = torch.randn(N_COILS, N, N, dtype=torch.complex64)
    began = perf_counter()
    A = NUFFT(locs, (N, N), ("K",), tol=2.5e-3, toeplitz=True)
    y = A(x)
    A.H(y)
    set_up = perf_counter() - began
    exact = NUFFT(locs.double(), (N, N), ("K",), tol=1e-7, table_budget=0)(x)

    forward, adjoint = with_peers(A, locs, x, y, eps=3e-4)
    title = f"NUFFT, radial, {len(locs)} points, {N_COILS} x {N} x {N} complex64"
    errors = {name: float((way() - exact).norm() / exact.norm()) for name, way in forward.items()}
    for name, error in errors.items():
        print(f"  error of {name}: {error:.1e}")
        assert error < 1e-2
    assert errors["NUFFT"] <= min(1e-3, errors.get("finufft, planned", 1.0)), errors
    targets = {"NUFFT": 0.6}
    timings, of_adjoint = interleaved(forward, rounds=9), interleaved(adjoint, rounds=9)
    for name, both in ((title, timings), (f"{title}, adjoint", of_adjoint)):
        print_timings(name, both, targets)
        if "sigpy" in both:
            ratio = both["NUFFT"].seconds / both["sigpy"].seconds
            print(f"  NUFFT took {ratio:.3f} of the time of sigpy")
            record(name, "NUFFT against sigpy", ratio, "x", target=0.15)
    applications = set_up / timings["NUFFT"].seconds
    print(f"  the set-up, with one application of each, takes {applications:.1f} applications")
    record(title, "set-up in applications", applications, "x", target=10)

    kernel = toeplitz_kernel(A)

    def by_hand() -> Tensor:
        parts = []
        for coil in x:
            spectrum = torch.fft.fft2(coil, s=kernel.shape) * kernel
            parts.append(torch.fft.ifft2(spectrum)[:N, :N])
        return torch.stack(parts)

    normal: Ways = {"plain torch, coil by coil": by_hand, "A.N(x)": lambda: A.N(x)}
    normal |= toeplitz_of_peers(locs, x)
    expected = by_hand()
    for name, way in normal.items():
        found = way()
        scale = torch.vdot(found.flatten(), expected.flatten()) / found.norm() ** 2  # theirs differ
        error = (scale * found - expected).norm() / expected.norm()
        assert error < 1e-2, (name, error)
    print_timings(
        f"Toeplitz normal, {N_COILS} x {N} x {N} complex64",
        interleaved(normal, rounds=9),
        {"A.N(x)": 1.1},
    )


def radial_3d() -> None:
    """200,000 points of spokes on 128 x 128 x 128, 8 coils, single precision."""
    locs = trajectories.radial_3d(1563, 128, 128).reshape(-1, 3)[:200_000]
    x = torch.randn(N_COILS, 128, 128, 128, dtype=torch.complex64)
    A, B = (
        NUFFT(locs, (128, 128, 128), ("K",), tol=5e-3, table_budget=budget) for budget in (0, 2**30)
    )
    y = A(x)
    forward, _ = with_peers(A, locs, x, y, eps=1e-3, only=("finufft",))
    forward["the same with a table"] = lambda: B(x)
    print(f"  the table has {B.interpolate.table_nbytes / 2**20:.0f} MiB")
    for way in forward.values():
        assert float((way() - y).norm() / y.norm()) < 2e-3
    print_timings(
        f"NUFFT, radial, {len(locs)} points, {N_COILS} x 128 x 128 x 128 complex64",
        interleaved(forward, rounds=3),
        {"NUFFT": 1.0},
    )


def frames(n: int = 128, n_frames: int = 12, n_spokes: int = 32) -> None:
    """Frames of a radial scan, 8 coils: one operator, and a loop over operators of one frame."""
    angles = trajectories.golden_angles(n_frames * n_spokes)
    locs = trajectories.radial_2d(n_frames * n_spokes, 2 * n, n, angles).clamp(-n / 2, n / 2)
    locs = locs.reshape(n_frames, -1, 2)
    x = torch.randn(n_frames, N_COILS, n, n, dtype=torch.complex64)
    A = NUFFT(locs, (n, n), ("T", "K"), batch_shape=("T", "C"))
    each = [NUFFT(of_frame, (n, n), ("K",), batch_shape=("C",)) for of_frame in locs]
    y = A(x)
    ways: dict[str, Ways] = {
        "": {
            "a loop over frames": lambda: torch.stack([F(v) for F, v in zip(each, x, strict=True)]),
            "NUFFT": lambda: A(x),
        },
        ", adjoint": {
            "a loop over frames": lambda: torch.stack(
                [F.H(v) for F, v in zip(each, y, strict=True)]
            ),
            "NUFFT": lambda: A.H(y),
        },
    }
    for direction, pair in ways.items():
        title = f"NUFFT, {n_frames} frames of {n_spokes} spokes, {N_COILS} x {n} x {n}{direction}"
        expected, found = (work() for work in pair.values())
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        print_timings(title, interleaved(pair), {"NUFFT": 1.1})
        for name, work in pair.items():
            extra = (allocated(work) - expected.nbytes) / 2**20
            record(f"{title}: workspace beside the result", name, extra, "MiB")
            print(f"  {name:44} {extra:10.2f} MiB of workspace beside the result")


def with_peers(
    A: Any,
    locs: Tensor,
    x: Tensor,
    y: Tensor,
    eps: float,
    only: tuple[str, ...] = ("finufft", "sigpy", "torchkbnufft"),
) -> tuple[Ways, Ways]:
    """Return the ways there and back, those of finufft first if it is installed."""
    forward: Ways = {}
    adjoint: Ways = {}
    sizes = tuple(x.shape[1:])
    scale = math.prod(sizes) ** -0.5
    libraries = importable(only)
    if "finufft" in libraries:
        plans = []
        for kind, sign in ((2, -1), (1, 1)):
            plan = libraries["finufft"].Plan(
                kind, sizes, len(x), eps, sign, dtype="complex64", nthreads=1
            )
            angles = locs * (2 * math.pi / torch.tensor(sizes))
            plan.setpts(*(at.contiguous().numpy() for at in angles.unbind(-1)))
            plans.append(plan)
        there, back = plans
        forward["finufft, planned"] = lambda: torch.from_numpy(there.execute(x.numpy())) * scale
        adjoint["finufft, planned"] = lambda: torch.from_numpy(back.execute(y.numpy())) * scale
    forward["NUFFT"], adjoint["NUFFT"] = lambda: A(x), lambda: A.H(y)
    if "sigpy" in libraries:
        sigpy, coord = libraries["sigpy"], locs.numpy()
        forward["sigpy"] = lambda: torch.from_numpy(sigpy.nufft(x.numpy(), coord))
        adjoint["sigpy"] = lambda: torch.from_numpy(
            sigpy.nufft_adjoint(y.numpy(), coord, tuple(x.shape))
        )
    if "torchkbnufft" in libraries:
        kb, omega = libraries["torchkbnufft"], (locs * (2 * math.pi / N)).T.contiguous()
        kb_there = kb.KbNufft(im_size=sizes, numpoints=4)
        kb_back = kb.KbNufftAdjoint(im_size=sizes, numpoints=4)
        forward["torchkbnufft"] = lambda: (
            kb_there(x[None], omega, norm="ortho")[0] * (kb_there.grid_size.prod().sqrt() * scale)
        )
        adjoint["torchkbnufft"] = lambda: kb_back(y[None], omega)[0]
    return forward, adjoint


def toeplitz_of_peers(locs: Tensor, x: Tensor) -> Ways:
    """Return the normal as a convolution by those that have one."""
    ways: Ways = {}
    libraries = importable(("sigpy", "torchkbnufft"))
    if "sigpy" in libraries:
        linop = importlib.import_module("sigpy.linop")
        A = linop.NUFFT(tuple(x.shape), locs.numpy(), toeplitz=True)
        ways["sigpy"] = lambda: torch.from_numpy(A.N(x.numpy()))
    if "torchkbnufft" in libraries:
        kb, omega = libraries["torchkbnufft"], (locs * (2 * math.pi / N)).T.contiguous()
        kernel = kb.calc_toeplitz_kernel(omega, tuple(x.shape[1:]))
        toeplitz = kb.ToepNufft()
        ways["torchkbnufft"] = lambda: toeplitz(x[None], kernel)[0]
    return ways


if __name__ == "__main__":
    main()
