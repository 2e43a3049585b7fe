#!/usr/bin/env bash
# MERLIN (merlinth), DCPM, the layer of data consistency by conjugate gradients. Guessed: gradients reach
# each argument that asks for one, as those of its other layer DCGD do, or are refused.
# Seen on 29 November 2026 (merlinth-mri 0.4.2, torch 2.13.0, NumPy 2.4.6, Python 3.11): the gradients of the
# image and of the weight are right. Those of the k-space and of the coil maps are left out without a word,
# so that a network before them does not learn. And the tolerance is absolute: of data scaled by 1e-7 the
# result is 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 six==1.17.0
"$folder/env/bin/python" -m pip install --quiet --no-deps merlinth-mri==0.4.2
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import torch
from merlinth.layers.data_consistency import DCGD, DCPM
from merlinth.layers.mri import MulticoilAdjointOp, MulticoilForwardOp

print("merlinth-mri", version("merlinth-mri"))
torch.manual_seed(0)
operators = MulticoilForwardOp(center=True), MulticoilAdjointOp(center=True)
mask = (torch.rand(1, 1, 6, 6) < 0.7).double()
cotangent = torch.randn(1, 1, 6, 6, dtype=torch.complex128)
values = {
    "image": torch.randn(1, 1, 6, 6, dtype=torch.complex128),
    "k-space": torch.randn(1, 3, 6, 6, dtype=torch.complex128),
    "maps": torch.randn(1, 3, 6, 6, dtype=torch.complex128),
}


def objective(layer, image, kspace, maps):
    return (layer((image, kspace, mask, maps)) * cotangent).real.sum()


for kind in (DCGD, DCPM):
    layer = kind(*operators, max_iter=100, tol=1e-24).double()
    tensors = [value.clone().requires_grad_() for value in values.values()]
    objective(layer, *tensors).backward()
    for n, (name, tensor) in enumerate(zip(values, tensors)):
        direction = torch.randn_like(tensor)
        sides = []
        for step in (1e-5, -1e-5):
            moved = [each.detach().clone() for each in tensors]
            moved[n] += step * direction
            with torch.no_grad():
                sides.append(objective(layer, *moved))
        slope = float((sides[0] - sides[1]) / 2e-5)
        grad = tensor.grad
        found = 0.0 if grad is None else float((grad.conj() * direction).real.sum())
        print(f"{kind.__name__}, {name}: gradient {found:.4f}, differences {slope:.4f}")
        if kind is DCPM and name != "image":
            assert grad is None and abs(slope) > 1e-3, "the behaviour has changed"
        else:
            assert abs(found - slope) < 1e-4 * abs(slope), "the behaviour has changed"

layer = DCPM(*operators).double()
arguments = values["image"], values["k-space"], mask, values["maps"]
whole = layer(arguments)
small = layer((1e-7 * arguments[0], 1e-7 * arguments[1], *arguments[2:]))
print(
    "of data scaled by 1e-7, the norm is", float(small.norm() / whole.norm()), "times that of all"
)
assert small.norm() == 0 and whole.norm() > 1, "the behaviour has changed"
PYTHON
