"""Operators on grids against the same written by hand in torch: equal results, ratios of times."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import torch
from interleaved import interleaved, print_timings
from torch import Tensor
from torch.nn import functional

from linops_core import ArrayToBlocks, Convolution, Interpolate

N = 256
Ways = dict[str, Callable[[], Tensor]]


def main() -> None:
    """Time each operator and its adjoint after checking that all ways agree."""
    torch.manual_seed(0)
    with torch.no_grad():
        for length, stride in ((8, 8), (8, 4), (8, 2)):
            blocks(length, stride)
        for n_taps in (3, 5, 15):
            for n_batches in (1, 8):
                convolution(n_taps, n_batches, is_complex=False)
            convolution(n_taps, 1, is_complex=True)
        for n_batches in (1, 8):
            normal_of_convolution(n_batches)
            interpolation(n_batches)


def compare(title: str, ways: Ways) -> None:
    """Check that all ways return what the first does, and time them in turns."""
    expected, *others = (way() for way in ways.values())
    for result in others:
        scale = float(expected.abs().max())
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5 * scale)
    print_timings(title, interleaved(ways))


def blocks(length: int, stride: int) -> None:
    """Blocks of an image as views, and summed back."""
    x = torch.randn(N, N, dtype=torch.complex64)
    A = ArrayToBlocks((N, N), (length, length), (stride, stride))
    y = A(x).contiguous()
    n_windows, covered = y.shape[0], (y.shape[0] - 1) * stride + length

    def by_hand() -> Tensor:
        return x.unfold(0, length, stride).unfold(1, length, stride)

    def fold() -> Tensor:
        # torch's own knows real images only.
        parts = torch.view_as_real(y).permute(4, 2, 3, 0, 1).reshape(2, length**2, n_windows**2)
        whole = functional.fold(parts, (covered, covered), length, stride=stride)
        image = torch.complex(whole[0, 0], whole[1, 0])
        return functional.pad(image, (0, N - covered, 0, N - covered))

    def one_by_one() -> Tensor:
        whole = torch.zeros(N, N, dtype=x.dtype)
        for i, j in product(range(n_windows), repeat=2):
            corner = i * stride, j * stride
            whole[corner[0] : corner[0] + length, corner[1] : corner[1] + length] += y[i, j]
        return whole

    what = f"{N} x {N} complex64, blocks of {length} x {length}, stride {stride}"
    compare(f"ArrayToBlocks, {what}", {"by hand: unfold": by_hand, "A": lambda: A(x)})
    ways = {"by hand: fold of parts": fold, "A.H": lambda: A.H(y), "by hand: a loop": one_by_one}
    compare(f"its adjoint, {what}", ways)


def convolution(n_taps: int, n_batches: int, is_complex: bool) -> None:
    """Convolution of images with a kernel."""
    x = torch.randn(n_batches, N, N, dtype=torch.complex64)
    kernel = torch.randn(n_taps, n_taps, dtype=torch.complex64 if is_complex else torch.float32)
    weight = kernel.flip(0, 1)[None, None].to(x.dtype)
    adjoint = kernel.conj().resolve_conj()[None, None].to(x.dtype)

    def by_hand(weight: Tensor) -> Tensor:
        return functional.conv2d(x[:, None], weight, padding="same")[:, 0]

    def ways(method: str, is_adjoint: bool) -> Callable[[], Tensor]:
        A = Convolution(kernel, method=method)
        return (lambda: A.H(x)) if is_adjoint else (lambda: A(x))

    what = f"{n_batches} x {N} x {N} complex64, {n_taps} x {n_taps} {kernel.dtype}"
    compare(
        f"Convolution, {what}",
        {"by hand: conv2d": lambda: by_hand(weight)}
        | {f"A, {method}": ways(method, False) for method in ("auto", "direct", "fft")},
    )
    compare(
        f"its adjoint, {what}",
        {"by hand: conv2d": lambda: by_hand(adjoint), "A.H": ways("auto", True)},
    )


def normal_of_convolution(n_batches: int, n_taps: int = 15, length: int = 270) -> None:
    """The normal operator, and a loop over images that keeps the spectrum of the kernel."""
    x = torch.randn(n_batches, N, N, dtype=torch.complex64)
    kernel = torch.randn(n_taps, n_taps, dtype=torch.complex64)
    around = functional.pad(kernel, (0, length - n_taps, 0, length - n_taps))
    spectrum = torch.fft.fft2(around.roll((-(n_taps // 2),) * 2, (0, 1)))
    conjugate = spectrum.conj().resolve_conj()

    def by_hand() -> Tensor:
        y = torch.empty_like(x)
        for image, place in zip(x, y, strict=True):
            for factor in (spectrum, conjugate):
                image = torch.fft.fft2(image, s=(length, length)).mul_(factor)
                image = torch.fft.ifft2(image)[:N, :N]
            place.copy_(image)
        return y

    A = Convolution(kernel)
    compare(
        f"Convolution.N, {n_batches} x {N} x {N} complex64, {n_taps} x {n_taps} complex64",
        {"by hand: spectrum kept": by_hand, "A.N": lambda: A.N(x)},
    )


def interpolation(n_batches: int, n_points: int = N * N, width: int = 4) -> None:
    """Samples of twofold oversampled grids along random locations."""
    m = 2 * N
    locs = m * torch.rand(n_points, 2)
    A, B = (
        Interpolate(locs, (m, m), width=width, kernel_params={"beta": 9.0}, table_budget=budget)
        for budget in (None, 0)
    )
    x = torch.randn(n_batches, m, m, dtype=torch.complex64)
    y = torch.randn(n_batches, n_points, dtype=torch.complex64)

    def table() -> tuple[Tensor, Tensor]:
        """Return position and weight of all neighbours of all points."""
        first = (locs - width / 2).floor().long() + 1
        nodes = first[:, None] + torch.arange(width)[:, None]
        t = (nodes - locs[:, None]) / (width / 2)
        factors = torch.special.i0(9.0 * (1 - t**2).clamp(min=0).sqrt()) * (t.abs() < 1)
        nodes = nodes % m
        index = nodes[:, :, None, 0] * m + nodes[:, None, :, 1]
        weight = factors[:, :, None, 0] * factors[:, None, :, 1]
        return index.reshape(n_points, -1), weight.reshape(n_points, -1)

    kept = table()

    def there(tables: tuple[Tensor, Tensor]) -> Tensor:
        index, weight = tables
        return (x.flatten(1)[:, index] * weight).sum(-1)

    def back(tables: tuple[Tensor, Tensor]) -> Tensor:
        index, weight = tables
        grid = torch.zeros(n_batches, m * m, dtype=x.dtype)
        values = (y[:, :, None] * weight).flatten(1)
        return grid.index_add_(1, index.flatten(), values).reshape(x.shape)

    mib = sum(tensor.nbytes for tensor in kept) / 2**20
    what = f"{n_points} points, width {width}, {n_batches} x {m} x {m} complex64"
    kept_tables = f"by hand: tables kept, {math.ceil(mib)} MiB"
    compare(
        f"Interpolate, {what}",
        {"by hand: tables": lambda: there(table()), "A": lambda: A(x)}
        | {"A without a table": lambda: B(x)}
        | {kept_tables: lambda: there(kept)},
    )
    compare(
        f"its adjoint, {what}",
        {"by hand: tables": lambda: back(table()), "A.H": lambda: A.H(y)}
        | {"A.H without a table": lambda: B.H(y)}
        | {kept_tables: lambda: back(kept)},
    )


if __name__ == "__main__":
    main()
