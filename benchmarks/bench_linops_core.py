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
from calls import microseconds, print_extra
from interleaved import interleaved, print_timings
from peers import calls_of_peers, peers
from results import record
from torch import Tensor
from torch.fft import fft, fftn, ifftn, ifftshift

from linops_core import FFT, Chain, Dense, Diagonal, Sampling

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
            part._memos.clear()  # as new
        times.append(timeit.timeit(lambda: A.H, number=1) * 1e6)  # noqa: B023 (called at once)
    cached = microseconds(lambda: A.H)
    record(title, "made", median(times), "us", low=min(times), high=max(times))
    record(title, "cached, at least", cached, "us")
    print(f"  made      {min(times):7.2f} us at least, {median(times):7.2f} in the median")
    print(f"  cached    {cached:7.3f} us at least")
    own = {tensor.untyped_storage().data_ptr() for tensor in A.buffers()}
    others = (A.H, A.N, A + A, A @ A, 2 * A)
    storages = {t.untyped_storage().data_ptr() for linop in others for t in linop.buffers()}
    assert storages == own
    print("  A.H, A.N, A + A, A @ A, 2 * A hold no storage but that of A")


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
        result = torch.as_tensor(np.asarray(work())).reshape(N, N)
        torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-2, msg=name)
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
        sense()


if __name__ == "__main__":
    main()
