#!/usr/bin/env bash
# DeepInverse, CompressiveSpectralImaging. Guessed: A_adjoint is the adjoint of A, and with a mask
# of ones channel c of row r is measured in row r + c.
# Seen on 29 November 2026 (deepinv 0.5.0, torch 2.13.0, CPU, Python 3.11): for even sizes the pixel
# (2, 3) of channel 0 is measured at (1, 2), and A_adjoint moves by one more to (0, 1). With random
# images <A x, y> and <x, A^T y> have nothing in common.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 deepinv==0.5.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import torch

# torchvision's wheel for other devices registers these; here only their names are needed.
library = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import deepinv

torch.manual_seed(0)
physics = deepinv.physics.CompressiveSpectralImaging(
    (3, 6, 6), mask=torch.ones(1, 1, 6, 6), mode="sd"
)
x = torch.zeros(1, 3, 6, 6)
x[0, 0, 2, 3] = 1
y = physics.A(x)
places = y.nonzero()[:, 2:].tolist(), physics.A_adjoint(y)[:, 0].nonzero()[:, 1:].tolist()
matrix = torch.stack([physics.A(e.view(1, 3, 6, 6)).flatten() for e in torch.eye(108)], 1)
back = torch.stack(
    [physics.A_adjoint(e.view(y.shape)).flatten() for e in torch.eye(y.numel())], 1
)
common = ((back * matrix.T).sum() / matrix.square().sum()).item()
print(f"deepinv {deepinv.__version__}: (2, 3) -> {places[0]} -> {places[1]}; common part {common}")
assert places == ([[1, 2]], [[0, 1]]) and abs(common) < 0.05, "the behaviour has changed"
PYTHON
