#!/usr/bin/env bash
# sdeconv, SRichardsonLucy and SWiener. Guessed: the mirrored point spread function is the adjoint of
# the blur, and the regularisation leaves a constant image as it is.
# Seen on 29 November 2026 (sdeconv 1.0.4, torch 2.13.0, CPU, Python 3.11): the function is mirrored
# after its middle was moved to index 0, so the mirror image is off by one pixel in each axis: the
# middle of a blurred point wanders by 0.4 pixels, where it stays within 0.01 with the adjoint. In
# three dimensions, SWiener's Laplacian counts one neighbour twice and one not at all: a constant image
# of 1 becomes 1 / (1 + beta). In two dimensions it stays 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 scipy==1.17.1 \
    scikit-image==0.26.0
# Its networks, which are not used here, need torchvision.
"$folder/env/bin/python" -m pip install --quiet --no-deps sdeconv==1.0.4
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import sys
from importlib.metadata import version
from unittest.mock import MagicMock

import torch

sys.modules |= dict.fromkeys(("torchvision", "torchvision.transforms"), MagicMock())
from sdeconv.deconv import SRichardsonLucy, SWiener
from sdeconv.psfs import SPSFGaussian

print("sdeconv", version("sdeconv"))
psf = SPSFGaussian((1.5, 1.5), (32, 32))()
point = torch.full((32, 32), 0.1)
point[16, 16] = 10
spectrum = torch.fft.fft2(torch.roll(psf, (-16, -16), (0, 1)))
blurred = torch.fft.ifft2(torch.fft.fft2(point) * spectrum).real


def middle(image):
    weights = (image - 0.1).sum(1)
    return (weights * torch.arange(32.0)).sum().item() / weights.sum().item()


estimate = blurred.clone()
for _ in range(100):
    ratio = blurred / torch.fft.ifft2(torch.fft.fft2(estimate) * spectrum).real
    estimate = estimate * torch.fft.ifft2(torch.fft.fft2(ratio) * spectrum.conj()).real
gaps = middle(SRichardsonLucy(psf, niter=100)(blurred)) - 16, middle(estimate) - 16
print("middle of a blurred point after 100 steps: off by", gaps[0], "with the adjoint", gaps[1])

flat = SWiener(SPSFGaussian((1.0, 1.0), (8, 8))(), 0.1)(torch.ones(8, 8)).mean().item()
deep = SWiener(SPSFGaussian((1.0,) * 3, (8,) * 3)(), 0.1)(torch.ones(8, 8, 8)).mean().item()
print("a constant image of 1, beta = 0.1: 2-D", flat, "3-D", deep)
assert abs(gaps[0]) > 0.2 > 0.05 > abs(gaps[1]), "the behaviour has changed"
assert abs(flat - 1) < 1e-3 and abs(deep - 1 / 1.1) < 1e-3, "the behaviour has changed"
PYTHON
