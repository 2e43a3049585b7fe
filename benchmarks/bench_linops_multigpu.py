"""Several devices: what simulated ones take, what moves, and what issuing a tile costs the host.

The devices are simulated on the CPU, with durations that are given: this shows in which order a
machine would work, not how fast one is.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial
from statistics import median
from unittest.mock import patch

import torch
from interleaved import interleaved, print_timings
from results import record
from torch import Tensor

import linops_multigpu._execution._output as output
from linops_core import FFT, Dense, Diagonal
from linops_multigpu import BatchedLinop, BatchSpec, create_batched_linop
from linops_multigpu._devices._transfer import Transfer
from linops_multigpu.testing import World, simulated
from linops_split import batch_linop

COPY, KERNEL = 1e-3, 2e-3  # seconds
GENERATOR = torch.Generator().manual_seed(0)


def random(*lengths: int) -> Tensor:
    """Return normal noise."""
    return torch.randn(lengths, dtype=torch.complex64, generator=GENERATOR)


def remote(n_devices: int) -> list[str]:
    """Return the names of devices other than the base device."""
    return [f"sim:{k}" for k in range(1, n_devices + 1)]


def makespans() -> None:
    """Print how long 8 tiles take, in all and on each device, and the least that they can."""
    title = f"Simulated: copies of {COPY * 1e3:g} ms, kernels of {KERNEL * 1e3:g} ms"
    print(f"\n{title}: when all is done")
    for n_devices in (1, 2, 3):
        for n_tiles in sorted({8, 8 * n_devices}):
            with simulated() as world:
                B = diagonal_tiles(n_tiles, remote(n_devices), "sim:0")
                x = random(n_tiles).to("sim:0")
                B(x)  # which tests the way between the devices
                world.synchronize()
                world.set_cost(copy=COPY, kernel=KERNEL)
                B(x)
                times = world.timeline()
                total, busy = times.makespan, max(times.busy.values())
            least = COPY + busy + COPY
            work = f"{n_devices} devices, {n_tiles} tiles"
            bound = "the least: first copy, kernels, last copy"
            record(title, work, total / least, "x", against=bound, seconds=total)
            print(
                f"  {n_devices} devices, {n_tiles:2} tiles: {total * 1e3:5.1f} ms, "
                f"{total / busy:.3f} of the busiest device, {total / least:.3f} of the least "
                "(first copy, kernels, last copy)"
            )


def diagonal_tiles(n_tiles: int, devices: list[str], base: str) -> BatchedLinop:
    """Return a diagonal whose tiles have one element."""
    return create_batched_linop(
        Diagonal(random(n_tiles), ("N",)), BatchSpec({"N": 1}, devices, base)
    )


def memory_and_bytes() -> None:
    """Print the peak of each device and what is moved by a SENSE operator in tiles of one coil."""
    n_coils, side = 8, 256  # the test of the way between devices takes a quarter of a mebibyte
    maps, image = random(n_coils, side, side), random(side, side)
    A = FFT(2) @ Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    unit = image.nbytes
    title = f"SENSE, {n_coils} coils in tiles of one on 2 simulated devices"
    print(f"\n{title}; in images of {unit} bytes")
    for name in ("forward", "normal"):
        with simulated(3) as world:
            B = create_batched_linop(A, BatchSpec({"C": 1}, remote(2), "sim:0"))
            work = B if name == "forward" else B.N
            x = image.to("sim:0")
            work(x)
            world.synchronize()
            weights = world.allocated_nbytes("sim:1")
            moved = len(world.moved)
            y = work(x)
            world.synchronize()
            torch.testing.assert_close(
                y.cpu(), (A if name == "forward" else A.N)(image), rtol=1e-3, atol=1e-3
            )
            sent = sum(nbytes for *_, nbytes in world.moved[moved : moved + count(world, moved)])
            peak = world.peak_nbytes("sim:1") - weights
            least = 2 + (n_coils if name == "forward" else 2)
            record(title, f"{name}, moved", sent / unit, "images", target=least)
            record(title, f"{name}, peak of a device beside its weights", peak / unit, "images")
            print(
                f"  {name:8} moved {sent / unit:4.1f} (least: "
                f"{least}), peak of a device beside its "
                f"weights {peak / unit:4.1f}"
            )


def count(world: World, start: int) -> int:
    """Return how many copies between devices follow ``start``; the last is that of the check."""
    return sum("cpu" not in move[:2] for move in world.moved[start:])


def one_device() -> None:
    """Time a batched operator whose tiles are all on the CPU against linops_split's."""
    maps, image = random(8, 128, 128), random(128, 128)
    mask = (torch.rand((128, 128), generator=GENERATOR) < 0.25).to(torch.float32)
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    A = Diagonal(mask, ("...", "Kx", "Ky")) @ FFT(2) @ S
    ours = create_batched_linop(A, BatchSpec({"C": 1}, ["cpu"]))
    split = batch_linop(A, {"C": 1})
    torch.testing.assert_close(ours.N(image), split.N(image))
    ways: dict[str, Callable[[], object]] = {
        "batch_linop": partial(split.N, image),
        "create_batched_linop on the CPU": partial(ours.N, image),
    }
    print_timings("SENSE normal, 8 coils, 128 x 128, on one CPU", interleaved(ways, rounds=31))


class Passing(Diagonal):
    """Looks its weight up and does nothing, so that what is timed is all but the work."""

    @staticmethod
    def fn(linop: Diagonal, x: Tensor, /, out: Tensor | None = None) -> Tensor:
        """Return x."""
        linop.weight_part("weight")
        return x

    adj_fn = fn


def issuing() -> None:
    """Time what the host does for a tile beside torch's own calls: on ``meta``, nothing is done."""
    n_tiles = 64
    A = Passing(random(n_tiles, 16), ("M", "N"))
    B = create_batched_linop(A, BatchSpec({"M": 1}, ["meta"], "cpu"))
    x, nothing = random(n_tiles, 16), torch.zeros(1)

    def arrived(x: Tensor, there: object, here: object, **_: object) -> Transfer:
        return Transfer(x, there, here, nothing)  # type: ignore[arg-type] # of no device

    with patch.object(output, "issue", arrived):  # what is on meta cannot be copied back
        times = [each / n_tiles * 1e6 for each in timeit.repeat(partial(B, x), number=1, repeat=50)]
    title = "Issuing a tile, without the calls of a device's driver"
    record(title, "host", median(times), "us", low=min(times), high=max(times))
    print(f"\n{title}: {min(times):.1f} us at least, {median(times):.1f} in the median")


def main() -> None:
    """Run all parts, without autograd."""
    torch.set_num_threads(1)  # cores are shared
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread")
    with torch.no_grad():
        makespans()
        memory_and_bytes()
        one_device()
        issuing()


if __name__ == "__main__":
    main()
