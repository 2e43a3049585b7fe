"""The non-uniform Fourier transform against other libraries: equal results, ratios of times.

It also measures the errors of the oversamplings and widths that ``tol=`` chooses. Each row has a
time limit, all together 15 minutes.
"""

from __future__ import annotations

import importlib
import math
import signal
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch
from bench_linops_split import allocated
from interleaved import interleaved, print_timings
from nufft_peers import (
    EPS,
    finufft_plans,
    processor_seconds,
    resident,
    toeplitz_of_peers,
    with_peers,
)
from peers import importable
from results import record
from torch import Tensor

from linops_imaging import NUFFT, toeplitz_kernel, trajectories
from linops_imaging._non_uniform._finufft_plan import ACCURACY as PLANS
from linops_imaging._non_uniform._finufft_plan import PlanPair, PlanPrecision
from linops_imaging._non_uniform._kaiser_bessel import fastest_gridding

N, N_COILS = 256, 8
BEGAN, SECONDS = perf_counter(), 900
Ways = dict[str, Callable[[], Tensor]]


def main() -> None:
    """Check that all ways agree, and time them in turns."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with torch.no_grad():
        with within(45, "accuracy"):
            accuracy()
        with_finufft = "finufft" in importable(("finufft",))
        if with_finufft:
            with within(30, "accuracy of plans"):
                accuracy_of_plans()
            methods()
            for n_threads in (1, 2):
                coils(n_threads)
            with within(40, "memory"):
                memory()
        with within(200, "radial, 2-D"):
            radial_2d()
        with within(120, "radial, 3-D"):
            radial_3d()
        with within(30, "frames"):
            frames()


@contextmanager
def within(seconds: int, what: str) -> Iterator[None]:
    """End some work after so many seconds, or when all the time is used up, and say so."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    left = SECONDS - (perf_counter() - BEGAN)
    signal.alarm(max(1, min(seconds, int(left))))
    try:
        yield
    except TimeoutError:
        print(f"  {what}: left out what {seconds} s, or the {SECONDS} s of all, are too short for")
    finally:
        signal.alarm(0)


def accuracy() -> None:
    """Check the largest error of an entry of the table in one dimension, double precision."""
    print("\nlargest error of an entry by a table, as a part of tol")
    for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10):
        parts = []
        for size in (8, 15, 16, 24, 64, 96, 128, 255, 256):
            padded = fastest_gridding(tol, (size,)).padded[0]
            # Where the kernel ends at points of the finer grid, errors may be largest.
            halves = torch.arange(2 * padded, dtype=torch.float64) - padded
            ends = (halves / 2 - 1e-9 * halves.sign()) * size / padded
            locs = torch.cat([points(500, size, 1), ends[:, None]])
            A = NUFFT(locs, (size,), ("K",), batch_shape=(), tol=tol, method="table")
            exact = torch.exp(-2j * math.pi / size * locs * (torch.arange(size) - size // 2))
            parts.append(float((A.to_dense() * math.sqrt(size) - exact).abs().max()) / tol)
        print(f"  tol {tol:.0e}: {min(parts):.2f} to {max(parts):.2f}")
        assert 0.15 <= min(parts) and max(parts) <= 1


def accuracy_of_plans() -> None:
    """Check each row of the table of finufft: the largest error of an entry in one dimension."""
    print("\nlargest error of an entry by plans of finufft, and the one that tol= counts on")
    for upsampling, width, stated in PLANS:
        way, worst = PlanPrecision(torch.complex128, upsampling, width), 0.0
        for size in (1, 3, 5, 8, 9, 16, 33, 64, 96, 255, 257, 512):
            locs = (torch.rand(200, 1, dtype=torch.float64) - 0.5) * size
            images = torch.eye(size, dtype=torch.complex128)
            result = images.new_empty(size, 200)
            PlanPair(locs, (size,), 1, way).apply(images, result, is_back=False)
            exact = torch.exp(-2j * math.pi / size * locs * (torch.arange(size) - size // 2))
            worst = max(worst, float((result.mT - exact).abs().max()))
        print(f"  upsampling {upsampling:4}, width {width:2}: {worst:.1e}  {stated:.1e}")
        assert worst <= stated


def methods() -> None:
    """Compare ``method="auto"`` with finufft at its best setting, in processor time of one thread.

    finufft has the upsampling of 1.25 for both directions, and the largest eps for which its error
    is at most ours.
    """
    spokes = trajectories.radial_2d(N, N, N).reshape(-1, 2)
    ball = torch.randn(100_000, 3, dtype=torch.float64)
    ball *= 48 * torch.rand(100_000, 1) / ball.norm(dim=1, keepdim=True)
    single, double = torch.complex64, torch.complex128
    for what, locs, n, n_coils, tol, dtype in (
        ("3-D, 300,000 points", points(300_000, 96, 3), 96, 1, 1e-2, single),
        ("3-D, 100,000 points in a ball", ball, 96, 4, 1e-2, single),
        ("3-D, 1,000,000 points", points(1_000_000, 128, 3), 128, 1, 2.5e-3, single),
        ("2-D, 65,536 radial points", spokes, N, 1, 1e-2, single),
        ("2-D, 65,536 radial points", spokes, N, 8, 1e-2, single),
        ("2-D, 100,000 points, double", points(100_000, N, 2), N, 1, 1e-6, double),
        ("2-D, 100,000 points, double", points(100_000, N, 2), N, 8, 1e-6, double),
    ):
        with within(50, what):
            against_finufft(what, locs.to(dtype.to_real()), n, n_coils, tol, dtype)


def coils(n_threads: int) -> None:
    """Time there and back by a table and by finufft: what ``method="auto"`` goes by.

    One thread in processor time, several in wall time.
    """
    torch.set_num_threads(n_threads)
    clock = process_time if n_threads == 1 else perf_counter
    spokes = trajectories.radial_2d(N, N, N).reshape(-1, 2)
    for locs, n_coils, tol in (
        (spokes, 8, 1e-2),
        (spokes, 8, 1e-3),
        (spokes, 8, 1e-4),
        (spokes, 1, 1e-3),
        (spokes[::32], 8, 1e-3),
        (points(2**18, N, 2), 8, 1e-3),
    ):
        x, batch = torch.randn(n_coils, N, N, dtype=torch.complex64), ("C",)
        ways: Ways = {}
        for method in ("finufft", "table"):
            A = NUFFT(locs, (N, N), ("K",), batch_shape=batch, tol=tol, method=method)
            ways[method] = partial(once, A, x)
        title = f"NUFFT: {n_coils} x {N}^2, {len(locs)} points, {tol=}, {n_threads} threads"
        with within(20, title):
            print_timings(title, interleaved(ways, 5, clock=clock))
    torch.set_num_threads(1)


def points(n_points: int, size: int, n_axes: int) -> Tensor:
    return (torch.rand(n_points, n_axes, dtype=torch.float64) - 0.5) * size


def against_finufft(
    what: str, locs: Tensor, n: int, n_coils: int, tol: float, dtype: torch.dtype
) -> None:
    sizes = (n,) * locs.shape[-1]
    batch = ("C",) if n_coils > 1 else ()
    x = torch.randn(*[n_coils] * len(batch), *sizes, dtype=dtype)

    def ours() -> NUFFT:
        return NUFFT(locs, sizes, ("K",), batch_shape=batch, tol=tol)

    def theirs(eps: float) -> tuple[Any, Any]:
        return finufft_plans(sizes, locs, n_coils, eps, dtype)

    def error(y: Tensor) -> float:
        return float((y - exact).norm() / exact.norm())

    def both(there: Any, back: Any) -> None:
        back.execute(there.execute(x.numpy()))

    A = ours()
    y = A(x)
    E = NUFFT(locs.double(), sizes, ("K",), batch_shape=batch, tol=1e-3 * tol, method="finufft")
    exact = E(x.to(torch.complex128))

    def error_of(eps: float) -> float:
        result = torch.from_numpy(theirs(eps)[0].execute(x.numpy()))
        return error(result * math.prod(sizes) ** -0.5)

    first = bisect_left(EPS, True, key=lambda eps: error_of(eps) <= 1.05 * error(y))
    eps = EPS[min(first, len(EPS) - 1)]
    (there, back), of_theirs = theirs(eps), error_of(eps)
    title = f"NUFFT: {what}, {n_coils} x {n}^{len(sizes)}"
    print(f"\n{title}: {A.method}, error {error(y):.1e}; finufft {of_theirs:.1e}")
    of_coils = {"NUFFT": 0.65} if A.method == "table" else {"NUFFT": 1.15}
    for name, pair, target in (
        ("", (lambda: there.execute(x.numpy()), lambda: A(x)), of_coils),
        (", adjoint", (lambda: back.execute(y.numpy()), lambda: A.H(y)), of_coils),
        (", once", (lambda: both(*theirs(eps)), lambda: once(ours(), x)), {"NUFFT": 1.5}),
    ):
        ways = dict(zip(("finufft, its best setting", "NUFFT"), pair, strict=True))
        print_timings(f"{title}{name}", interleaved(ways, 3, clock=process_time), target)


def once(A: NUFFT, x: Tensor) -> Tensor:
    """Return the result of a first call of each direction."""
    back: Tensor = A.H(A(x))
    return back


def memory() -> None:
    """Compare what both directions of a 3-D transform need beside locations, image and samples."""
    result = {}
    for name in ("finufft", "NUFFT"):
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            result[name] = process.submit(peak_of, name).result()
        print(f"  {name}: {result[name] / 2**20:.0f} MiB beside locations, image and samples")
    ratio = result["NUFFT"] / result["finufft"]
    title = "NUFFT: memory of 300,000 points in 96^3 beside locations, image and samples"
    record(title, "NUFFT", ratio, "x", against="finufft", target=1.3)


def peak_of(name: str) -> int:
    """Return the growth of the largest resident memory of this process, in bytes."""
    torch.set_num_threads(1)
    sizes, locs = (96,) * 3, points(300_000, 96, 3).float()
    x, y = (torch.ones(shape, dtype=torch.complex64) for shape in (sizes, 300_000))
    angles = [(2 * math.pi / 96 * at).contiguous().numpy() for at in locs.unbind(-1)]
    once(NUFFT(locs[:9] / 24, (4, 4, 4), ("K",), tol=1e-2), x[:4, :4, :4])  # loads the libraries
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    if name == "NUFFT":
        A = NUFFT(locs, sizes, ("K",), tol=1e-2)
        A.H(A(x))
        return resident("VmHWM") - before - x.nbytes - y.nbytes
    plan = importlib.import_module("finufft").Plan(
        2, sizes, 1, 1e-3, -1, dtype="complex64", upsampfac=1.25, nthreads=1
    )
    plan.setpts(*angles)
    plan.execute(x.numpy(), out=y.numpy())
    plan.execute_adjoint(y.numpy(), out=x.numpy())
    return resident("VmHWM") - before


def radial_2d() -> None:
    """102,912 points of golden-angle spokes on 256 x 256, 8 coils, single precision."""
    locs = trajectories.radial_2d(402, N, N).reshape(-1, 2)
    x = torch.randn(N_COILS, N, N, dtype=torch.complex64)
    began = processor_seconds()
    A, T = (
        NUFFT(locs, (N, N), ("K",), batch_shape=("C",), tol=2.5e-3, toeplitz=toeplitz)
        for toeplitz in (False, True)
    )
    y = A(x)
    A.H(y)
    set_up = processor_seconds() - began
    forward, adjoint, errors = with_peers(A, locs, x, y)
    title = f"NUFFT, radial, {len(locs)} points, {N_COILS} x {N} x {N} complex64"
    assert errors["NUFFT"] <= 2.5e-3, errors
    targets = {"NUFFT": 0.6}
    timings, of_adjoint = (
        interleaved(ways, rounds=5, clock=processor_seconds) for ways in (forward, adjoint)
    )
    for name, both in ((title, timings), (f"{title}, adjoint", of_adjoint)):
        print_timings(name, both, targets)
        if "sigpy" in both:
            ratio = both["NUFFT"].seconds / both["sigpy"].seconds
            print(f"  NUFFT took {ratio:.3f} of the time of sigpy")
            record(name, "NUFFT against sigpy", ratio, "x", target=0.15)
    applications = set_up / timings["NUFFT"].seconds
    print(f"  the set-up, with one application of each, takes {applications:.1f} applications")
    record(title, "set-up in applications", applications, "x", target=10)

    kernel = toeplitz_kernel(T)

    def by_hand() -> Tensor:
        parts = []
        for coil in x:
            spectrum = torch.fft.fft2(coil, s=kernel.shape) * kernel
            parts.append(torch.fft.ifft2(spectrum)[:N, :N])
        return torch.stack(parts)

    normal: Ways = {"plain torch, coil by coil": by_hand, "A.N(x)": lambda: T.N(x)}
    normal |= toeplitz_of_peers(locs, x)
    expected = by_hand()
    for name, way in normal.items():
        result = way()
        scale = (
            torch.vdot(result.flatten(), expected.flatten()) / result.norm() ** 2
        )  # theirs differ
        error = (scale * result - expected).norm() / expected.norm()
        assert error < 1e-2, (name, error)
    print_timings(
        f"Toeplitz normal, {N_COILS} x {N} x {N} complex64",
        interleaved(normal, rounds=5),
        {"A.N(x)": 1.1},
    )


def radial_3d() -> None:
    """200,000 points of spokes on 128 x 128 x 128, 2 coils, single precision."""
    locs = trajectories.radial_3d(1563, 128, 128).reshape(-1, 3)[:200_000]
    x = torch.randn(2, 128, 128, 128, dtype=torch.complex64)
    A, B = (
        NUFFT(locs, (128, 128, 128), ("K",), tol=5e-3, method=method, table_budget=2**30)
        for method in ("auto", "table")
    )
    y = A(x)
    # The others take minutes to find a setting.
    forward, adjoint, _ = with_peers(A, locs, x, y, only=("finufft", "mrinufft", "BART"))
    forward["the same with a table"] = lambda: B(x)
    print(f"  the table has {B.interpolate.table_nbytes / 2**20:.0f} MiB")
    title = f"NUFFT, radial, {len(locs)} points, 2 x 128 x 128 x 128 complex64"
    for name, ways in ((title, forward), (f"{title}, adjoint", adjoint)):
        timings = interleaved(ways, rounds=3, clock=processor_seconds)
        print_timings(name, timings, {"NUFFT": 1.15})


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
        expected, result = (work() for work in pair.values())
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
        print_timings(title, interleaved(pair), {"NUFFT": 1.1})
        for name, work in pair.items():
            extra = (allocated(work) - expected.nbytes) / 2**20
            record(f"{title}: workspace beside the result", name, extra, "MiB")
            print(f"  {name:44} {extra:10.2f} MiB of workspace beside the result")


if __name__ == "__main__":
    main()
