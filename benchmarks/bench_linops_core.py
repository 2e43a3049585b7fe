"""Operators against the bare operations of torch, and the SENSE normal against other libraries.

Libraries that are not installed are left out, with a line that says so.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
import torch
from by_hand import five_products, sense_normal
from calls import Work, microseconds, print_extra
from interleaved import interleaved, print_timings, record_ratio
from peers import calls_of_peers, peers
from results import record
from torch import Tensor
from torch.fft import fft, fft2, fftn, fftshift, ifftn, ifftshift

from linops_core import (
    FFT,
    Chain,
    Crop,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    PadLast,
    Repeat,
    Sampling,
    Scalar,
    SumReduce,
)

C, N = 8, 256
GRID = (-2, -1)
GENERATOR = torch.Generator().manual_seed(0)


def random(*lengths: int, dtype: torch.dtype = torch.complex64) -> Tensor:
    """Return normal noise."""
    return torch.randn(lengths, dtype=dtype, generator=GENERATOR)


def calls() -> None:
    """Time the call of an operator on 64 elements."""
    x, w = random(64), random(64)
    matrix, v = random(8, 8), random(8)
    D, M, F = Diagonal(w, ("N",)), Dense(matrix), FFT(1)
    five = Chain(D, D, D, D, D)

    title = "Calls on 64 elements, over the bare operation"
    print_extra(
        title,
        {
            "Diagonal": (partial(D, x), lambda: w * x),
            "Diagonal.H": (partial(D.H, x), lambda: w.conj() * x),
            "Dense 8 x 8": (partial(M, v), lambda: matrix @ v),
            "FFT": (partial(F, x), lambda: fft(x, norm="ortho")),
            "chain of five Diagonals": (partial(five, x), partial(five_products, w, x)),
        },
        {name: 3 for name in ("Diagonal", "Diagonal.H", "Dense 8 x 8", "FFT")}
        | {"chain of five Diagonals": 8},
    )
    print_extra(f"{title}, other libraries", calls_of_peers(w, x))


def derived() -> None:
    """Time the making of an adjoint, and the access to one that is there."""
    parts = [Diagonal(random(64), ("N",)) for _ in range(5)]
    title = "Adjoint of a chain of five"
    print(f"\n{title}")
    times = []
    for _ in range(300):
        A = Chain(*(part.resolved() for part in parts))
        for part in A.linops:
            part._found.pop("adjoint", None)  # as new
        times.append(timeit.timeit(lambda: A.H, number=1) * 1e6)  # noqa: B023 (called at once)
    cached = microseconds(lambda: A.H)
    record(title, "made", median(times), "us", low=min(times), high=max(times), target=50)
    record(title, "cached, at least", cached, "us", target=0.2)
    print(f"  made      {min(times):7.2f} us at least, {median(times):7.2f} in the median")
    print(f"  cached    {cached:7.3f} us at least")
    own = {tensor.untyped_storage().data_ptr() for tensor in A.buffers()}
    others = (A.H, A.N, A + A, A @ A, 2 * A)
    storages = {t.untyped_storage().data_ptr() for linop in others for t in linop.buffers()}
    assert storages == own
    print("  A.H, A.N, A + A, A @ A, 2 * A hold no storage but that of A")


def operators() -> None:
    """Time each operator on 256 x 256 against what one would write."""
    title = f"Operators on {N} x {N} complex64"
    print(f"\n{title}")
    x, w, maps = random(N, N), random(N, N), random(C, N, N)
    coils = random(C, N, N)
    matrix = random(N, N)
    mask = torch.rand((N, N), generator=GENERATOR) < 0.25
    ix, iy = mask.nonzero(as_tuple=True)
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    image = ("Nx", "Ny")
    pad = PadLast((2 * N, 2 * N), (N, N))
    half = N // 2

    def padded() -> Tensor:
        y = x.new_zeros(2 * N, 2 * N)
        y[half : half + N, half : half + N] = x
        return y

    jobs: dict[str, tuple[NamedLinop, Tensor, Callable[[], Tensor]]] = {
        "Diagonal": (Diagonal(w, image), x, lambda: w * x),
        "Diagonal.H": (Diagonal(w, image).H, x, lambda: w.conj() * x),
        "Diagonal.N": (Diagonal(w, image).N, x, lambda: w.conj() * (w * x)),
        "Scalar": (Scalar(2.0), x, lambda: 2.0 * x),
        "Identity": (Identity(), x, lambda: x),
        "Dense 256 x 256 on 256 columns": (
            Dense(matrix, ("M", "N"), ("B", "N"), ("B", "M")),
            x,
            lambda: x @ matrix.mT,
        ),
        "Dense, coil maps": (S, x, lambda: maps * x),
        "Dense, coil maps, adjoint": (S.H, coils, lambda: (maps.conj() * coils).sum(0)),
        "FFT": (FFT(2), x, lambda: fft2(x, norm="ortho")),
        "FFT, centred": (
            FFT(2, centered=True),
            x,
            lambda: fftshift(fft2(ifftshift(x, GRID), norm="ortho"), GRID),
        ),
        "Sampling": (Sampling.from_mask(mask), x, lambda: x[ix, iy]),
        "Sampling.N": (Sampling.from_mask(mask).N, x, lambda: x * mask),
        "PadLast": (pad, x, padded),
        "Crop": (
            Crop((half, half), (N, N)),
            x,
            lambda: x[half // 2 : half // 2 + half, half // 2 : half // 2 + half],
        ),
        "Repeat": (
            Repeat({"C": C}, image, ("C", *image)),
            x,
            lambda: x.expand(C, N, N),
        ),
        "SumReduce": (SumReduce(("C", *image), image), coils, lambda: coils.sum(0)),
    }
    for name, (A, z, bare) in jobs.items():
        torch.testing.assert_close(A(z), bare(), rtol=1e-4, atol=1e-3)
        number = max(1, int(5e-3 // timeit.timeit(bare, number=1)))
        ways: dict[str, Work] = {f"{name}, bare": bare, name: partial(A, z)}
        ours = interleaved(ways, rounds=51, number=number)[name]
        record_ratio(title, name, ours, against="bare", target=1.03)
        print(
            f"  {name:44} {ours.seconds * 1e3:8.3f} ms  {ours.ratio:5.3f}x bare "
            f"({ours.low:.2f} to {ours.high:.2f}; {ours.least:.3f}x of the least times)"
        )


def sense() -> None:
    """Time the SENSE normal operator, centred transforms as users write them."""
    maps, image = random(C, N, N), random(N, N)
    mask = torch.rand((N, N), generator=GENERATOR) < 0.25
    weight = mask.to(torch.float32)
    shifted = ifftshift(weight)
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    F = FFT(2, centered=True)

    def folded_by_hand() -> Tensor:
        kspace = fftn(maps * image, dim=GRID, norm="ortho") * shifted
        coils: Tensor = ifftn(kspace, dim=GRID, norm="ortho")
        return (maps.conj() * coils).sum(0)

    ways: dict[str, Callable[[], object]] = {
        "by hand": partial(sense_normal, maps, image, weight),
        "by hand, shifts folded into the mask": folded_by_hand,
        "ours, a Sampling": partial((Sampling.from_mask(mask) @ F @ S).N, image),
        "ours, a mask": partial((Diagonal(weight, ("...", "Kx", "Ky")) @ F @ S).N, image),
    }
    ways |= peers(maps, image, weight)
    expected = sense_normal(maps, image, weight)
    for name, work in ways.items():
        found = torch.as_tensor(np.asarray(work())).reshape(N, N)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-2, msg=name)
    threads = torch.get_num_threads()
    title = f"SENSE normal, {C} coils, {N} x {N}, centred FFT, {threads} threads"
    targets = {"ours, a Sampling": 0.75, "ours, a mask": 0.75}
    print_timings(title, interleaved(ways, rounds=31), targets)


def main() -> None:
    """Run all parts, without autograd."""
    torch.set_num_threads(1)  # as numpy's and torch's differ, and cores are shared
    with torch.no_grad():
        calls()
        derived()
        operators()
        sense()


if __name__ == "__main__":
    main()
