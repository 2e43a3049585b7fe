"""Operators of imaging against the same written by hand in torch, and against other libraries."""

from __future__ import annotations

from collections.abc import Callable

import torch
from interleaved import interleaved, print_timings
from peers import importable
from torch import Tensor

from linops_imaging import Gradient, Wavelet

Ways = dict[str, Callable[[], Tensor]]


def main() -> None:
    """Time each operator after checking that all ways agree; in one thread, as PyWavelets runs."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with torch.no_grad():
        gradient(256)
        wavelet(8, 256)


def compare(title: str, ways: Ways, target: float) -> None:
    """Check that all ways return what the first does, and time them in turns."""
    expected, *others = (way() for way in ways.values())
    for result in others:
        scale = float(expected.abs().max())
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5 * scale)
    own = next(name for name in ways if name.startswith("ours"))
    print_timings(title, interleaved(ways), {own: target})


def gradient(n: int) -> None:
    """Forward differences of a volume, and their adjoint."""
    x = torch.randn(n, n, n)
    G = Gradient(("Nx", "Ny", "Nz"), x.shape, boundary="replicate")

    def there() -> Tensor:
        y = x.new_empty(3, *x.shape)
        for axis, part in enumerate(y):
            ahead, here = x.narrow(axis, 1, n - 1), x.narrow(axis, 0, n - 1)
            torch.sub(ahead, here, out=part.narrow(axis, 0, n - 1))
            part.narrow(axis, n - 1, 1).zero_()
        return y

    def back(y: Tensor) -> Tensor:
        first = y[0]
        z = first.new_empty(first.shape)
        torch.neg(first[0], out=z[0])
        torch.sub(first[:-2], first[1:-1], out=z[1:-1])
        z[-1].copy_(first[-2])
        for axis in (1, 2):
            differences = y[axis].narrow(axis, 0, n - 1)
            z.narrow(axis, 0, n - 1).sub_(differences)
            z.narrow(axis, 1, n - 1).add_(differences)
        return z

    ways: Ways = {"by hand, in place": lambda: back(there()), "ours, G.H(G(x))": lambda: G.H(G(x))}
    compare(f"Gradient and its adjoint, {n}^3 float32, one thread", ways, 1.2)


def wavelet(n_images: int, n: int, n_levels: int = 3) -> None:
    """The wavelet transform of images, periodic, as PyWavelets has it."""
    x = torch.randn(n_images, n, n)
    W = Wavelet("db4", ("Nx", "Ny"), [n, n], n_levels)
    libraries = importable(["pywt"])
    if "pywt" not in libraries:
        return
    pywt, array = libraries["pywt"], x.numpy()

    def packed() -> Tensor:
        result = pywt.wavedec2(array, "db4", mode="periodization", level=n_levels)
        return torch.from_numpy(pywt.coeffs_to_array(result, axes=(-2, -1))[0])

    y, slices = pywt.coeffs_to_array(
        pywt.wavedec2(array, "db4", mode="periodization", level=n_levels), axes=(-2, -1)
    )

    def unpacked() -> Tensor:
        result = pywt.array_to_coeffs(y, slices, output_format="wavedec2")
        return torch.from_numpy(pywt.waverec2(result, "db4", mode="periodization"))

    what = f"db4, {n_levels} levels, {n_images} x {n} x {n} float32, one thread"
    compare(f"Wavelet, {what}", {"PyWavelets": packed, "ours, W(x)": lambda: W(x)}, 1.3)
    coefficients = torch.from_numpy(y)
    ways: Ways = {"PyWavelets": unpacked, "ours, W.H(y)": lambda: W.H(coefficients)}
    compare(f"its adjoint, {what}", ways, 1.3)


if __name__ == "__main__":
    main()
