"""The SENSE normal operator, 8 coils, 24 slices of 128 x 96: written by hand, whole, in tiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from interleaved import interleaved, print_timings
from torch import Tensor
from torch.fft import fftn, fftshift, ifftn, ifftshift

from torchlinops import FFT, Dense, Sampling, batch_linop

C, NZ, NX, NY = 8, 24, 128, 96
GRID = (-2, -1)


def main() -> None:
    """Check that all ways agree, then time them in turns."""
    generator = torch.Generator().manual_seed(0)
    shape = (C, NZ, NX, NY)
    maps = torch.randn(shape, dtype=torch.complex64, generator=generator)
    image = torch.randn(shape[1:], dtype=torch.complex64, generator=generator)
    mask = torch.rand(shape[2:], generator=generator) < 0.25

    S = Dense(maps, ("C", "Nz", "Nx", "Ny"), ("Nz", "Nx", "Ny"), ("C", "Nz", "Nx", "Ny"))
    A = Sampling.from_mask(mask) @ FFT(2, centered=True) @ S

    def by_hand(some_maps: Tensor) -> Tensor:
        kspace = fftshift(fftn(ifftshift(some_maps * image, GRID), dim=GRID, norm="ortho"), GRID)
        coils: Tensor = fftshift(
            ifftn(ifftshift(kspace * mask, GRID), dim=GRID, norm="ortho"), GRID
        )
        return (some_maps.conj() * coils).sum(0)

    def by_hand_in_tiles() -> Tensor:
        return sum((by_hand(maps[c : c + 1]) for c in range(C)), torch.zeros_like(image))

    ways: dict[str, Callable[[], Tensor]] = {
        "by hand": partial(by_hand, maps),
        "by hand, coil by coil": by_hand_in_tiles,
        "A.N": partial(A.N, image),
    }
    for sizes in ({"C": 1}, {"C": 2, "Nz": 4}, {"Nz": 1}):
        ways[f"A.N in tiles of {sizes}"] = partial(batch_linop(A, sizes).N, image)
    expected = by_hand(maps)
    for work in ways.values():
        torch.testing.assert_close(work(), expected)
    threads = torch.get_num_threads()
    print_timings(f"SENSE normal operator, {threads} threads", interleaved(ways))


if __name__ == "__main__":
    main()
