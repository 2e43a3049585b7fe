"""``A.N + lam I`` of a SENSE, compiled, beside the same without compiler: ``cuda`` or ``cpu``."""

from __future__ import annotations

import sys

import torch

from torchlinops import FFT, Dense, Identity, Sampling


def main(device: str) -> None:
    """Compare the values."""
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(4, 64, 64, dtype=torch.complex64, generator=generator)
    mask = torch.rand(64, 64, generator=generator) < 0.5
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    A = Sampling.from_mask(mask) @ FFT(2, centered=True) @ S
    B = (A.N + 0.1 * Identity(("Nx", "Ny"))).to(torch.device(device))
    x = torch.randn(64, 64, dtype=torch.complex64, generator=generator).to(device)
    compiled = torch.compile(B, fullgraph=True)
    torch.testing.assert_close(compiled(x), B(x), rtol=1e-4, atol=1e-4)
    print(f"compiled to one graph with {torch.__version__} on {device}: the same values")


if __name__ == "__main__":
    main(*sys.argv[1:])
