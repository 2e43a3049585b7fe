#!/usr/bin/env bash
# pygirf, GirfProvider.window_time, which cuts an impulse response of gradients to a window of time. Guessed: a
# response which is inside of the window delays gradients as before, for any number of samples.
# Seen on 30 November 2026 (pygirf 0.2.1, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): so it is for even numbers. For
# odd ones the predicted gradient is a sample earlier, and its k-space wrong by as much.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 matplotlib==3.11.2 pygirf==0.2.1
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from pygirf import GirfApplier, GirfProvider

print("pygirf", version("pygirf"))
interval = 1e-5
t = np.arange(1000) * interval
gradient = np.exp(-(((t - 5e-3) / 5e-4) ** 2))[:, None]


def delay(girf):
    """Return by how many microseconds the response moves the middle of the gradient."""
    applier = GirfApplier(True, ["X"], [2], girf.girf, girf.freq)
    found = applier.predict_grad(t, gradient, pred_channels=["X"])[0][:, 0]
    return ((t @ found) / found.sum() - (t @ gradient[:, 0]) / gradient.sum()) * 1e6


for size in (2000, 2001):
    freq = (np.arange(size) - size // 2) / (size * interval)
    response = np.exp(-2j * np.pi * freq * 3e-4)[:, None, None]  # a delay by 30 samples
    girf = GirfProvider(True, ["X"], [2], response, freq)
    before = delay(girf)
    girf.convert_domain("freq2time")
    girf.window_time(10e-3)  # from -5 to 5 ms
    after = delay(girf)
    print(f"{size} samples, 300 us: delay {before:.1f} us, after window_time {after:.1f} us")
    assert np.isclose(before, 300, atol=2), "the behaviour has changed"
    assert np.isclose(before - after, 10 * (size % 2), atol=2), "the behaviour has changed"
PYTHON
