#!/usr/bin/env bash
# Pty-Chi, shift_images and central_pad. Guessed: shift_images(..., adjoint=True) is the adjoint, as its
# documentation says, and central_crop takes back what central_pad did. Seen on 29 November 2026 (ptychi
# 2.2.0, torch 2.13.0, CPU, Python 3.11): it is without padding. With pad=1, both methods repeat the edge in
# both directions, and inner products differ by up to 8 % of the norms. central_pad from 9 to 12 pixels has
# the old middle, 4, at 5, and central_crop has the middle of 12, 6, at 4: an image moves by a pixel along
# both axes and loses an edge.
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

from ptychi.image_proc import central_crop, central_pad, shift_images

print("ptychi", version("ptychi"))
torch.manual_seed(0)
shifts = torch.tensor([[0.3, -1.2], [0.0, 2.0]], dtype=torch.float64)
for method in ("bilinear", "fourier"):
    for pad in (0, 1):
        gaps = []
        for _ in range(5):
            x, y = torch.randn(2, 2, 7, 8, dtype=torch.float64)
            Ax, Ay = shift_images(x, shifts, method, pad=pad), shift_images(y, shifts, method, True, pad)
            gaps.append(abs(float((Ax * y).sum() - (x * Ay).sum())) / float(Ax.norm() * y.norm()))
        print(f"{method}, pad {pad}: gap {max(gaps):.1e}")
        assert (max(gaps) > 0.01) == bool(pad), "the behaviour has changed"
x = torch.randn(9, 9)
for n in (11, 12):
    back = central_crop(central_pad(x, (n, n)), (9, 9))
    same, moved = torch.equal(back, x), torch.equal(back[:-1, :-1], x[1:, 1:])
    print(f"9 to {n} and back: the same {same}, moved {moved}")
    assert (same, moved) == ((True, False) if n == 11 else (False, True)), "the behaviour has changed"
PYTHON
