"""One GPU: SENSE beside code by hand, vectors that are sent, X-rays beside a CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from by_hand import sense_normal
from interleaved import interleaved, print_timings
from torch import Tensor

from linops_imaging import ParallelBeam
from torchlinops import (
    FFT,
    BatchSpec,
    Dense,
    NamedLinop,
    Sampling,
    create_batched_linop,
)
from torchlinops.alg import conjugate_gradients

GENERATOR = torch.Generator().manual_seed(0)
MIB = 2**20
GOLDEN = math.pi * (math.sqrt(5) - 1) / 2


def main() -> None:
    """Measure each, on a machine with a GPU."""
    if not torch.cuda.is_available():
        print("bench_gpu needs a GPU, found none: nothing was measured")
        return
    print(torch.cuda.get_device_name())
    x_rays(256, 180, "equally spaced", math.pi / 180)
    x_rays(256, 180, "golden", GOLDEN)
    x_rays(512, 720, "golden", GOLDEN)


def noise(*shape: int) -> Tensor:
    """Return complex noise on the CPU."""
    return torch.randn(shape, dtype=torch.complex64, generator=GENERATOR)


def scanner(maps: Tensor, mask: Tensor) -> NamedLinop:
    """Return the operator of a Cartesian scan."""
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    return Sampling.from_mask(mask) @ FFT(2, centered=True) @ S


def compare(title: str, ways: Mapping[str, Callable[[], Tensor]], number: int = 10) -> None:
    """Time the ways in turns, each until the GPU is done, and the memory that each adds."""
    wanted = next(iter(ways.values()))()  # methods of NUFFT agree to their tolerance
    for name, work in ways.items():
        actual = work().to(wanted.device)
        error = float((actual - wanted).norm() / wanted.norm())
        assert error < 1e-2, f"{name} differs by {error:.1e}"

    def until_done(work: Callable[[], Tensor]) -> None:
        for _ in range(number):
            work()
        if wanted.is_cuda:
            torch.cuda.synchronize()

    timed = {name: partial(until_done, work) for name, work in ways.items()}
    print_timings(f"{title} ({number} calls)", interleaved(timed, rounds=9))
    for name, work in ways.items() if wanted.is_cuda else ():
        torch.cuda.synchronize()
        start = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        result = work()
        added = torch.cuda.max_memory_allocated() - start
        print(f"  {name:44} {added / MIB:10.1f} MiB on the GPU, the result included")
        del result


def sense(shape: tuple[int, int, int]) -> None:
    """The normal operator: called, replayed from a captured graph, and in tiles."""
    maps, image = noise(*shape).cuda(), noise(*shape[1:]).cuda()
    mask = (torch.rand(shape[1:], generator=GENERATOR) < 0.25).cuda()
    A = scanner(maps, mask)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        A.N(image)  # what is computed once is there before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = A.N(image)

    def replayed() -> Tensor:
        graph.replay()
        return captured

    tiles = create_batched_linop(A, BatchSpec({"C": shape[0] // 4}, ["cuda:0"], "cuda:0"))
    ways: dict[str, Callable[[], Tensor]] = {
        "by hand": partial(sense_normal, maps, image, mask),
        "A.N": partial(A.N, image),
        "A.N, a captured graph": replayed,
        "in 4 tiles": partial(tiles.N, image),
    }
    compare(f"SENSE normal, {shape}", ways)


def gradients(shape: tuple[int, int, int], n_steps: int = 30) -> None:
    """Conjugate gradients."""
    maps, image = noise(*shape).cuda(), noise(*shape[1:]).cuda()
    mask = (torch.rand(shape[1:], generator=GENERATOR) < 0.25).cuda()
    normal = scanner(maps, mask).N
    y = normal(image)

    def by_hand() -> Tensor:
        x, r = torch.zeros_like(y), y.clone()
        p, rr = r.clone(), torch.linalg.vecdot(r.ravel(), r.ravel())
        for _ in range(n_steps):
            q = sense_normal(maps, p, mask)
            step = rr / torch.linalg.vecdot(p.ravel(), q.ravel())
            x += step * p
            r -= step * q
            new = torch.linalg.vecdot(r.ravel(), r.ravel())
            p = r + new / rr * p
            rr = new
        return x

    ways: dict[str, Callable[[], Tensor]] = {
        "by hand, nothing checked": by_hand,
        "conjugate_gradients": partial(
            conjugate_gradients, normal, y, max_num_iters=n_steps, gtol=0, ltol=0
        ),
    }
    compare(f"{n_steps} steps of conjugate gradients, SENSE {shape}", ways, number=1)


def sent(shape: tuple[int, int, int]) -> None:
    """An operator whose vectors stay on the host: against the time of the copies alone."""
    maps, image = noise(*shape), noise(*shape[1:])
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    A = FFT(2) @ S
    B = create_batched_linop(A, BatchSpec({"C": 4}, ["cuda:0"], "cpu"))
    y = A(image)
    on_gpu, pinned = y.cuda(), torch.empty_like(y, pin_memory=True)
    maps_on_gpu = maps.cuda()

    def copy_alone() -> Tensor:
        return pinned.copy_(on_gpu, non_blocking=True)

    def by_hand() -> Tensor:
        y: Tensor = torch.fft.fft2(maps_on_gpu * image.cuda(), norm="ortho")
        return y.cpu()

    forward: dict[str, Callable[[], Tensor]] = {
        "the copy of the result alone, pinned": copy_alone,
        "by hand, one after the other": by_hand,
        "in tiles of 4 coils": partial(B, image),
    }
    compare(f"From the host and back, {shape}: forward", forward, number=1)
    kspace = y.pin_memory()

    def back_by_hand() -> Tensor:
        z: Tensor = torch.fft.ifft2(kspace.cuda(), norm="ortho")
        return (maps_on_gpu.conj() * z).sum(0).cpu()

    back: dict[str, Callable[[], Tensor]] = {
        "by hand, one after the other": back_by_hand,
        "in tiles of 4 coils": partial(B.H, kspace),
    }
    compare(f"From the host and back, {shape}: adjoint", back, number=1)


def x_rays(n: int, n_angles: int, kind: str, step: float) -> None:
    """Projections of an image on the CPU and on the GPU."""
    angles = torch.arange(n_angles) * step % math.pi
    image = torch.rand(n, n, generator=GENERATOR)
    R = ParallelBeam(angles, n, (n, n))
    on_gpu = ParallelBeam(angles, n, (n, n)).to("cuda")
    y = R(image)
    there, y_there = image.cuda(), y.cuda()
    forward = {"on the CPU": partial(R, image), "on the GPU": partial(on_gpu, there)}
    title = f"X-rays, {n} x {n}, {n_angles} {kind} angles"
    compare(f"{title}: forward", forward, number=1)
    back = {"on the CPU": partial(R.H, y), "on the GPU": partial(on_gpu.H, y_there)}
    compare(f"{title}: adjoint", back, number=1)


if __name__ == "__main__":
    main()
