"""The SENSE normal operator, 8 coils, 24 slices of 128 x 96: written by hand, whole, in tiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from by_hand import sense_normal
from interleaved import interleaved, print_timings
from torch import Tensor

from torchlinops import FFT, Dense, Sampling, batch_linop

C, NZ, NX, NY = 8, 24, 128, 96


def main() -> None:
    """Check that all ways agree, then time them in turns."""
    generator = torch.Generator().manual_seed(0)
    shape = (C, NZ, NX, NY)
    maps = torch.randn(shape, dtype=torch.complex64, generator=generator)
    image = torch.randn(shape[1:], dtype=torch.complex64, generator=generator)
    mask = torch.rand(shape[2:], generator=generator) < 0.25

    S = Dense(maps, ("C", "Nz", "Nx", "Ny"), ("Nz", "Nx", "Ny"), ("C", "Nz", "Nx", "Ny"))
    A = Sampling.from_mask(mask) @ FFT(2, centered=True) @ S

    def by_hand_in_tiles() -> Tensor:
        tiles = (sense_normal(maps[c : c + 1], image, mask) for c in range(C))
        return sum(tiles, torch.zeros_like(image))

    ways: dict[str, Callable[[], Tensor]] = {
        "by hand": partial(sense_normal, maps, image, mask),
        "by hand, coil by coil": by_hand_in_tiles,
        "A.N": partial(A.N, image),
    }
    for sizes in ({"C": 1}, {"C": 2, "Nz": 4}, {"Nz": 1}):
        ways[f"A.N in tiles of {sizes}"] = partial(batch_linop(A, sizes).N, image)
    expected = sense_normal(maps, image, mask)
    for work in ways.values():
        torch.testing.assert_close(work(), expected)
    threads = torch.get_num_threads()
    print_timings(f"SENSE normal operator, {threads} threads", interleaved(ways))


if __name__ == "__main__":
    main()
