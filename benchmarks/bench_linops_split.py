"""Cutting operators into tiles, and working tile by tile, against loops written by hand."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import TypeAlias

import torch
from interleaved import interleaved, print_timings
from torch import Tensor

from linops_core import FFT, Dense, Diagonal, NamedLinop
from linops_split import batch_linop, split_linop

Work: TypeAlias = Callable[[], object]

C, N = 8, 256
SIDE = 64
N_TILES = SIDE * SIDE
GENERATOR = torch.Generator().manual_seed(0)


def random(*lengths: int) -> Tensor:
    """Return normal noise."""
    return torch.randn(lengths, dtype=torch.complex64, generator=GENERATOR)


def check(found: Tensor, wanted: Tensor, name: str) -> None:
    """Compare two results of some thousand operations in single precision."""
    torch.testing.assert_close(
        found, wanted, rtol=1e-3, atol=1e-3, msg=lambda text: f"{name}: {text}"
    )


def cutting() -> None:
    """Time the cutting into tiles of one element, per tile and operator."""
    D = Dense(random(SIDE, SIDE))
    A = Dense(random(5, SIDE), ("K", "M")) @ D
    print(f"\nCutting into {N_TILES} tiles")
    for name, linop, n_operators in (("Dense", D, 1), ("chain of two", A, 2)):
        cut = partial(split_linop, linop, {"M": 1, "N": 1})
        assert cut()[0].size == N_TILES
        times = [each / N_TILES / n_operators * 1e6 for each in timeit.repeat(cut, number=1)]
        print(
            f"  {name:44} {min(times):7.2f} us per tile and operator at least, "
            f"{median(times):7.2f} in the median"
        )


def small_tiles() -> None:
    """Time operators in tiles that take no time, so that what counts is the time between."""
    matrix, x, w = random(N_TILES, 16), random(16), random(N_TILES, 16)
    rows, v = random(N_TILES, 16), random(N_TILES)
    M, D = Dense(matrix), Diagonal(w, ("C", "N"))
    R = Dense(rows, ("N", "K"), ("N",), ("K",))
    S = Dense(w, ("C", "N"), ("N",), ("C", "N"))

    def concatenated() -> Tensor:
        y = x.new_empty(N_TILES)
        for m in range(N_TILES):
            y[m : m + 1] = matrix[m : m + 1] @ x
        return y

    def multiplied() -> Tensor:
        y = torch.empty_like(matrix)
        for c in range(N_TILES):
            y[c : c + 1] = w[c : c + 1] * matrix[c : c + 1]
        return y

    def added() -> Tensor:
        y = x.new_zeros(16)
        for n in range(N_TILES):
            y += v[n : n + 1] @ rows[n : n + 1]
        return y

    def chained() -> Tensor:
        y = torch.empty_like(matrix)
        for c in range(N_TILES):
            y[c : c + 1] = matrix[c : c + 1] * (w[c : c + 1] * x)
        return y

    jobs: dict[str, tuple[NamedLinop, str, Tensor, Callable[[], Tensor]]] = {
        "rows of a Dense": (M, "M", x, concatenated),
        "columns of a Dense, added": (R, "N", v, added),
        "slices of a Diagonal": (D, "C", matrix, multiplied),
        "a chain of two, as coils": (Diagonal(matrix, ("C", "N")) @ S, "C", x, chained),
    }
    for name, (linop, dim, y, by_hand) in jobs.items():
        batched = batch_linop(linop, {dim: 1})
        check(batched(y), by_hand(), name)
        ways: dict[str, Work] = {"a loop by hand": by_hand, "in tiles": partial(batched, y)}
        print_timings(f"{name}, {N_TILES} tiles", interleaved(ways, rounds=11))


def sense() -> None:
    """Time the SENSE normal operator coil by coil."""
    maps, image = random(C, N, N), random(N, N)
    mask = (torch.rand((N, N), generator=GENERATOR) < 0.25).to(torch.float32)
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    A = Diagonal(mask, ("...", "Kx", "Ky")) @ FFT(2) @ S
    batched = batch_linop(A, {"C": 1})
    check(batched.N(image), A.N(image), "SENSE")

    def by_hand() -> Tensor:
        total = torch.zeros_like(image)
        for one in maps:
            kspace = torch.fft.fftn(one * image, norm="ortho").mul_(mask)
            total += torch.fft.ifftn(kspace, norm="ortho").mul_(one.conj())
        return total

    check(by_hand(), A.N(image), "SENSE by hand")
    ways: dict[str, Work] = {
        "whole": partial(A.N, image),
        "coil by coil": partial(batched.N, image),
        "coil by coil, by hand": by_hand,
    }
    print_timings(f"SENSE normal, {C} coils, {N} x {N}", interleaved(ways, rounds=31))


def main() -> None:
    """Run all parts, without autograd."""
    torch.set_num_threads(1)  # cores are shared
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread")
    with torch.no_grad():
        cutting()
        small_tiles()
        sense()


if __name__ == "__main__":
    main()
