"""BART, Debian's package ``bart``."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from table import row

SECTION = "BART"


def write(name: Path, array: Any) -> None:
    """Write a pair of files; numbers are in the order of Fortran."""
    lengths = [*array.shape, *[1] * (16 - array.ndim)]
    name.with_suffix(".hdr").write_text("# Dimensions\n" + " ".join(map(str, lengths)) + "\n")
    name.with_suffix(".cfl").write_bytes(array.astype(np.complex64).tobytes("F"))


def bart(command: str, *arrays: Any) -> Any:
    """Return what a command makes of arrays, without axes of length 1."""
    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder, f"x{number}") for number in range(len(arrays))]
        for name, array in zip(names, arrays, strict=True):
            write(name, array)
        words = ["bart", *command.split(), *names, Path(folder, "out")]
        subprocess.run(words, check=True, capture_output=True)
        lengths = Path(folder, "out.hdr").read_text().splitlines()[1].split()
        numbers = np.fromfile(Path(folder, "out.cfl"), np.complex64)
        return numbers.reshape([int(length) for length in lengths], order="F").squeeze()


def line(locs: Any) -> Any:
    """Return a trajectory (3, K) along the first axis."""
    return np.stack([np.asarray(locs, float), *[np.zeros(len(locs))] * 2])


def exact(locs: Any, n: int, at: int) -> Any:
    return np.exp(-2j * np.pi * np.asarray(locs) * (at - n // 2) / n) / np.sqrt(n)


@row(
    SECTION,
    "bart",
    guess="`fft -i` inverts `fft`, and index 0 is frequency 0",
    here="`FFT(1, centered=True)`, which is `fft -u`; scale by sqrt(N) for `fft`",
)
def fft() -> str:
    x = np.eye(8)[5]
    there = bart("fft 1", x)
    assert np.allclose(there, exact(np.arange(-4, 4), 8, 5) * np.sqrt(8), atol=1e-6)
    assert np.allclose(bart("fft -i 1", there), 8 * x, atol=1e-5)
    assert np.allclose(bart("fft -u 1", x), exact(np.arange(-4, 4), 8, 5), atol=1e-6)
    return (
        "both are unscaled: `fft -i` of `fft` is N times x; centred at N // 2 unless `-n` is given"
    )


@row(
    SECTION,
    "bart",
    guess="`nufft` takes locations from -N / 2 to N / 2 and is periodic",
    here="`NUFFT(locs, ...)` with the same locations; `bart nufft -P` is periodic",
)
def nufft() -> str:
    locs = np.array([0.0, 1.3, 3.5, 4.0])
    found = bart("nufft", line(locs), np.eye(8)[4]) / exact(locs, 8, 4)
    periodic = bart("nufft -P", line(locs), np.eye(8)[4]) / exact(locs, 8, 4)
    assert abs(found[:2] - 1).max() < 2e-3 and abs(periodic - 1).max() < 2e-3, (found, periodic)
    return (
        "cycles per field of view, 1 / sqrt(N), errors near 1e-3; it fades at the end of the "
        f"grid: for N = 8, location 3.5 has {found[2].real:.2f} and 4 has {found[3].real:.2f} of it"
    )


@row(
    SECTION,
    "bart",
    guess="`nufft` is as good for odd sizes",
    here="`NUFFT`, or pad to an even size for BART",
)
def nufft_of_odd_sizes() -> str:
    errors = []
    for n in (64, 65):
        locs = np.linspace(-20, 20, 101)
        phases = np.angle(
            bart("nufft", line(locs), np.eye(n)[n // 2 + 1]) / exact(locs, n, n // 2 + 1)
        )
        errors.append(phases.mean() * n / (2 * np.pi))
    assert abs(errors[0]) < 1e-3
    return f"locations are off by {abs(errors[1]):.2f} for odd sizes: a phase along the image"


@row(
    SECTION,
    "bart",
    guess="`nufft -s`, the exact sum, has the scale of `nufft`",
    here="`NUFFT(..., tol=)`",
)
def nufft_sum() -> str:
    locs = np.linspace(-20, 20, 101)
    found = bart("nufft -s", line(locs), np.eye(64)[33]) / exact(locs, 64, 33)
    assert np.allclose(found, 8, atol=1e-3)
    return "it has no scale: sqrt(N) times `nufft`"


@row(
    SECTION,
    "bart",
    guess="`traj -r -x 8` has the samples -4 to 3 of a line, the first spoke along the first axis",
    here="`trajectories.radial_2d`: the first spoke along the first coordinate",
)
def traj() -> str:
    cartesian, radial = (bart(f"traj {option} -x 8 -y 2").real[:, :, 0] for option in ("", "-r"))
    assert np.allclose(cartesian[0], np.arange(-4, 4)) and np.allclose(radial[[0, 2]], 0, atol=1e-6)
    assert np.allclose(radial[1], np.arange(-3.5, 4))
    return "-3.5 to 3.5, along the second; without `-r` they are -4 to 3, along the first"


@row(
    SECTION,
    "bart",
    guess="`wavelet` has as many coefficients as pixels and keeps energy",
    here="`Wavelet`; `interop.from_pywt(..., mode=)` for extensions",
)
def wavelet() -> str:
    x = np.random.default_rng(0).standard_normal((64, 64))
    found = {kind: bart(f"wavelet -{kind} 3", x) for kind in "HDC"}
    energies = {kind: float((abs(w) ** 2).sum() / (x**2).sum()) for kind, w in found.items()}
    assert abs(energies["H"] - 1) < 1e-5 and found["H"].size == x.size
    back = bart("wavelet -D -a 3 64 64", found["D"])
    assert np.allclose(back, x, atol=1e-5)
    return (
        f"Haar does; of 64 x 64 pixels, `-D` has {found['D'].size} and `-C` {found['C'].size}, "
        f"with {energies['D']:.2f} and {energies['C']:.2f} of the energy; `-a` is the inverse"
    )


@row(
    SECTION,
    "bart",
    guess="`phantom` and sigpy's `shepp_logan` are one image",
    here="`phantoms.shepp_logan(sizes)` is sigpy's transposed: axis 0 to the right",
)
def phantom_axes() -> str:
    import sigpy

    usual, found = sigpy.shepp_logan((64, 64)).real, bart("phantom -x 64").real
    errors = {}
    for turned in (False, True):
        for flips in ((), (0,), (1,), (0, 1)):
            image = np.flip(found.T if turned else found, flips)
            shifts = [np.roll(image, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)]
            errors[turned, flips] = min(np.mean(abs(shifted - usual) > 0.05) for shifted in shifts)
    first, second, *_ = sorted(errors, key=errors.__getitem__)
    assert first == (False, (0,)) and errors[first] < 0.8 * errors[second], errors
    return "it is flipped along axis 0, and shifted by one pixel"


@row(
    SECTION,
    "bart",
    guess="cfl files have the order of C",
    here="`read_cfl`, `write_cfl`: axis 0 of the tensor is BART's dimension 0",
)
def cfl() -> str:
    x = np.arange(24.0).reshape(2, 3, 4)
    total = bart("slice 0 1", x)  # if the order were C, the slice would be another
    assert np.allclose(total, x[1])
    return "the first dimension is the fastest (Fortran's order), 16 dimensions, complex64"
