#!/usr/bin/env bash
# SMART_MRS, artifacts of spectra. Guessed: the phase of a spurious echo, "in radians", turns it; a first-order
# phase of tshift, "in ms", is that of a signal which begins so much later; and the width of a Gaussian peak is
# its "FWHM".
# Seen on 30 November 2026 (SMART_MRS 2.1, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): a phase of 2 leaves the
# phase as it is and makes the echo exp(2) = 7.4 times as large. The phase of the shift is 10^9 times that of
# tshift in ms. The Gaussian peak has 0.83 of the width, the Lorentzian one is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 nibabel==5.4.2 SMART-MRS==2.1
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from SMART_MRS import artifacts

print("SMART_MRS", version("SMART_MRS"))
size, interval, megahertz = 4096, 0.5e-3, 127.7
time = np.arange(size) * interval


def echo(phase):
    empty = np.zeros((1, size), complex)
    settings = {"amp": [1.0], "cs": [3.0], "t_echo": [0.5], "t2": [0.05]}
    return artifacts.add_spur_echo_artifact(empty, time, phase=[phase], **settings)[0][0]


ratio = echo(2.0) / echo(0.0)
print(f"echo with a phase of 2 over that with 0: {ratio[0]:.3f}, guessed {np.exp(2j):.3f}")
assert np.allclose(ratio, np.exp(2)), "the behaviour has changed"

hertz = np.fft.fftshift(np.fft.fftfreq(size, interval))
ppm = hertz / megahertz + 4.65
ppm_middle = np.median(ppm)
signal = np.exp(2j * np.pi * 100 * time - 20 * time)[None]
spectrum = np.fft.fftshift(np.fft.fft(signal[0]))
for factor in (1, 1e-9):
    shifted = artifacts.add_first_order_phase_shift(signal.copy(), ppm, tshift=0.1 * factor)[0][0]
    found = np.fft.fftshift(np.fft.fft(shifted)) / spectrum
    right = np.exp(-2j * np.pi * (ppm - ppm_middle) * megahertz * 1e-4)  # 0.1 ms
    print(f"tshift={0.1 * factor}: off from a shift by 0.1 ms by {np.abs(found - right).max():.2g}")
    assert (np.abs(found - right).max() > 1) == (factor == 1), "the behaviour has changed"

for kind, expected in (("G", 0.833), ("L", 1)):
    peak = {"peak_type": kind, "amp": [1.0], "width": [0.1], "res_freq": [4.65]}
    empty = np.zeros((1, size), complex)
    fid = artifacts.add_nuisance_peak(empty, time, peak | {"phase": [0.0], "edited": None})[0][0]
    fid[0] /= 2  # half of the first point: no offset of the spectrum
    line = np.fft.fft(fid, 64 * size).real
    half = np.argmax(line < line[0] / 2) / (64 * size * interval)
    width = 2 * half / megahertz
    print(f"type {kind} of width 0.1 ppm: full width at half maximum {width:.4f} ppm")
    assert np.isclose(width, 0.1 * expected, rtol=0.01), "the behaviour has changed"
PYTHON
