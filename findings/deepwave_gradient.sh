#!/usr/bin/env bash
# Deepwave, scalar_born: it is linear in the scattering potential. Guessed: autograd gives its exact
# adjoint, as it does for the source amplitudes.
# Seen on 29 November 2026 (deepwave 0.1.0, torch 2.13.0, CPU, double precision, Python 3.11): only if
# dt is below the limit of stability. Above it deepwave takes several steps in a dt, and the gradient
# to the model adds one of them: with white noise as a source and dt = 4 ms the inner products differ
# by 3 to 11 % (dt = 1 ms: 1e-14). Sources far below the Nyquist frequency hide it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 deepwave==0.1.0
OMP_NUM_THREADS=1 "$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import torch
from deepwave import scalar_born

torch.manual_seed(0)
speed = torch.full((30, 30), 1500.0, dtype=torch.float64)
speed[15:] = 2000
source = torch.randn(1, 1, 120, dtype=torch.float64)
inside = torch.zeros(30, 30, dtype=torch.float64)
inside[1:-1, 1:-1] = 1


def gap(dt):
    potential = (inside * torch.randn(30, 30, dtype=torch.float64)).requires_grad_()
    y = scalar_born(
        speed,
        5.0,
        dt,
        dv=potential,
        source_amplitudes=source,
        source_locations=torch.tensor([[[10, 10]]]),
        sc_receiver_locations=torch.tensor([[[20, 20], [5, 7]]]),
        pml_freq=25.0,
    )[-1]
    v = torch.randn_like(y)
    (gradient,) = torch.autograd.grad(y, potential, v)
    there, here = (y * v).sum().item(), (potential * gradient).sum().item()
    return abs(there - here) / max(abs(there), abs(here))


gaps = {dt: [gap(dt) for _ in range(3)] for dt in (0.001, 0.004)}
print("deepwave", version("deepwave"), gaps)
assert max(gaps[0.001]) < 1e-10 and max(gaps[0.004]) > 0.02, "the behaviour has changed"
PYTHON
