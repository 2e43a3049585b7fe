#!/usr/bin/env bash
# pytorch_wavelets, DWTForward and DWTInverse with mode="symmetric" or "reflect". Guessed: autograd
# gives the transpose of the linear map, as it does with mode="zero".
# Seen on 29 November 2026 (pytorch-wavelets 1.3.0, PyWavelets 1.9.0, torch 2.13.0, CPU, Python 3.11):
# the gradient is that of zeros beyond the border: it is off by 48 to 83 % of its norm (db2, 8 x 8),
# in double precision and without a warning. With "zero" it is exact to rounding; so is
# "periodization" of even sizes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 setuptools==80.9.0 \
    PyWavelets==1.9.0 pytorch-wavelets==1.3.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import torch
from pytorch_wavelets import DWTForward, DWTInverse

torch.manual_seed(0)


def gap(linear_map, n):
    """Return how far the gradient of <v, A x> is from A^T v, in parts of its norm."""
    matrix = torch.stack([linear_map(e) for e in torch.eye(n, dtype=torch.float64)], 1)
    x = torch.zeros(n, dtype=torch.float64, requires_grad=True)
    v = torch.randn(matrix.shape[0], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(linear_map(x), x, v)
    return ((gradient - matrix.T @ v).norm() / (matrix.T @ v).norm()).item()


print("pytorch-wavelets", version("pytorch-wavelets"), "torch", torch.__version__)
for mode in ("zero", "periodization", "symmetric", "reflect"):
    there = DWTForward(J=1, wave="db2", mode=mode).double()
    back = DWTInverse(wave="db2", mode=mode).double()
    low, high = there(torch.zeros(1, 1, 8, 8, dtype=torch.float64))
    parts, shapes = [low.numel(), high[0].numel()], [low.shape, high[0].shape]

    def forward(x):
        low, high = there(x.reshape(1, 1, 8, 8))
        return torch.cat([low.flatten(), high[0].flatten()])

    def inverse(c):
        low, high = (c.reshape(s) for c, s in zip(c.split(parts), shapes))
        return back((low, [high])).flatten()

    gaps = gap(forward, 64), gap(inverse, sum(parts))
    print(f"{mode}: {gaps[0]:.1e} forward, {gaps[1]:.1e} inverse")
    is_exact = mode in ("zero", "periodization")
    assert all((g < 1e-12) if is_exact else (g > 0.3) for g in gaps), "the behaviour has changed"
PYTHON
