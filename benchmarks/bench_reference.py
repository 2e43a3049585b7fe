"""torch-named-linops, the library whose names we keep: its calls and its SENSE normal.

Its import name is that of our umbrella package, so it needs an environment without ours. What it
is compared with is the hand-written torch of bench_linops_core, on operands of the same sizes:
the ratios compare, the times of two processes do not.
"""

from __future__ import annotations

import importlib
import warnings
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import torch
from by_hand import five_products, sense_normal
from calls import print_extra
from interleaved import interleaved, print_timings
from torch.fft import fft

DISTRIBUTION = "torch-named-linops"
C, N = 8, 256
GENERATOR = torch.Generator().manual_seed(0)


def main() -> None:
    """Run both parts, without autograd, or say why they are left out."""
    torch.set_num_threads(1)  # cores are shared
    try:
        library = reference()
    except Exception as error:  # whatever goes wrong there, the others can be timed
        print(f"{DISTRIBUTION} is left out: {type(error).__name__}: {error}")
        return
    with torch.no_grad():
        calls(library)
        sense(library)


def reference() -> Any:
    """Import the library, and see that it is the one of that distribution."""
    installed = Path(str(distribution(DISTRIBUTION).locate_file("torchlinops/__init__.py")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = importlib.import_module("torchlinops")
    result = Path(str(library.__file__))
    if not result.samefile(installed):
        raise PackageNotFoundError(f"torchlinops must be {installed}, got {result}")
    return library


def release() -> str:
    """Return the name and version of the library."""
    return f"{DISTRIBUTION} {distribution(DISTRIBUTION).version}"


def calls(library: Any) -> None:
    """Time the call of an operator on 64 elements."""
    x, w, v = (torch.randn(n, dtype=torch.complex64, generator=GENERATOR) for n in (64, 64, 8))
    matrix = torch.randn(8, 8, dtype=torch.complex64, generator=GENERATOR)
    D, M, F = library.Diagonal(w, ("N",)), library.Dense(matrix), library.FFT(1)
    five = library.Chain(D, D, D, D, D)
    torch.testing.assert_close(five(x), five_products(w, x))
    print_extra(
        f"{release()}: calls on 64 elements, over the bare operation",
        {
            "Diagonal": (partial(D, x), lambda: w * x),
            "Diagonal.H": (partial(D.H, x), lambda: w.conj() * x),
            "Dense 8 x 8": (partial(M, v), lambda: matrix @ v),
            "FFT": (partial(F, x), lambda: fft(x, norm="ortho")),
            "chain of five Diagonals": (partial(five, x), partial(five_products, w, x)),
        },
    )


def sense(library: Any) -> None:
    """Time the SENSE normal operator, centred transforms as users write them."""
    maps = torch.randn(C, N, N, dtype=torch.complex64, generator=GENERATOR)
    image = torch.randn(N, N, dtype=torch.complex64, generator=GENERATOR)
    mask = (torch.rand((N, N), generator=GENERATOR) < 0.25).to(torch.float32)
    S = library.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    F = library.FFT(2, batch_shape=("C",), centered=True)
    M = library.Diagonal(mask, ("C", "Kx", "Ky"), broadcast_dims=("C",))
    ways = {
        "by hand": partial(sense_normal, maps, image, mask),
        f"{DISTRIBUTION}, a mask": partial((M @ F @ S).N, image),
    }
    expected = sense_normal(maps, image, mask)
    for name, work in ways.items():
        torch.testing.assert_close(work(), expected, rtol=1e-3, atol=1e-2, msg=name)
    title = f"{release()}: SENSE normal, {C} coils, {N} x {N}, centred FFT, 1 thread"
    print_timings(title, interleaved(ways, rounds=31))


if __name__ == "__main__":
    main()
