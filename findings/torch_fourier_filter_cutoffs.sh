#!/usr/bin/env bash
# torch-fourier-filter (cryo-EM). Guessed: a low-pass filter keeps the mean, and phases that are
# randomised belong to a real image. Seen on 29 November 2026 (torch-fourier-filter 0.6.0, torch 2.13.0,
# CPU, Python 3.11): "low_pass_filter" without a falloff is 0 at frequency 0, and an image loses its mean;
# with a falloff it is 1. "phase_randomize" has "cuton", a "fraction of Nyquist frequency" by its
# documentation, in cycles per pixel: 0.75 changes nothing up to the Nyquist frequency of either axis. On a
# full transform the phases of a frequency and its opposite are unrelated: the image is complex, and its
# real part has half of the energy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 torch-fourier-filter==0.6.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import torch
from torch_fourier_filter.bandpass import low_pass_filter
from torch_fourier_filter.phase_randomize import phase_randomize

print("torch-fourier-filter", version("torch-fourier-filter"))
torch.manual_seed(0)
shape = (64, 64)
image = torch.randn(shape) + 5
for falloff in (0.0, 0.05):
    response = low_pass_filter(0.25, falloff, shape, rfft=True, fftshift=False)
    mean = torch.fft.irfft2(torch.fft.rfft2(image) * response, s=shape).mean().item()
    print(f"low pass with a falloff of {falloff}: the mean {image.mean():.2f} becomes {mean:.2f}")
    assert abs(mean - (5 if falloff else 0)) < 0.05, "the behaviour has changed"

transform = torch.fft.rfft2(image)
frequency = torch.stack(
    torch.meshgrid(torch.fft.fftfreq(64), torch.fft.rfftfreq(64), indexing="ij")
).abs()
along_an_axis = frequency.min(0).values == 0
for cuton in (0.25, 0.45, 0.75):
    found = phase_randomize(transform, shape, rfft=True, cuton=cuton)
    changed = (found - transform).abs() > 1e-2 * transform.abs()
    on_axes = frequency.amax(0)[changed & along_an_axis]
    first = on_axes.amin().item() if len(on_axes) else None
    print(f"cuton {cuton}: the first frequency that changes on an axis, in cycles per pixel, is {first}")
    assert (first is None) if cuton > 0.5 else abs(first - cuton) < 0.02, "the behaviour has changed"

image -= 5
full = torch.fft.fft2(image)
found = torch.fft.ifft2(phase_randomize(full, shape, rfft=False, cuton=0.02))
ratio = (found.real.square().sum() / image.square().sum()).item()
print(f"full transform: the real part has {ratio:.2f} of the energy")
assert 0.4 < ratio < 0.6, "the behaviour has changed"
PYTHON
