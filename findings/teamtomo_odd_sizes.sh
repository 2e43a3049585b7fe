#!/usr/bin/env bash
# Two packages for cryo-EM on torch, torch-fourier-rescale and torch-fourier-slice, with odd sizes.
# Guessed: rescaling keeps the middle, N // 2, in the middle, and a projection with the identity as its
# rotation is about the sum along z, as it is for even sizes.
# Seen on 29 November 2026 (torch-fourier-rescale 0.6.0, torch-fourier-slice 0.6.0, torch 2.13.0, NumPy
# 2.4.6, Python 3.11): from 16 to 32 pixels the middle, 8, becomes 16; from 17 to 34 it becomes 15, not
# 17. The projection of a ball 8 pixels off the middle along y has an error of 28 % for 31 pixels and
# 26 % for 33; for 32, and along x, of 6 %. And a wave of the Nyquist frequency becomes twice as high
# along the last axis, and not along others.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 \
    torch-fourier-rescale==0.6.0 torch-fourier-slice==0.6.0 torch-ctf==0.6.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import torch
from torch_fourier_rescale import fourier_rescale_2d
from torch_fourier_slice import project_3d_to_2d

print(*(f"{name} {version(name)}" for name in ("torch-fourier-rescale", "torch-fourier-slice")))


def gaussian(size, *middle):
    axes = torch.meshgrid(*[torch.arange(size)] * len(middle), indexing="ij")
    squares = sum((axis - at) ** 2 for axis, at in zip(axes, middle))
    return torch.exp(-squares / (2 * 1.5**2))


def middle(image):
    axes = torch.meshgrid(*map(torch.arange, image.shape), indexing="ij")
    return [round(float((axis * image).sum() / image.sum()), 2) for axis in axes]


for size, target, expected in ((16, 32, 16), (17, 34, 15), (15, 30, 13)):
    image, _ = fourier_rescale_2d(gaussian(size, size // 2, size // 2), target_shape=(target, target))
    print(f"from {size} to {target}: the middle, {size // 2}, is at", middle(image))
    assert max(abs(at - expected) for at in middle(image)) < 0.05, "the behaviour has changed"
for size, of_y in ((32, 0.056), (31, 0.281), (33, 0.263)):
    at, errors = size // 2, []
    for middles in ((at, at + 8, at), (at, at, at + 8)):
        volume = gaussian(size, *middles)
        seen, summed = project_3d_to_2d(volume, torch.eye(3)[None]).squeeze(), volume.sum(0)
        errors.append(float((seen - summed).abs().max() / summed.max()))
    print(f"projection of {size}: error {errors[0]:.3f} off the middle along y, {errors[1]:.3f} along x")
    assert abs(errors[0] - of_y) < 0.01 and errors[1] < 0.07, "the behaviour has changed"
wave = torch.tensor([1.0, -1.0]).repeat(8).expand(16, 16)
along = [fourier_rescale_2d(each, target_shape=(32, 32))[0].max().item() for each in (wave, wave.mT)]
print(f"wave of 1, -1 along the last axis: {along[0]:.2f}; along the first: {along[1]:.2f}")
assert abs(along[0] - 2) < 1e-4 and abs(along[1] - 1) < 1e-4, "the behaviour has changed"
PYTHON
