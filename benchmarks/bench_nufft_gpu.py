"""A NUFFT on a GPU by each method, in two and three dimensions, for several numbers of coils.

    python benchmarks/bench_nufft_gpu.py        # needs torch for CUDA, and cufinufft
    python benchmarks/bench_nufft_gpu.py cpu    # a rehearsal: small, with finufft as the stand-in

"finufft" is cufinufft on a GPU. "auto" says what it took: the table, if there is one, until this
script has shown what is faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import torch
from bench_gpu import compare, noise
from torch import Tensor

from linops_imaging import NUFFT, trajectories

Ways = dict[str, Callable[[], Tensor]]


def main(device: str) -> None:
    """Measure each, in two minutes on a GPU."""
    if device == "cuda" and not torch.cuda.is_available():
        print("bench_nufft_gpu needs a GPU, found none: nothing was measured")
        return
    is_gpu = device == "cuda"
    print(torch.cuda.get_device_name() if is_gpu else "a rehearsal on the CPU")
    for tol in (1e-2, 1e-3, 1e-4):
        for n_coils in (1, 8, 32):
            radial(device, (n_coils, *[256 if is_gpu else 32] * 2), tol)
    for n_coils in (1, 8):
        radial(device, (n_coils, *[128 if is_gpu else 8] * 3), 1e-3)


def radial(device: str, shape: tuple[int, ...], tol: float) -> None:
    """Time forward, adjoint, normal operator and the first call of both directions."""
    sizes, n = shape[1:], shape[1]
    if len(sizes) == 2:
        locs = trajectories.radial_2d(402 if n > 99 else 20, n, n)
    else:
        locs = trajectories.radial_3d(1563 if n > 99 else 20, n, n)
    locs, x = locs.to(device), noise(*shape).to(device)

    def made(method: str, *, toeplitz: bool = False) -> NUFFT:
        return NUFFT(
            locs,
            sizes,
            ("S", "K"),
            batch_shape=("C",),
            method=method,
            tol=tol,
            toeplitz=toeplitz,
            table_budget=2**32 if method == "table" else None,
        )

    def once(method: str) -> Tensor:
        A = made(method)
        back: Tensor = A.H(A(x))
        return back

    there: Ways = {}
    back: Ways = {}
    normal: Ways = {}
    first: Ways = {}
    for method in ("finufft", "table", "interpolate", "auto"):
        try:
            A, T = made(method), made(method, toeplitz=True)
            y = A(x)
        except ImportError as error:
            print(f"{method}: {error}")
            continue
        name = f"auto, {A.method}" if method == "auto" else method
        there[name], back[name] = partial(A, x), partial(A.H, y)
        normal[name], first[name] = partial(A.N, x), partial(once, method)
    normal["Toeplitz"] = partial(T.N, x)
    number = 10 if x.is_cuda else 1
    title = f"NUFFT, {shape}, {locs.shape[:-1].numel()} locations, {tol=}"
    for what, ways in (("forward", there), ("adjoint", back), ("normal", normal)):
        compare(f"{title}: {what}", ways, number)
    compare(f"{title}: made, and first calls", first, 1)


if __name__ == "__main__":
    main(*sys.argv[1:] or ["cuda"])
