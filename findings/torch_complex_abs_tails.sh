#!/usr/bin/env bash
# The derivative of torch.abs and torch.sgn at small complex numbers. Guessed: the direction, of
# magnitude 1, or 0, wherever the magnitude itself is right; and the same wherever a number stands.
# Seen on 29 November 2026 (torch 2.13.0, NumPy 2.4.6, CPU, Python 3.11): below 2.9e-39 the magnitude
# is right, sgn of one number is inf+nanj and that of 64 such numbers is 1, as in NumPy. So gradients
# of magnitudes of a Gaussian from -10 to 10 are NaN at its tails; in real numbers they are right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import math

import numpy as np
import torch

small = torch.tensor([1e-39], dtype=torch.complex64)
alone, among_64 = small.sgn().item(), small.repeat(64).sgn()[0].item()
of_numpy = np.sign(small.numpy()).item()
print("torch", torch.__version__, "abs:", small.abs().item(), "sgn:", alone, "of 64:", among_64)
print("NumPy", np.__version__, "sign:", of_numpy)
assert abs(small.abs().item() / 1e-39 - 1) < 1e-5 and of_numpy == among_64 == 1
assert math.isinf(alone.real) and math.isnan(alone.imag), "the behaviour has changed"

gaussian = torch.exp(-torch.linspace(-10, 10, 201).square())
n_nan = {}
for dtype in (torch.float32, torch.complex64):
    x = gaussian.to(dtype, copy=True).requires_grad_()
    x.abs().sum().backward()
    n_nan[dtype] = int(x.grad.isnan().sum())
print("NaN in the gradients of the magnitudes of a Gaussian:", n_nan)
assert n_nan[torch.float32] == 0 < n_nan[torch.complex64], "the behaviour has changed"
PYTHON
