#!/usr/bin/env bash
# Pty-Chi, gradients of images and phases. Guessed: each is per pixel, whatever the method.
# Seen on 29 November 2026 (ptychi 2.2.0, torch 2.13.0, CPU, Python 3.11): of a phase that grows by 0.39 a
# pixel, get_phase_gradient(..., 1) has 0.39 with "fourier_shift" and half of it with "nearest", which is
# a difference of neighbours divided by twice the step; with the default step of 0 it is inf.
# "fourier_differentiation" is multiplied by abs(image)^2: four times as large for magnitudes of 2.
# gaussian_gradient of a ramp with slope 1 is 0.92, and 0.33 with sigma=2, as its five points cut the
# Gaussian off and are not scaled.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 ptychi==2.2.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import torch

# torchvision's wheel for other devices registers these; here only their names are needed.
library = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from ptychi.image_proc import gaussian_gradient, get_phase_gradient

print("ptychi", version("ptychi"))
slope = 2 * torch.pi / 16
image = 2 * torch.exp(1j * slope * torch.arange(16.0))[:, None].expand(16, 16)
found = {}
for method, step in (("fourier_shift", 1), ("nearest", 1), ("nearest", 0), ("fourier_differentiation", 1)):
    along_y = get_phase_gradient(image, step, method)[0]
    found[method, step] = float(along_y[8, 8]) / slope
    print(f"phase, {method}, step {step}: {found[method, step]:.3f} of the slope")
assert abs(found["fourier_shift", 1] - 1) < 1e-4, "the behaviour has changed"
assert abs(found["nearest", 1] - 0.5) < 1e-4, "the behaviour has changed"
assert found["nearest", 0] == float("inf"), "the behaviour has changed"
assert abs(found["fourier_differentiation", 1] - 4) < 1e-4, "the behaviour has changed"
ramp = torch.arange(16.0)[:, None].expand(16, 16)
slopes = [float(gaussian_gradient(ramp, sigma)[0][8, 8]) for sigma in (1.0, 2.0)]
print("gaussian_gradient of slope 1:", slopes)
assert abs(slopes[0] - 0.916) < 1e-3 and abs(slopes[1] - 0.330) < 1e-3, "the behaviour has changed"
PYTHON
